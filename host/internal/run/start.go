package run

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"

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
	Signal      *Signal // accepted in the same commit, by the run that is there too
	Conflict    ConflictPolicy
	Parent      *journal.Parent
	Copy        *Copy            // of a restarted run
	Ack         store.CommandSeq // the command that asked for it; 0 = none
}

// idRetentionMs is how long the id of a deleted run stays taken: a start that is repeated by mistake comes earlier.
const idRetentionMs = 30 * 24 * 3600 * 1000

// InputDigest returns the SHA-256 of an input, compacted if it is JSON, so that white space makes no difference.
func InputDigest(input []byte) store.Digest {
	var b bytes.Buffer
	if json.Compact(&b, input) == nil {
		input = b.Bytes()
	}
	return sha256.Sum256(input)
}

// start begins the run, or says what becomes of the start with a run that is there.
func (r *Run) start(now int64, n NewRun) error {
	switch {
	case r.tombstone != nil:
		if age := now - r.tombstone.UpdatedUnixMs; n.Conflict <= ConflictFail && age < idRetentionMs {
			return fmt.Errorf("run %q: %w: it was deleted, and its id is free again after 30 days", n.Key.ID, store.ErrExists)
		}
		if r.deleting { // what is left of it is not durable yet
			r.fx.Again = true
			return nil
		}
		r.replace = true
		return r.begin(now, n)
	case !r.exists:
		return r.begin(now, n)
	}
	switch n.Conflict {
	case ConflictFail:
		return fmt.Errorf("run %q: %w", n.Key.ID, store.ErrExists)
	case ConflictTerminate, ConflictReplace:
		if !r.ended() && n.Conflict == ConflictReplace {
			return fmt.Errorf("run %q: %w and has not ended", n.Key.ID, store.ErrExists)
		}
		return r.succeed(now, n)
	case ConflictExisting:
	}
	if r.state.Workflow != n.Workflow || r.state.InputDigest != n.InputDigest {
		return fmt.Errorf("run %q: %w with another workflow or input", n.Key.ID, store.ErrExists)
	}
	if n.Signal != nil && !r.ended() {
		return r.takeSignal(now, *n.Signal)
	}
	return nil
}

// succeed makes room for a run of the same id. The old one is ended first, and its end is durable and told to whom it
// concerns before its records are replaced: the start is stepped again with a Run that Successor returns, which nothing
// of the old one can reach.
func (r *Run) succeed(now int64, n NewRun) error {
	if !r.ended() {
		r.status, r.reason = 0, ""
		if _, err := r.append(now, store.Entry{Kind: store.KindTerminated}); err != nil && !r.ended() {
			return err // the run's deadline may have ended it, which is as good
		}
	}
	r.fx.Again = true
	return nil
}

// Successor returns a Run that takes the place of one that has ended, whose commits are durable. It returns the run itself
// if that is not so: another start was quicker, or somebody has retried it.
func (r *Run) Successor() *Run {
	if r.exists && !r.ended() || r.Dirty() {
		return r
	}
	next := New(r.key, Config{Handled: r.handled, Active: r.active})
	next.replace = true
	return next
}

// begin makes entry 0 of a run.
func (r *Run) begin(now int64, n NewRun) error {
	started := journal.Started{RunID: n.Key.ID, Workflow: n.Workflow, Version: n.Version, Module: n.Module.String(),
		Incarnation: n.Incarnation.String(), RunAttempt: 1, Seed: n.Seed, Attributes: n.Attributes, Parent: n.Parent}
	if r.replace { // so that its children do not meet those of the run before
		started.ChildSalt = n.Incarnation.String()[:childSaltBytes]
	}
	if n.AtUnixMs > now {
		started.AtUnixMs = n.AtUnixMs
	}
	if n.TimeoutMs > 0 {
		due, err := abi.AddMs(max(now, n.AtUnixMs), n.TimeoutMs)
		if err != nil {
			return err
		}
		started.DeadlineUnixMs = due
	}
	j := &journal.Journal{}
	created := now
	if n.Copy != nil {
		created = n.Copy.begin(&started, now)
	}
	if _, err := j.Append(started.Entry(n.Input), created); err != nil {
		return err
	}
	if n.Copy != nil {
		if err := n.Copy.into(j); err != nil {
			return err
		}
	}
	before := *r
	*r = Run{key: r.key, handled: r.handled, active: r.active, replace: r.replace, fx: r.fx, exists: true, journal: j,
		attempts: map[int64]*Attempt{}}
	if n.Signal != nil {
		if err := r.takeSignal(now, *n.Signal); err != nil {
			*r = before
			return err
		}
	}
	r.create, r.pending = true, true
	r.ident = identity{iteration: started.Iteration, version: n.Version, module: n.Module}
	r.state = store.RunState{Run: n.Key, Incarnation: n.Incarnation, Workflow: n.Workflow, Version: n.Version,
		Module: n.Module, Iteration: started.Iteration, InputDigest: n.InputDigest, CreatedUnixMs: created,
		WakeUnixMs: store.NoWake}
	if n.Parent != nil {
		r.state.Parent = n.Parent.RunID
	}
	if n.Ack != 0 {
		r.acks = append(r.acks, n.Ack)
	}
	r.fx.Answer.Created = true
	return nil
}

// childSaltBytes is how much of the incarnation stands in the ids of the children of a run that replaced another one:
// enough to tell the runs of one id apart, which are few.
const childSaltBytes = 8
