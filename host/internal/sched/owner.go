package sched

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// owner is a run in memory: its journal, of which a prefix is durable, and what goes on with it. It exists while
// something happens to the run, and a while longer if more is to come soon.
type owner struct {
	s   *Scheduler
	key store.RunKey

	// Under the scheduler's lock.
	refs      int           // users
	kept      *list.Element // its place among those that are kept without users
	keptBytes int64

	commitMu sync.Mutex // one commit at a time, in order

	mu       sync.Mutex
	loaded   bool
	create   bool // the run is not in the store yet
	journal  *journal.Journal
	restored int            // entries that were read from the store when the owner was made
	durable  int            // entries that are durable
	state    store.RunState // as of the newest commit, or of the creation
	status   store.Status   // of the next commit, if it is one that the journal does not tell: Stuck
	reason   string
	logs     []store.LogLine // not yet durable
	logLines uint64          // lines of workflow code, logs included
	records  uint64          // stored lines, logs included
	waiting  string          // why it waits, beside what the journal tells
	act      *activation     // the activation that is going on
	replace  bool            // the commit that creates the run removes another one of its id
	ident    identity
	acks     []store.CommandSeq // commands whose effect the next commit brings
	outbox   []store.Command    // answers to commands, which the next commit sends
	old      *journal.Journal   // of the iteration before, whose end the next commit brings
	oldMade  int                // its durable entries
	pending  bool               // the guest must run though nothing is deliverable: new, or interrupted
	armedMs  int64              // the instant for which armHere has put it into the wheel
	faults   uint32             // of the host, in a row
	retryMs  int64              // after a fault of the host: no activation before this instant
	attempts map[int64]*attempt
	dead     error // the owner was dropped; it commits nothing any more
}

// identity is what a run is made of. It changes when the run continues as new or goes on under another version.
type identity struct {
	iteration uint32
	version   uint32
	module    store.Digest
}

// acquire gives the owner of a run, which the caller releases.
func (s *Scheduler) acquire(run store.RunKey) *owner {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.owners[run]
	if o == nil {
		o = &owner{s: s, key: run, attempts: map[int64]*attempt{}}
		s.owners[run] = o
	}
	o.refs++
	s.kept.remove(o)
	return o
}

// release lets go of an owner. The last one to do so ends its life, unless something still goes on.
func (s *Scheduler) release(o *owner) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	o.refs--
	if o.refs > 0 || s.owners[o.key] != o {
		return
	}
	if o.dead == nil && o.loaded && (o.act != nil || len(o.attempts) > 0 || o.dirty()) {
		return
	}
	if o.soon() {
		for _, gone := range s.kept.keep(o) {
			delete(s.owners, gone.key)
		}
		return
	}
	o.dead = errors.Join(o.dead, errDropped)
	delete(s.owners, o.key)
}

// errDropped says that an owner has been given up; its user takes the next one.
var errDropped = errors.New("owner dropped")

// dirty tells whether entries or log lines are not durable.
func (o *owner) dirty() bool {
	return o.journal.Len() > o.durable || len(o.logs) > 0 || len(o.acks) > 0 || o.old != nil
}

// with calls f with the loaded owner of a run, locked.
func (s *Scheduler) with(ctx context.Context, run store.RunKey, f func(o *owner) error) error {
	for {
		o := s.acquire(run)
		o.mu.Lock()
		err := o.dead
		if err == nil {
			err = o.load(ctx)
		}
		if err == nil {
			err = f(o)
		}
		dropped := err != nil && o.dead != nil && errors.Is(err, errDropped)
		o.mu.Unlock()
		s.release(o)
		if !dropped {
			return err
		}
		if err := s.usable(); err != nil {
			return err
		}
	}
}

// load reads the run's state and journal from the store.
func (o *owner) load(ctx context.Context) error {
	if o.loaded {
		return nil
	}
	state, entries, err := o.s.cfg.Store.Run(ctx, o.key)
	if err != nil {
		return err
	}
	if state.Deleted {
		o.state = state
		return fmt.Errorf("run %q: %w: it was deleted", o.key.ID, store.ErrNotFound)
	}
	j := &journal.Journal{}
	for _, e := range entries {
		if err := j.Load(e); err != nil {
			return fmt.Errorf("run %q: %w", o.key.ID, err)
		}
	}
	o.journal, o.state, o.restored, o.durable = j, state, j.Len(), j.Len()
	o.ident = identity{state.Iteration, state.Version, state.Module}
	o.logLines, o.records, o.faults = state.LogLines, state.LogRecords, state.Faults
	switch state.Status {
	case store.Queued, store.Running: // its host died in the middle of it
		o.pending = true
		if state.Faults > 0 {
			o.retryMs, o.reason = state.WakeUnixMs, state.Reason
		}
	case store.Stuck:
		o.status, o.reason = state.Status, state.Reason
	}
	if state.Suspension.Seq == 0 { // it has not come to a wait: new, delayed, or paused before that
		o.pending = true
	}
	if !state.Status.Terminal() {
		j.Suspend(state.Suspension)
	}
	if o.pending {
		j.Resume()
	}
	o.loaded = true
	return nil
}

