package runtime

import (
	"context"
	"log/slog"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/guest"
	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/limits"
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
	Process(ctx context.Context, owned store.Partition, cmd store.Command) error
}

// Config configures a Runtime. All fields but the limits are required.
type Config struct {
	Store  store.Store
	Clock  clock.Clock
	Logger *slog.Logger
	Owner  string // name of this host, for people; with Lease, the name of its membership
	// Lease is greater than 0 if the host is a member of several that share the store: it takes no partition of a live member.
	Lease time.Duration
	// Notify tells the owner of a partition that its inbox may have new commands. It must not block. nil: there are no other
	// hosts, or they poll.
	Notify func(store.PartitionID)
	Watch  *quarantine.Watch // nil: runs are not watched
	Random func(p []byte)
	Refuse func() error // returns why runs may not change now, nil if they may
	// Admit lets a child start in a namespace, or returns the error for its parent. See limits.Quotas.Start.
	Admit   func(ns store.NamespaceID) (leave func(), err error)
	Keepers Keepers
	// Handlers: New sets Watch, Runs, Activity and Background; the caller sets the other fields.
	Handlers handler.Config
	// Quotas limits the computing guests of each namespace and paces the wakes of its runs.
	Quotas *limits.Quotas
	// Partitions are the partitions that New acquires; nil: all.
	Partitions []store.PartitionID
	// StartLinger is how long a start waits for its first activation, to be committed together with it.
	StartLinger time.Duration
	// Drain is how long Run waits for running attempts before it returns.
	Drain time.Duration
	// Guests: New sets Store, Clock, Logger, Random, Quotas, Watch, Owes, Handled, OnWait and OnEnd; the caller sets the other
	// fields.
	Guests guest.Config
	// IDs returns for how many milliseconds the ids of deleted runs stay taken in a namespace; 0 means store.DefaultIDsMs.
	IDs func(context.Context, store.NamespaceID) (int64, error)
	// Events receives callbacks for logs, metrics and tests.
	Events Events
}
