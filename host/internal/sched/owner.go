package sched

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// owner is a run in memory: its journal, of which a prefix is durable, and what goes on with it. It exists while
// something happens to the run.
type owner struct {
	s   *Scheduler
	key store.RunKey

	refs int // users; under the scheduler's lock

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
	pending  bool            // the guest must run though nothing is deliverable: new, or interrupted
	faults   uint32          // of the host, in a row
	retryMs  int64           // after a fault of the host: no activation before this instant
	attempts map[int64]*attempt
	dead     error // the owner was dropped; it commits nothing any more
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
	o.dead = errors.Join(o.dead, errDropped)
	delete(s.owners, o.key)
}

// errDropped says that an owner has been given up; its user takes the next one.
var errDropped = errors.New("owner dropped")

// dirty tells whether entries or log lines are not durable.
func (o *owner) dirty() bool { return o.journal.Len() > o.durable || len(o.logs) > 0 }

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
	state, err := o.s.cfg.Store.State(ctx, o.key)
	if err != nil {
		return err
	}
	j := &journal.Journal{}
	for e, err := range o.s.cfg.Store.Load(ctx, o.key, state.Iteration, 0) {
		if err == nil {
			err = j.Load(e)
		}
		if err != nil {
			return fmt.Errorf("run %q: %w", o.key.ID, err)
		}
	}
	if j.Len() != int(state.Length) {
		return fmt.Errorf("run %q: %w: the journal has %d entries, the state says %d", o.key.ID, store.ErrCorrupt,
			j.Len(), state.Length)
	}
	o.journal, o.state, o.restored, o.durable = j, state, j.Len(), j.Len()
	o.logLines, o.records, o.faults = state.LogLines, state.LogRecords, state.Faults
	switch state.Status {
	case store.Queued, store.Running: // its host died in the middle of it
		o.pending = true
		if state.Faults > 0 {
			o.retryMs, o.reason = state.WakeUnixMs, state.Reason
		}
	case store.Stuck, store.Paused:
		o.status, o.reason = state.Status, state.Reason
	}
	if !state.Status.Terminal() && !o.pending {
		j.Suspend(state.Suspension)
	}
	o.loaded = true
	return nil
}

