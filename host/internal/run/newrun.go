package run

import (
	"cmp"
	"errors"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// ConflictPolicy says what a start does if a run has its id.
type ConflictPolicy uint8

// The policies.
const (
	ConflictExisting  ConflictPolicy = iota // returns that run if workflow and input are equal; otherwise refuses
	ConflictFail                            // refuses
	ConflictTerminate                       // terminates and replaces that run
	ConflictReplace                         // replaces that run if it has ended; otherwise refuses
	ConflictMove                            // replaces that run if it is delayed and untouched; otherwise refuses
)

// NewRun is what a run is started with.
type NewRun struct {
	Key         store.RunKey
	Workflow    string
	Version     uint32
	Module      store.Digest
	Input       []byte
	InputDigest store.Digest // see InputDigest
	Seed        []byte       // 32 secure random bytes, for the run's random numbers
	Incarnation store.Incarnation
	AtUnixMs    int64 // earliest instant of the first activation; 0 = at once
	TimeoutMs   int64 // from the start or AtUnixMs to the run's deadline; 0 = none
	Attributes  map[string]string
	Memo        []byte  // JSON without white space, shown with the run; empty = none
	TraceParent string  // W3C Trace Context header of the caller; empty = none
	Signal      *Signal // accepted in the same commit, also by an existing run
	Conflict    ConflictPolicy
	Parent      *journal.Parent
	Schedule    string           // id of the schedule that starts the run
	NominalMs   int64            // the instant of the schedule that the run is for
	Priority    int              // among the runs that wait for a slot
	Limit       *journal.Limit   // limit that may hold the run back; nil = none
	Existing    bool             // nothing was checked, since a run had the id: ErrNoRun if it is gone
	Copy        *Copy            // of a restarted run
	Import      *Import          // an exported run, with all but Key, Workflow, Version and Module
	Ack         store.CommandSeq // the command that asked for the start; 0 = none
	ID          store.IDOrigin   // where the id in Key comes from
	IDsMs       int64            // how long the namespace keeps ids of deleted runs taken; 0 = store.DefaultIDsMs
}

// KeepsIDsMs returns how long ids of deleted runs stay taken.
func (n *NewRun) KeepsIDsMs() int64 { return cmp.Or(n.IDsMs, store.DefaultIDsMs) }

// ErrNoRun: the start expected an existing run and there is none.
var ErrNoRun = errors.New("there is no run of this id any more")

// seedBytes is the length of the seed of a run's random numbers.
const seedBytes = 32

// Draw sets the random seed of the run, and its incarnation unless it is set.
func (n *NewRun) Draw(random func(p []byte)) {
	n.Seed = make([]byte, seedBytes)
	random(n.Seed)
	if n.Incarnation == (store.Incarnation{}) {
		random(n.Incarnation[:])
	}
}

// childSaltBytes is how many characters of the incarnation are part of the child ids of a run that replaced another
// one. They are enough to tell apart the few runs that ever have one id.
const childSaltBytes = 8

// Journal returns the journal of the run as it begins. replaces says that another run had this id before.
func (n *NewRun) Journal(now int64, replaces bool) (*journal.Journal, error) {
	if n.Import != nil {
		return n.Import.Journal(now)
	}
	started := journal.Started{RunID: n.Key.ID, Workflow: n.Workflow, Version: n.Version, Module: n.Module.String(),
		Incarnation: n.Incarnation.String(), RunAttempt: 1, Seed: n.Seed, Rules: journal.RulesNewest,
		Attributes: n.Attributes, Memo: n.Memo, TraceParent: n.TraceParent,
		Parent: n.Parent, Schedule: n.Schedule, NominalMs: n.NominalMs, Limit: n.Limit, Signalled: n.Signal != nil}
	// Keep the ids of children apart from the children of an earlier run with this id, which may still exist.
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
