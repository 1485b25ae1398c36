package runtime

import (
	"context"
	"log/slog"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/module"
	"github.com/wfhost/wfhost/host/internal/quarantine"
	"github.com/wfhost/wfhost/host/internal/quota"
	"github.com/wfhost/wfhost/host/internal/room"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/wake"
	"github.com/wfhost/wfhost/store"
)

// Keepers keep schedules and the queues of limits: see schedule.Keeper and gate.Keeper. They answer by Partitions.Arm.
type Keepers interface {
	Due(k wake.Key, done func())
	Changed(ctx context.Context, schedule store.RunKey, run string) error
	Limit(ctx context.Context, n *run.NewRun) error
	Take(ctx context.Context, owned store.Partition, cmd store.Command) error
}

// Config is what a Runtime is made from. All fields but the limits are required.
type Config struct {
	Store    store.Store
	Engine   engine.Engine
	Clock    clock.Clock
	Logger   *slog.Logger
	Owner    string            // name of this host, for people
	Suspects *quarantine.Watch // nil watches nothing
	Random   func(p []byte)
	Refuse   func() error // why nothing may happen to runs, nil if it may
	// Admit lets a run of a namespace begin that another run starts, or returns an error for that one; see quota.Quotas.Start.
	Admit   func(ns store.NamespaceID) (leave func(), err error)
	Keepers Keepers
	Limiter handler.Limiter // of attempts
	// Shared reports whether there is another namespace than the default one; see handler.NewRegistry.
	Shared func() bool
	// Spaces limits the guests of each namespace that compute, and the runs that are woken.
	Spaces *quota.Quotas
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
	// Journals bounds the journals in memory; nil does not.
	Journals *room.Budget
	// GuestBytes bounds the memory of all instances.
	GuestBytes int64
	// Modules says when modules leave memory.
	Modules module.Limits
	// Fuel bounds what a workflow computes between two waits.
	Fuel int64
	// CPU bounds the time that it takes. A machine that needs longer is at fault, not the workflow.
	CPU time.Duration
	// Keep returns how long the journals of earlier iterations of a workflow's runs are kept; nil: as where nothing is set.
	Keep func(ctx context.Context, of store.NamespaceID, workflow string) (run.Keep, error)
	// IDs returns for how many milliseconds the ids of deleted runs stay taken in a namespace; 0 = store.DefaultIDsMs.
	IDs func(context.Context, store.NamespaceID) (int64, error)
	// HostCalls bounds the calls between two waits, Children the live children of a first run: see abi.LiveChildren.
	HostCalls, Children int
	// Fetch performs a request of a body or step function under the grants of its version.
	Fetch func(ctx context.Context, grants store.Grants, run store.RunKey, request []byte) ([]byte, error)
	// Events are told what happens.
	Events Events
}
