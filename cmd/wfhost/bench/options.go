// Package bench measures the host on its machine: throughput, latency, lateness, and the use of processors, memory and
// disk, compared with what the disk and Pebble alone do at the same time.
//
// All measurements share these rules. The warm-up does the same work as the measured time, which begins when the
// warm-up ends; from there on every operation counts. Every commit is durable, unless the user chose otherwise. Where
// latency is measured, operations begin at fixed instants and latencies count from these instants, so a wait behind
// another operation is part of the latency, as it would be for a caller.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrUsage is wrapped by every error about wrong flags.
var ErrUsage = errors.New("usage")

// usageError is a complete sentence that wraps ErrUsage.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }
func (e *usageError) Unwrap() error { return ErrUsage }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// Env is what a measurement needs from the command.
type Env struct {
	Ctx     context.Context
	Compile func(ctx context.Context, path string) ([]byte, error) // a folder with a Go program, or a .ts file
	Show    func(*Report) error
	// Compiler is the host.Config.Compiler of the hosts that are measured.
	Compiler []string
	Say      func(text string) // progress, for people
}

// Limits of the flags.
const (
	// maxFor is a day: longer measurements do not improve the figures.
	maxFor = 24 * time.Hour
	// maxProbe is a minute: enough for fsyncs, and Pebble's log of it still fits on a disk.
	maxProbe = time.Minute
	// maxOps bounds the samples, which take 8 bytes of memory each.
	maxOps = 100_000_000
	// maxParallel bounds concurrent runs and callers. Each is a goroutine of the benchmark, which must not dominate
	// the figures.
	maxParallel = 65_536
	// maxRate is more than a disk syncs per second, one by one.
	maxRate = 1_000_000
	// maxRuns bounds the runs that are started before the measurement: some gigabytes of disk.
	maxRuns = 10_000_000
)

// Common are the flags of every measurement.
type Common struct {
	Dir    string        `help:"Folder for the data meanwhile: its disk is measured. Default: that of temporary files." type:"path"`
	For    time.Duration `help:"How long to measure; in place of --n." placeholder:"DURATION"`
	N      int           `name:"n" help:"How many operations to measure; in place of --for." placeholder:"COUNT"`
	WarmUp time.Duration `help:"How long the same goes on before, unmeasured." default:"1s"`
	Probe  time.Duration `help:"How long each of the machine's own figures is taken." default:"1s"`
}

// Hosted are the flags of measurements of a host.
type Hosted struct {
	Common `embed:""`

	Guest  string `help:"The workflows: small (made here), go, ts, c (compiled)." enum:"small,go,ts,c" default:"small"`
	Module string `help:"The workflows, as a compiled .wasm file, in place of --guest." type:"path" placeholder:"FILE"`
	NoSync bool   `help:"Make nothing durable: shows what the disk costs, and is no figure of a durable host."`

	Store string `help:"An empty PostgreSQL database for the runs, in place of Pebble: postgres://…" placeholder:"URL"`

	Cold bool `help:"Keep nothing of guests that sleep: each wake replays its journal."`

	GoSettings bool `help:"Leave Go's runtime as it is, as in a program that embeds the host and does not call host.Tune."`

	CPUProfile string `name:"cpu-profile" help:"CPU profile of what is measured, for go tool pprof." type:"path" placeholder:"FILE"`
}

// check validates the flags and sets defaults.
func (c *Common) check(defaultFor time.Duration, defaultN int) error {
	if c.For != 0 && c.N != 0 {
		return usagef("--for and --n say the same in two ways: give one of them, got %v and %d", c.For, c.N)
	}
	if c.For == 0 {
		c.N = cmp.Or(c.N, defaultN)
	}
	if c.For == 0 && c.N == 0 {
		c.For = defaultFor
	}
	return c.limits()
}

// limits returns an error if a flag is outside its limits.
func (c *Common) limits() error {
	return errors.Join(span("for", c.For, 0, maxFor), span("warm-up", c.WarmUp, 0, maxFor), span("probe", c.Probe, time.Millisecond,
		maxProbe), between("n", c.N, 0, maxOps))
}

// between returns an error if a number is outside its limits.
func between(flag string, got, least, most int) error {
	if got < least || got > most {
		return usagef("--%s must be from %d to %d, got %d", flag, least, most, got)
	}
	return nil
}

// span returns an error if a duration is outside its limits.
func span(flag string, got, least, most time.Duration) error {
	if got < least || got > most {
		return usagef("--%s must be from %v to %v, got %v", flag, least, most, got)
	}
	return nil
}
