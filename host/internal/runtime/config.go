package runtime

import (
	"context"
	"log/slog"
	"time"

	"github.com/wfhost/wfhost/host/internal/admission"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/limits"
	"github.com/wfhost/wfhost/host/internal/module"
	"github.com/wfhost/wfhost/host/internal/quarantine"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/shard"
	"github.com/wfhost/wfhost/store"
)

// Keepers process schedules and the queues of limits: see schedule.Keeper and limits.WorkflowLimiter. They report the next
// wake by Partitions.Arm.
type Keepers interface {
	Due(k shard.TimerKey, done func())
	Changed(ctx context.Context, schedule store.RunKey, run string) error
	Limit(ctx context.Context, n *run.NewRun) error
	Take(ctx context.Context, owned store.Partition, cmd store.Command) error
}

// Config configures a Runtime. All fields but the limits are required.
type Config struct {
	Store    store.Store
	Engine   engine.Engine
	Clock    clock.Clock
	Logger   *slog.Logger
	Owner    string            // name of this host, for people
	Suspects *quarantine.Watch // nil: runs are not watched
	Random   func(p []byte)
	Refuse   func() error // returns why runs may not change now, nil if they may
	// Admit lets a child start in a namespace, or returns the error for its parent. See quota.Quotas.Start.
	Admit   func(ns store.NamespaceID) (leave func(), err error)
	Keepers Keepers
	Limiter handler.Limiter // of attempts
	// CallsPerHandler and Calls limit the calls of handlers in flight, see handler.Config; 0: the default.
	CallsPerHandler, Calls int
	// Shared reports whether there are namespaces besides the default one. See handler.Config.
	Shared func() bool
	// Quotas limits the computing guests of each namespace and paces the wakes of its runs.
	Quotas *limits.Quotas
	// Partitions are the partitions that New acquires; nil: all.
	Partitions []store.PartitionID
	// Linger is how long an instance is kept while an attempt of one of its steps runs.
	Linger time.Duration
	// StartLinger is how long a start waits for its first activation, to be committed together with it.
	StartLinger time.Duration
	// Drain is how long Run waits for running attempts before it returns.
	Drain time.Duration
	// Instances is the maximum of guests that compute at a time. ParkBytes bounds the memory of guests that wait for a commit
	// or an attempt.
	Instances int
	ParkBytes int64
	// WarmBytes bounds the snapshots of sleeping guests, which spare their wakes the replay.
	WarmBytes int64
	// Journals bounds the journals in memory; nil: no bound.
	Journals *admission.Journals
	// GuestBytes bounds the memory of all instances.
	GuestBytes int64
	// Modules limits the modules in memory.
	Modules module.Limits
	// Fuel bounds what a workflow computes between two waits.
	Fuel int64
	// CPU bounds the CPU time of that. Exceeding it is a fault of the host, not of the workflow.
	CPU time.Duration
	// Keep returns how long the journals of earlier iterations of a workflow's runs are kept; nil: the default.
	Keep func(ctx context.Context, of store.NamespaceID, workflow string) (run.Keep, error)
	// IDs returns for how many milliseconds the ids of deleted runs stay taken in a namespace; 0 means store.DefaultIDsMs.
	IDs func(context.Context, store.NamespaceID) (int64, error)
	// HostCalls bounds the calls between two waits, Children the live children of a first run: see abi.LiveChildren.
	HostCalls, Children int
	// Fetch performs a request of a body or step function under the grants of its version.
	Fetch func(ctx context.Context, grants store.Grants, run store.RunKey, request []byte) ([]byte, error)
	// Events receives callbacks for logs, metrics and tests.
	Events Events
}
