package runtime

import (
	"context"
	"log/slog"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/module"
	"github.com/wfhost/wfhost/host/internal/suspect"
	"github.com/wfhost/wfhost/store"
)

// Config is what a Runtime is made from. All fields but the limits are required.
type Config struct {
	Store    store.Store
	Engine   engine.Engine
	Clock    clock.Clock
	Logger   *slog.Logger
	Owner    string         // name of this host, for people
	Suspects *suspect.Watch // nil watches nothing
	Random   func(p []byte)
	Refuse   func() error // why nothing may happen to runs, nil if it may
	// Partitions are those to be acquired at the beginning; nil = all.
	Partitions []store.PartitionID
	// Linger is how long an instance is kept while an attempt of one of its steps runs.
	Linger time.Duration
	// StartLinger is how long a start waits for its first activation, to be committed together with it.
	StartLinger time.Duration
	// Drain is how long Run waits, at its end, for attempts that are going on.
	Drain time.Duration
	// Instances is how many guests compute at a time, and ParkBytes bounds the memory of those that wait for a commit or an
	// attempt.
	Instances int
	ParkBytes int64
	// WarmBytes bounds what is kept of guests that sleep, so that their wakes replay nothing.
	WarmBytes int64
	// Modules says when modules leave memory.
	Modules module.Limits
	// Fuel bounds the instructions, about, that a workflow executes between two waits.
	Fuel int64
	// CPU bounds the time that they take. A machine that needs longer is at fault, not the workflow.
	CPU time.Duration
	// HostCalls bounds the calls between two waits.
	HostCalls int
	// Fetch performs a request of a body or step function under the grants of its version.
	Fetch func(ctx context.Context, grants store.Grants, run store.RunKey, request []byte) ([]byte, error)
	// Events are told what happens.
	Events Events
}

// Defaults of Config.
const (
	// DefaultLinger: most steps end within it, and keeping the instance saves a replay.
	DefaultLinger = time.Second
	// DefaultInstances: more guests than processors, since guests wait for each other and for writers while they compute.
	// With 8, a step of a small guest took a tenth more processor time, and with 32 no less than with 16.
	DefaultInstances = 16
	// DefaultParkBytes keeps some 250 Go guests that have written a few dozen pages each. Those beyond it are frozen, and thawed
	// when they go on: with half as much, a sixth of the time of 256 runs that make steps. With twice as much, 2,000 runs that
	// wake at once and make a step took 100 MB more memory, and no less time.
	DefaultParkBytes = 128 << 20
	// DefaultWarmBytes keeps some thousand Go guests: twice as much is on the heap between two garbage collections.
	DefaultWarmBytes = 64 << 20
	// DefaultModuleIdle: a Go module comes back in some 50 ms of processor time, of which that is a few hundred times as much.
	DefaultModuleIdle = 30 * time.Second
	// DefaultModuleBytes keeps a dozen Go modules, whose code takes some 15 MiB each.
	DefaultModuleBytes = 256 << 20
	// DefaultStartLinger: a Go guest comes to its first step within it; one that computes longer costs a commit more.
	DefaultStartLinger = 50 * time.Millisecond
	// DefaultDrain: most steps end within it, and supervisors of processes wait longer before they kill.
	DefaultDrain = 10 * time.Second
)
