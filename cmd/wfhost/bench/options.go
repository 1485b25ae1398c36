// Package bench measures the host on the machine that it runs on: what it does in a second, how late it is, what it
// takes of processors, memory and disk, and how that compares with what the disk and Pebble alone do at the same time.
//
// What all measurements have in common: the same kind of work goes on during a warm-up, whose end begins the measured
// time; from there on nothing is left out. Every commit is made durable, unless the user said otherwise. Where the
// question is a latency, operations begin at instants that were fixed before, and latencies count from these: an
// operation that had to wait for another one is as late as whoever asked for it would find it.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrUsage is what every error wraps that says that flags are wrong.
var ErrUsage = errors.New("usage")

// usageError is a sentence of its own that is ErrUsage.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }
func (e *usageError) Unwrap() error { return ErrUsage }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// Env is what a measurement needs of the command.
type Env struct {
	Ctx     context.Context
	Compile func(ctx context.Context, path string) ([]byte, error) // a folder with a Go program, or a .ts file
	Show    func(*Report) error
	// Compiler is the host.Config.Compiler of the hosts that are measured.
	Compiler []string
	Say      func(text string) // what goes on, for people
}

// Limits of what may be asked for.
const (
	// maxFor: figures of a machine do not become better after a day.
	maxFor = 24 * time.Hour
	// maxProbe: a minute of fsyncs says what there is to say, and Pebble's log of it still fits on a disk.
	maxProbe = time.Minute
	// maxOps bounds the samples, which are kept in memory with 8 bytes each.
	maxOps = 100_000_000
	// maxParallel bounds runs and callers at a time: each is a goroutine of the benchmark, which must not become what
	// is measured.
	maxParallel = 65_536
	// maxRate is more than a disk makes durable in a second, one by one.
	maxRate = 1_000_000
	// maxRuns bounds runs that are started before the measurement: some gigabytes of disk.
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

	InstanceReset string `help:"How instances are made new: ${enum}." enum:"auto,scan,drop,copy,none" default:"auto"`

	Cold bool `help:"Keep nothing of guests that sleep: each wake replays its journal."`

	GoSettings bool `help:"Leave Go's runtime as it is, as in a program that embeds the host and does not call host.Tune."`

	CPUProfile string `name:"cpu-profile" help:"CPU profile of what is measured, for go tool pprof." type:"path" placeholder:"FILE"`
}

// check looks at the flags, and puts defaults where nothing was said: least is the least time that makes sense.
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

// limits refuses what is out of them.
func (c *Common) limits() error {
	return errors.Join(span("for", c.For, 0, maxFor), span("warm-up", c.WarmUp, 0, maxFor), span("probe", c.Probe, time.Millisecond,
		maxProbe), between("n", c.N, 0, maxOps))
}

// between refuses a number outside of its limits.
func between(flag string, got, least, most int) error {
	if got < least || got > most {
		return usagef("--%s must be from %d to %d, got %d", flag, least, most, got)
	}
	return nil
}

// span refuses a time outside of its limits.
func span(flag string, got, least, most time.Duration) error {
	if got < least || got > most {
		return usagef("--%s must be from %v to %v, got %v", flag, least, most, got)
	}
	return nil
}
