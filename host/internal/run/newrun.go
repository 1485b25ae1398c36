package run

import (
	"cmp"
	"errors"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// ConflictPolicy says what a start does when there is a run of its id.
type ConflictPolicy uint8

// The policies.
const (
	ConflictExisting  ConflictPolicy = iota // the same workflow and input return that run, others are refused
	ConflictFail                            // it is refused
	ConflictTerminate                       // that run is terminated, and replaced
	ConflictReplace                         // that run is replaced if it has ended, else refused
	ConflictMove                            // that run is replaced if it is delayed and nothing has happened to it, else refused
)

// NewRun says what a run is started with.
type NewRun struct {
	Key         store.RunKey
	Workflow    string
	Version     uint32
	Module      store.Digest
	Input       []byte
	InputDigest store.Digest // see InputDigest
	Seed        []byte       // 32 bytes of secure random, of the run's random numbers
	Incarnation store.Incarnation
	AtUnixMs    int64 // the first activation is not before; 0 = at once
	TimeoutMs   int64 // from the start, or AtUnixMs, to the run's deadline; 0 = none
	Attributes  map[string]string
	Memo        []byte  // JSON without white space, which is shown with the run; empty = none
	TraceParent string  // header of W3C Trace Context of who starts it; empty = none
	Signal      *Signal // accepted in the same commit, by the run that is there too
	Conflict    ConflictPolicy
	Parent      *journal.Parent
	Schedule    string           // id of the schedule that starts the run
	NominalMs   int64            // the instant for which it does
	Priority    int              // among the runs that wait for a slot
	Limit       *journal.Limit   // what holds the run back; nil = nothing
	Existing    bool             // nothing was checked, as a run of this id was there: ErrNoRun if there is none
	Copy        *Copy            // of a restarted run
	Import      *Import          // of a run that another installation has exported: all else but Key, Version and Module is there
	Ack         store.CommandSeq // the command that asked for it; 0 = none
	ID          store.IDOrigin   // where the id of Key comes from
	IDsMs       int64            // how long ids of deleted runs stay taken in the namespace; 0 = store.DefaultIDsMs
}

// KeepsIDsMs returns how long ids of deleted runs stay taken.
func (n *NewRun) KeepsIDsMs() int64 { return cmp.Or(n.IDsMs, store.DefaultIDsMs) }

// ErrNoRun is of a start that is for a run that is there, when none is.
var ErrNoRun = errors.New("there is no run of this id any more")

// seedBytes is the length of the seed of a run's random numbers.
const seedBytes = 32

// Draw fills in what is the run's own: the seed of its random numbers, and its incarnation.
func (n *NewRun) Draw(random func(p []byte)) {
	n.Seed = make([]byte, seedBytes)
	random(n.Seed)
	random(n.Incarnation[:])
}

// childSaltBytes is how much of the incarnation stands in the ids of the children of a run that replaced another one:
// enough to tell the runs of one id apart, which are few.
const childSaltBytes = 8

// Journal returns the journal of the run as it begins. replaces says that there was a run of this id before.
func (n *NewRun) Journal(now int64, replaces bool) (*journal.Journal, error) {
	if n.Import != nil {
		return n.Import.Journal(now)
	}
	started := journal.Started{RunID: n.Key.ID, Workflow: n.Workflow, Version: n.Version, Module: n.Module.String(),
		Incarnation: n.Incarnation.String(), RunAttempt: 1, Seed: n.Seed, Rules: journal.RulesNewest,
		Attributes: n.Attributes, Memo: n.Memo, TraceParent: n.TraceParent,
		Parent: n.Parent, Schedule: n.Schedule, NominalMs: n.NominalMs, Limit: n.Limit, Signalled: n.Signal != nil}
	// So that its children do not meet those of a run that it replaces, or that was deleted, though its children were not.
	if replaces || n.ID == store.IDGiven && n.KeepsIDsMs() < store.DefaultIDsMs {
		started.ChildSalt = n.Incarnation.String()[:childSaltBytes]
	}
	if n.AtUnixMs > now {
		started.AtUnixMs = n.AtUnixMs
	}
	if n.TimeoutMs > 0 {
		due, err := abi.AddMs(max(now, n.AtUnixMs), n.TimeoutMs)
		if err != nil {
			return nil, err
		}
		started.DeadlineUnixMs = due
	}
	created := now
	if n.Copy != nil {
		created = n.Copy.begin(&started, now)
	}
	j, err := journal.Begin(&started, n.Input, created)
	if err != nil {
		return nil, err
	}
	if n.Copy != nil {
		if err := n.Copy.into(j); err != nil {
			return nil, err
		}
	}
	return j, nil
}
