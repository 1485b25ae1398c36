package runtime

import (
	"context"
	"log/slog"
	"time"

	"github.com/wfhost/wfhost/host/internal/admission"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/module"
	"github.com/wfhost/wfhost/host/internal/room"
	"github.com/wfhost/wfhost/host/internal/suspect"
	"github.com/wfhost/wfhost/store"
)

// Schedules is what the runtime tells schedules: see schedule.Keeper. It is answered by Partitions.Arm.
type Schedules interface {
	Due(schedule store.RunKey, done func())
	Ended(ctx context.Context, schedule store.RunKey, run string) error
}

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
	// Admit lets a run of a namespace begin that another run starts, or returns an error for that one; see quota.Quotas.Start.
	Admit func(ns store.NamespaceID) (leave func(), err error)
	// Schedules starts runs by time.
	Schedules Schedules
	// Spaces limits the guests of each namespace that compute.
	Spaces admission.Spaces
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
	// Modules says when modules leave memory.
	Modules module.Limits
	// Fuel bounds the instructions, about, that a workflow executes between two waits.
	Fuel int64
	// CPU bounds the time that they take. A machine that needs longer is at fault, not the workflow.
	CPU time.Duration
	// HostCalls bounds the calls between two waits, Children the live children of a first run: see abi.LiveChildren.
	HostCalls, Children int
	// Fetch performs a request of a body or step function under the grants of its version.
	Fetch func(ctx context.Context, grants store.Grants, run store.RunKey, request []byte) ([]byte, error)
	// Events are told what happens.
	Events Events
}