// append appends an entry that comes from outside of the guest.
func (o *owner) append(e store.Entry) (store.Entry, error) {
	if o.dead != nil {
		return e, o.dead
	}
	e, err := o.journal.Append(e, o.s.nowMs())
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
func (o *owner) changedLocked() {
	if o.act != nil {
		notify(o.act.grown)
	}
}

// view gives the state that the next commit writes.
func (o *owner) view() store.RunState {
	st := o.state
	now := max(o.s.nowMs(), o.journal.LastUnixMs())
	st.UpdatedUnixMs = now
	st.Length = store.Seq(o.journal.Len())
	st.JournalBytes = o.journal.Bytes()
	st.LogLines, st.LogRecords, st.Faults = o.logLines, o.records, o.faults
	if at, ok := o.journal.StartedUnixMs(); ok {
		st.StartedUnixMs = at
	}
	if s, ok := o.journal.Suspension(); ok {
		st.Suspension = s
	}
	st.Status, st.Reason, st.WakeUnixMs = o.standing(now)
	if st.Status.Terminal() {
		st.EndedUnixMs = o.journal.LastUnixMs()
		st.Suspension = store.Suspension{}
	}
	return st
}

// standing gives status, reason and wake. A run that something goes on with has a wake that is due already: if
// the host dies, the next one finds the run there and takes it up.
func (o *owner) standing(now int64) (store.Status, string, int64) {
	switch o.journal.Ended() {
	case store.KindInvalid:
	case store.KindCompleted:
		return store.Completed, "", store.NoWake
	case store.KindCancelled:
		return store.Cancelled, "", store.NoWake
	case store.KindTerminated:
		return store.Terminated, "", store.NoWake
	default:
		return store.Failed, "", store.NoWake
	}
	if o.status != 0 {
		return o.status, o.reason, store.NoWake
	}
	if o.act != nil || len(o.attempts) > 0 {
		return store.Running, "", now
	}
	if o.retryMs > now {
		return store.Queued, o.reason, o.retryMs
	}
	if o.pending || o.journal.Deliverable() {
		return store.Queued, "", now
	}
	wake, ok := o.journal.Wake()
	if !ok {
		wake = store.NoWake
	}
	if o.waiting != "" { // the next host looks again, since it may have the handler
		return store.Waiting, o.waiting, now
	}
	status, reason := store.Sleeping, ""
	for h := range o.journal.Handles {
		if h.Step != nil {
			status, reason = store.Waiting, "retry of step "+h.Name
		} else if h.Kind != store.KindSleep {
			status, reason = store.Waiting, h.Kind.String()+" "+h.Name
		}
	}
	return status, reason, wake
}

// commit makes everything that was appended so far durable. The caller does not hold the owner's lock.
func (o *owner) commit(ctx context.Context) error {
	o.commitMu.Lock()
	defer o.commitMu.Unlock()
	o.mu.Lock()
	if o.dead != nil {
		o.mu.Unlock()
		return o.dead
	}
	c := store.RunCommit{Run: o.key, Create: o.create, Expect: store.Seq(o.durable),
		Append: o.journal.Entries()[o.durable:], State: o.view(), Logs: o.logs}
	if !o.create && len(c.Append) == 0 && len(c.Logs) == 0 && o.same(&c.State) {
		o.mu.Unlock()
		return nil
	}
	logs := len(o.logs)
	o.mu.Unlock()
	err := o.s.parts[o.key.Partition()].Commit(context.WithoutCancel(ctx), []store.RunCommit{c})
	o.mu.Lock()
	if err != nil {
		o.stopLocked(fmt.Errorf("commit of run %q: %w", o.key.ID, err))
		o.mu.Unlock()
		if !errors.Is(err, store.ErrExists) && !errors.Is(err, store.ErrClosed) {
			o.s.fail(err)
		}
		return err
	}
	o.create, o.state, o.durable = false, c.State, int(c.State.Length)
	o.logs = o.logs[logs:]
	wake := c.State.WakeUnixMs
	arm := wake != store.NoWake && c.State.Status != store.Running && (c.State.Status != store.Queued || o.retryMs > 0)
	if o.waiting != "" { // the key in the index is for the next host; in this one, timers still fire
		wake, arm = o.journal.Wake()
	}
	o.mu.Unlock()
	if arm {
		o.s.arm(o.key, wake)
	}
	o.s.changed(o.key)
	return nil
}

// same tells whether a state says the same as the durable one, but for the time at which it was made.
func (o *owner) same(st *store.RunState) bool {
	a, b := *st, o.state
	a.UpdatedUnixMs = b.UpdatedUnixMs
	// Due already, whatever the instant.
	if a.Status == store.Running || a.Status == store.Queued && o.retryMs == 0 || o.waiting != "" {
		a.WakeUnixMs = b.WakeUnixMs
	}
	return string(store.AppendState(nil, &a)) == string(store.AppendState(nil, &b))
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
	if err == nil && o.journal.Ended() == store.KindInvalid && o.status == 0 {
		err = o.journal.FireDue(s.nowMs())
	}
	o.mu.Unlock()
	if err != nil {
		s.complain(run, err)
		return
	}
	o.advance()
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
	err = s.parts[run.Partition()].Commit(s.ctx, []store.RunCommit{{Run: run, Expect: st.Length, State: st}})
	s.changed(run)
	return err
}

// ready tells whether the guest has something to do, and may: after a fault of the host it waits a while.
func (o *owner) ready() bool {
	return (o.pending || o.journal.Deliverable()) && o.retryMs <= o.s.nowMs()
}

// advance does what there is to do for a run until it rests: activate it, start attempts, commit.
func (o *owner) advance() {
	for {
		o.mu.Lock()
		switch {
		case o.dead != nil:
			o.mu.Unlock()
			return
		case o.journal.Ended() != store.KindInvalid || o.status != 0:
			o.mu.Unlock()
			_ = o.commit(o.s.ctx) // a failure drops the owner, which was all that could be done
			return
		case o.act != nil: // its own goroutine looks when it comes to rest
			o.changedLocked()
			o.mu.Unlock()
			return
		case o.ready():
			a := o.newActivation()
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