// append appends an entry that comes from outside of the guest.
func (o *owner) append(e store.Entry) (store.Entry, error) {
	if o.dead != nil {
		return e, o.dead
	}
	before := o.journal.Len()
	e, err := o.journal.Append(e, o.s.nowMs())
	if before < abi.SuggestContinueEntries && o.journal.Len() >= abi.SuggestContinueEntries {
		o.s.cfg.Logger.Warn("journal has become long, the workflow should continue as new", "run", o.key.ID,
			"entries", o.journal.Len(), "limit", abi.MaxEntries)
	}
	if o.journal.Ended() != store.KindInvalid {
		o.end()
	}
	return e, err
}

// end tells everything that still goes on that the run has ended.
func (o *owner) end() {
	if o.act != nil {
		o.act.halt(ErrTerminal)
	}
	for _, a := range o.attempts {
		a.cancel(ErrTerminal)
	}
	o.pending = false
}

// stop drops the owner: nothing that is not durable becomes so.
func (o *owner) stop(cause error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stopLocked(cause)
}

func (o *owner) stopLocked(cause error) {
	o.dead = errors.Join(o.dead, errDropped, cause)
	if o.act != nil {
		o.act.halt(cause)
	}
	for _, a := range o.attempts {
		a.cancel(cause)
	}
	o.s.changed(o.key) // who waits for it to become durable
}

// changedLocked tells a guest that lingers that the journal has grown.
//
// One whose instance executes a body cannot look. If there is something for the workflow, the instance is left to the
// body, and the run gets another activation from whoever called, by advance.
func (o *owner) changedLocked() {
	if o.act == nil {
		return
	}
	notify(o.act.grown)
	if o.act.body != nil && o.journal.Deliverable() && !o.held() {
		o.act.left = true
		o.act = nil
	}
}

// serve is what a worker does for a run in the queue: fire what is due, then do what there is to do.
func (s *Scheduler) serve(run store.RunKey) {
	o := s.acquire(run)
	defer s.release(o)
	o.mu.Lock()
	err := o.dead
	if err == nil {
		err = o.load(s.ctx)
	}
	if err == nil && !o.held() {
		err = o.fireDue()
	}
	if err == nil {
		o.armHere()
	}
	o.mu.Unlock()
	if err != nil {
		s.complain(run, err)
		return
	}
	o.advance(true)
}

// complain says what a worker met. A run that cannot be read is stuck; it is not retried for ever.
func (s *Scheduler) complain(run store.RunKey, err error) {
	if errors.Is(err, errDropped) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if o := s.owners[run]; o == nil || o.refs == 1 { // there is a next owner to be made
			s.enqueueLocked(run, true)
		}
		return
	}
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrClosed) || errors.Is(err, context.Canceled) {
		return
	}
	s.cfg.Logger.Error("run cannot be served", "run", run.ID, "cause", err)
	if errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrVersion) {
		if err := s.stickUnreadable(run, err); err != nil {
			s.cfg.Logger.Error("run cannot be marked as stuck", "run", run.ID, "cause", err)
		}
	}
}

// stickUnreadable marks a run whose journal cannot be read as stuck. The journal is left as it is.
func (s *Scheduler) stickUnreadable(run store.RunKey, cause error) error {
	st, err := s.cfg.Store.State(s.ctx, run)
	if err != nil || st.Status == store.Stuck {
		return err
	}
	st.Status, st.Reason, st.WakeUnixMs, st.UpdatedUnixMs = store.Stuck, cause.Error(), store.NoWake, s.nowMs()
	err = s.write(s.ctx, &store.RunCommit{Run: run, Expect: st.Length, State: st})
	s.changed(run)
	return err
}

// ready tells whether the guest has something to do, and may: after a fault of the host it waits a while.
func (o *owner) ready() bool {
	now := o.s.nowMs()
	return (o.pending || o.journal.Deliverable()) && o.retryMs <= now && o.journal.Started().AtUnixMs <= now
}

// held tells whether nothing may happen to the run by itself: it has ended, is stuck or paused.
func (o *owner) held() bool {
	return o.journal.Ended() != store.KindInvalid || o.status != 0 || o.journal.Paused()
}

// fireDue appends what is due. The deadline of the run may end it.
func (o *owner) fireDue() error {
	err := o.journal.FireDue(o.s.nowMs())
	if o.journal.Ended() != store.KindInvalid {
		o.end()
	}
	return err
}

// advance does what there is to do for a run until it rests: activate it, start attempts, commit. worker tells that a
// worker of the queue does so.
func (o *owner) advance(worker bool) {
	for {
		o.mu.Lock()
		switch {
		case o.dead != nil:
			o.mu.Unlock()
			return
		case o.held() || o.old != nil: // nothing goes on, or not before the iteration before has its end
			goOn := !o.held()
			o.mu.Unlock()
			if o.commit(o.s.ctx) == nil && goOn {
				continue
			}
			return
		case o.act != nil: // its own goroutine looks when it comes to rest
			o.changedLocked()
			left := o.act == nil
			o.mu.Unlock()
			if left {
				continue
			}
			return
		case o.ready():
			a := o.newActivation(worker)
			o.mu.Unlock()
			a.run()
			continue
		}
		var starts []*attempt
		var err error
		if !o.pending { // else the guest has not come to where it waits for them
			starts, err = o.prepareAttempts()
		}
		o.mu.Unlock()
		if err == nil {
			err = o.commit(o.s.ctx)
		}
		if err != nil {
			return
		}
		o.launch(starts)
		o.mu.Lock()
		// No lost wake: what came while the commit was going on is looked at once more.
		again := o.dead == nil && o.act == nil && o.ready()
		dirty := o.dead == nil && o.dirty()
		o.mu.Unlock()
		if !again && !dirty {
			return
		}
	}
}
