package host

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/guest"
	"github.com/wfhost/wfhost/store"
)

// Config says how a host is opened. The zero value is usable: it keeps its data in the directory "data".
type Config struct {
	// Dir is the directory of the data: the store in Dir/store, compiled modules in Dir/cache (see CacheDir). Default "data". It is
	// created with mode 0700. Open refuses a directory that every user can write to, and a cache that belongs to
	// another user. If other users have lesser rights that are still too wide, Open removes those rights and logs it.
	// Only one host may have Dir open.
	Dir string
	// Store, if set, is used instead of a store in Dir; Close does not close it. Compiled modules are then kept in
	// memory, unless Dir or CacheDir is set too.
	Store store.Store
	// Logger receives the log of the host. Default: no log.
	Logger *slog.Logger
	// Clock is the clock of the host. Default: the machine's.
	Clock Clock
	// Partitions are the partitions that Open acquires, from 0 to NumPartitions-1. Default: nil, all of them; an
	// empty slice is none. A host runs the runs of the partitions that it owns. Calls for other partitions are
	// ErrFenced, except reads. Several hosts of one process may share a Store in this way.
	Partitions []int
	// Cluster makes the host one of several that share Store, and that take over each other's runs. It needs a store that can
	// be shared: package store/postgres. Default: nil, the host decides alone what it owns.
	Cluster *Cluster
	// Linger is how long an instance is kept while an attempt of one of its steps runs. A longer time costs memory, a
	// shorter one costs replays. Default 1 s; negative = not at all.
	Linger time.Duration
	// StartLinger is how long a start waits for its first activation, so that both share one commit. A slower start
	// is committed alone, at the cost of one more fsync. Default 50 ms.
	StartLinger time.Duration
	// Drain is how long Run waits, when its context is done, for attempts of steps in flight. Their outcomes are
	// recorded, so they are not repeated after the next start. Default 10 s; negative = not at all.
	Drain time.Duration
	// MaxInstances is how many guests compute at a time, each with at most 64 MiB. Default 16.
	MaxInstances int
	// MaxCallsPerHandler and MaxCalls are how many calls of handlers are in flight at a time: of one handler, and of all. Further
	// attempts wait, without memory; namespaces share the places. Workers are not limited. Default 64 and 1,024.
	MaxCallsPerHandler, MaxCalls int
	// MaxChildren is how many live children a run may have: children that were started and whose end the run has not
	// been told. A run that was started by another run gets half the limit of its parent, at least 1. A further start
	// is refused with LIMIT, which the workflow can handle. Default 1,000.
	MaxChildren int
	// GuestBytes roughly bounds the memory of all guests. Over it, guests wait, and a guest that has grown beyond 16
	// MiB may be evicted and replayed later; no run fails. Half is reserved for smaller guests, and half for guests
	// that are not bodies of steps: further bodies wait before they begin. Default 160 MiB, at least 128 MiB.
	GuestBytes int64
	// ParkBytes roughly bounds the memory of instances that are kept while a commit of their run or an attempt of one
	// of its steps is in flight. Instances over the bound are evicted, at the cost of a replay. Default 128 MiB;
	// negative keeps none.
	ParkBytes int64
	// WarmBytes roughly bounds the snapshots of guests that sleep or wait for a signal, which let them continue
	// without replaying their journal. A Go guest takes a few thousand bytes. Guests that wake soonest have
	// precedence, and runs that wait for a handler have a quarter. Default 64 MiB; negative keeps none.
	WarmBytes int64
	// JournalBytes roughly bounds the journals in memory of runs in progress. Journals below 64 KiB are not counted;
	// an entry counts 512 bytes in addition to its content. Over the bound, runs are not read, and guests whose
	// journals would grow wait, one after the other; no run fails. Default 96 MiB, one and a half times the largest
	// journal; negative means no bound.
	JournalBytes int64
	// ModuleIdle is how long after its last use a module leaves memory, with its code and its image, by the machine's
	// clock. The next run that needs it loads it from CacheDir in some 50 ms, or compiles it again if there is
	// none. Default 30 s; negative keeps all modules, within ModuleBytes.
	ModuleIdle time.Duration
	// ModuleBytes roughly bounds the modules in memory; a Go module takes some 20 MiB. The least recently used
	// modules leave first. A module stays while an instance of it computes or is kept for a step. Default 256 MiB;
	// negative keeps only modules in use.
	ModuleBytes int64
	// CacheDir is the folder of compiled modules. Several hosts may share it, even in different processes: see
	// UserCacheDir. Open creates it with mode 0700, and refuses it if it has another mode or belongs to another user.
	// The host executes what is in it, so make sure that no other user can replace a folder above it. Default Dir/cache;
	// without Dir, compiled modules are kept in memory only.
	CacheDir string
	// CacheBytes roughly bounds the files of compiled modules in CacheDir; a Go module takes some 15 MiB. Before a
	// module is compiled, the least recently loaded files are removed, a sixteenth of the bound at a time. Removed
	// modules are compiled again when they are next needed. Default 4 GiB, at least 256 MiB; negative means no bound.
	CacheBytes int64
	// MaxFuel bounds what a workflow computes between two waits; abi.MaxFuel says how it is counted. A workflow that
	// needs more fails, at the same instruction on every host and in every replay, or within some hundred
	// instructions of it if the guest was frozen. Default 10,000,000,000, some ten seconds.
	MaxFuel int64
	// MaxSegmentCPU bounds the time that a workflow computes between two waits. A host that takes longer gives up the
	// activation and tries again. After the third time the run is stuck. Default 60 s.
	MaxSegmentCPU time.Duration
	// PoolBytes roughly bounds the memory of instances that are kept for reuse. Default 32 MiB; negative keeps none.
	PoolBytes int64
	// Compiler is the command line of a process that compiles modules. Its main calls CompilerMain; SelfCompiler
	// returns the command line for this program. Compiling a Go module takes some hundred megabytes, and a hostile
	// module can make that any amount. With Compiler, that memory belongs to the other process, within CompileLimits.
	// It needs a Dir. Default: modules are compiled in this process, without limits.
	Compiler []string
	// CompileLimits bound each process of Compiler.
	CompileLimits CompileLimits
	// Interpreter runs modules without compiling them. It is slow, for machines that the compiler does not support.
	Interpreter bool
	// SkipSleeps skips idle time: whenever nothing else happens, the host's clock jumps to the next deadline.
	// Workflows see the time that they slept, so their journal entries lie in the future of the machine's clock. It
	// replaces Clock. All runs of the host, its schedules and its retention use that clock; Namespace.SkipSleeps is
	// for a single run.
	SkipSleeps bool
	// Secrets returns the value of a secret that AllowSecret names, or false if there is none. It is called for each
	// request that needs a secret. Default: no secrets.
	Secrets func(name string) (value string, ok bool)
	// Codec encodes what reaches the store and decodes it, to encrypt it: a Keyring, or an implementation of yours.
	// Data that was written without a Codec stays in the clear and can still be read. Open returns ErrKey and changes
	// nothing if data needs a key that the codec lacks, if the codec fails, or if data is encoded and Codec is nil.
	// Hosts that share a Store need the same keys. Default: payloads are stored in the clear.
	Codec Codec
	// Random fills seeds, incarnations and tokens. Default: the system's secure random. Tests set it to compare runs.
	// If its bytes can be guessed, so can tokens.
	Random func(b []byte)
	// Retention says how long ended runs are kept, for workflows without a Retentions.Set. Its Workflow is empty.
	// Default: runs are kept without limit.
	Retention Retention
	// SweepEvery is how often Run deletes runs past their retention, by Clock; the first sweep is after a minute.
	// Default one hour; negative = never, so Sweep must be called. With SkipSleeps it uses the machine's clock, so
	// skipped sleeps cause no sweep.
	SweepEvery time.Duration
	// Quota is the quota of each namespace without a SetQuota. Default: DefaultMaxRuns live runs, and no other limit.
	Quota *Quota
	// DiskReserve is how many bytes of the disk are kept free for existing runs. With less free space, starts,
	// signals, deliveries to hooks and uploads are refused with ErrDiskFull, while runs continue: they wake, step and
	// end. The host checks it at each of these calls, and accepts them again when the free space is a sixteenth above
	// the reserve. Default: 256 MiB, or a tenth of a smaller disk; negative = none.
	DiskReserve int64
	// Events are callbacks for what happens in the host. Default: none.
	Events Events

	reset string // how instances are reset for reuse; only tests set it: see wazero.ParseReset

	// Set by Verify.
	engine   string                     // the name of the engine; empty: as Interpreter says
	replayed func() *guest.ReplayReport // returns the report that a replay fills in; nil: no report
}

// check returns ErrInvalid for limits out of range.
func (c *Config) check(context.Context) error {
	if c.Cluster != nil {
		own := *c.Cluster
		c.Cluster = &own
		if err := own.check(c); err != nil {
			return err
		}
	}
	if c.MaxInstances < 0 || c.MaxFuel < 0 || c.MaxSegmentCPU < 0 || c.MaxChildren < 0 {
		return fmt.Errorf("%w: MaxInstances, MaxFuel, MaxSegmentCPU and MaxChildren must not be negative, got %d, %d, %v and %d",
			ErrInvalid, c.MaxInstances, c.MaxFuel, c.MaxSegmentCPU, c.MaxChildren)
	}
	if c.MaxCallsPerHandler < 0 || c.MaxCalls < 0 {
		return fmt.Errorf("%w: MaxCallsPerHandler and MaxCalls must not be negative, got %d and %d", ErrInvalid, c.MaxCallsPerHandler,
			c.MaxCalls)
	}
	if c.GuestBytes != 0 && c.GuestBytes < leastGuestBytes {
		return fmt.Errorf("%w: GuestBytes must be at least %d, got %d", ErrInvalid, leastGuestBytes, c.GuestBytes)
	}
	if c.CacheBytes > 0 && c.CacheBytes < leastCacheBytes {
		return fmt.Errorf("%w: CacheBytes must be at least %d, got %d", ErrInvalid, leastCacheBytes, c.CacheBytes)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Dir == "" && c.Store == nil {
		c.Dir = "data"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	if c.Random == nil {
		c.Random = secureRandom
	}
	if c.StartLinger <= 0 {
		c.StartLinger = defaultStartLinger
	}
	c.Linger = cmp.Or(c.Linger, defaultLinger)
	c.SweepEvery = cmp.Or(c.SweepEvery, defaultSweepEvery)
	c.Drain = cmp.Or(c.Drain, defaultDrain)
	c.MaxInstances = cmp.Or(c.MaxInstances, defaultInstances)
	c.MaxChildren = cmp.Or(c.MaxChildren, abi.MaxLiveChildren)
	c.ParkBytes = cmp.Or(c.ParkBytes, defaultParkBytes)
	c.WarmBytes = cmp.Or(c.WarmBytes, defaultWarmBytes)
	c.GuestBytes = cmp.Or(c.GuestBytes, defaultGuestBytes)
	c.JournalBytes = cmp.Or(c.JournalBytes, defaultJournalBytes)
	c.CacheBytes = cmp.Or(c.CacheBytes, defaultCacheBytes)
	c.ModuleIdle = cmp.Or(c.ModuleIdle, defaultModuleIdle)
	c.ModuleBytes = cmp.Or(c.ModuleBytes, defaultModuleBytes)
	c.MaxFuel = cmp.Or(c.MaxFuel, abi.MaxFuel)
	c.MaxSegmentCPU = cmp.Or(c.MaxSegmentCPU, abi.MaxSegmentCPU)
	return c
}
