package sched

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/store"
)

// errEvicted ends an activation whose memory is wanted, or that has lingered long enough.
var errEvicted = errors.New("evicted")

// activation is one pass over a run: replay, run live, suspend or finish. It is the tail of the run's journal
// for the machine.
type activation struct {
	guest
	o      *owner
	grown  chan struct{} // the journal has grown while the guest lingers
	worker bool          // a worker of the queue performs it
	slot   bool          // it has a slot
	body   *forkedBody   // the body that its instance executes; nil if none does
	left   bool          // it has left the run to another activation, and goes on as the attempt of a step
}

// newActivation makes the run's activation. The owner is locked.
func (o *owner) newActivation(worker bool) *activation {
	a := &activation{o: o, grown: make(chan struct{}, 1), worker: worker}
	o.act = a
	o.pending = false
	o.waiting = ""
	o.journal.Resume()
	return a
}

// halt ends the activation at its next call. The owner is locked.
func (a *activation) halt(cause error) {
	a.guest.halt(cause)
	if a.body != nil {
		a.body.halt(cause)
	}
	notify(a.grown)
}

// run performs the activation and takes its outcome into the journal.
func (a *activation) run() {
	err := a.o.s.slots.acquire(a.o.s.ctx)
	if err == nil {
		a.slot = true
		err = a.perform()
	}
	if a.slot {
		a.o.s.slots.release()
	}
	o := a.o
	next := identity{}
	if errors.Is(err, replay.ErrContinue) {
		if err2 := a.nextIdentity(&next); err2 != nil {
			err = err2
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if a.left {
		return
	}
	o.act = nil
	if o.dead != nil || o.journal.Ended() != store.KindInvalid {
		return
	}
	if errors.Is(err, replay.ErrContinue) {
		err = a.continueAsNew(next)
	}
	a.conclude(err)
}

// conclude says what an activation's end means for the run. The owner is locked.
func (a *activation) conclude(err error) {
	o := a.o
	var trap *engine.Trap
	var mismatch *replay.Mismatch
	var refused *replay.RefusedError
	switch {
	case err == nil, errors.Is(err, replay.ErrSuspend), errors.Is(err, errEvicted):
		o.faults, o.retryMs, o.reason = 0, 0, ""
	case errors.As(err, &mismatch):
		o.stick(mismatch.Error())
	case errors.As(err, &refused):
		if _, err := o.append(store.Entry{Kind: store.KindFailed, Data: refused.JSON}); err != nil {
			o.hostFault(err)
		}
	case errors.As(err, &trap):
		o.failRun(&abi.Error{Code: abi.StepFailed, Kind: abi.KindTrap, Message: trap.Message, Details: stack(trap)})
	case errors.Is(err, errFuel):
		o.failRun(&abi.Error{Code: abi.Limit, Kind: "cpu", Message: fmt.Sprintf("%v: the limit is about %d instructions", err,
			o.s.cfg.Fuel)})
	case errors.Is(err, errCalls):
		o.failRun(&abi.Error{Code: abi.Limit, Kind: "calls", Message: err.Error()})
	default:
		o.hostFault(err)
	}
}

func stack(t *engine.Trap) any {
	if t.Stack == "" {
		return nil
	}
	return map[string]string{"stack": t.Stack}
}

// stick leaves the run to a person. Nothing of this activation is kept.
func (o *owner) stick(reason string) {
	o.status, o.reason = store.Stuck, reason
	o.s.cfg.Logger.Error("run is stuck", "run", o.key.ID, "reason", reason)
}

func (o *owner) failRun(e *abi.Error) {
	data, err := json.Marshal(e)
	if err != nil {
		data = []byte(`{"code":"STEP_FAILED","message":"the error cannot be shown"}`)
	}
	if _, err := o.append(store.Entry{Kind: store.KindFailed, Data: data}); err != nil {
		o.hostFault(err)
	}
}

// maxFaults is how many faults of the host in a row leave a run to a person.
const maxFaults = 3

// faultDelayMs is how long an activation waits after a first fault of the host; after the second one it is eight
// times as long. A machine that stood still, or a file that was locked, has passed by then.
const faultDelayMs = 1000

// hostFault drops the activation; it is repeated after a while. What the guest appended stays, and the repetition
// meets it as a replay. The owner is locked.
func (o *owner) hostFault(err error) {
	if o.s.ctx.Err() != nil {
		o.stopLocked(ErrClosed)
		return
	}
	o.faults++
	o.s.cfg.Logger.Error("activation failed in the host", "run", o.key.ID, "cause", err, "times", o.faults)
	if o.faults >= maxFaults {
		o.stick(fmt.Sprintf("the host failed %d times: %v", o.faults, err))
		return
	}
	o.pending = true
	o.retryMs = o.s.nowMs() + faultDelayMs<<(3*(o.faults-1))
	o.reason = fmt.Sprintf("the host failed %d times, it tries again: %v", o.faults, err)
}

// perform runs the guest. It gives nil if the guest returned.
func (a *activation) perform() error {
	o := a.o
	o.mu.Lock()
	if _, ok := o.journal.StartedUnixMs(); !ok {
		if _, err := o.journal.Append(store.Entry{Kind: store.KindActivated}, o.s.nowMs()); err != nil {
			o.mu.Unlock()
			return err
		}
	}
	started := o.journal.Started()
	startedMs, _ := o.journal.StartedUnixMs()
	input, rested := o.journal.Entries()[0].Input, o.journal.Rested()
	fixed := o.state
	fixed.Version, fixed.Module = o.ident.version, o.ident.module
	o.mu.Unlock()
	mod, err := o.s.module(o.s.ctx, fixed.Module)
	if err != nil {
		return fmt.Errorf("module %s: %w", fixed.Module, err)
	}
	// Read here, so that a store that cannot be read repeats the activation, and no call is refused because of it.
	g, err := o.s.grants(o.key.Namespace, fixed.Workflow, fixed.Version)
	if err != nil {
		return err
	}
	a.init(o.s, mod)
	a.Machine = replay.New(replay.Config{Mode: replay.Live, Started: started, Input: input, StartedUnixMs: startedMs,
		Rested: rested, NewToken: func() string { return newToken(o.s, o.key) }, Tail: a, BodiesEvent: mod.bodiesEvent,
		OnWait: a.observer(), HandlerError: func(h string) error { return o.s.handlerError(fixed, g, mod, h) }})
	a.log = a.logLine
	a.waitFn = a.wait
	a.mayFork = mod.bodiesEvent
	code, err := a.call(o.s.ctx, mod.entry)
	a.flushOutput()
	if a.body != nil {
		return a.body.brokeOff(code, err)
	}
	if err != nil {
		if cause := a.stopped(); cause != nil {
			return cause
		}
		return err
	}
	return a.finish(code)
}

// finish takes the guest's return into the journal.
func (a *activation) finish(code int32) error {
	if err := a.LeftOver(); err != nil {
		return err
	}
	out := a.Outcome()
	e := store.Entry{Kind: store.KindCompleted, Data: out.Result}
	if code == 0 && !out.Completed && a.mod.command {
		e.Data = a.stdout
	}
	if len(e.Data) > abi.MaxPayloadBytes {
		code, out = 1, replay.Outcome{Failed: true, Failure: []byte(`{"code":"TOO_LARGE","message":` +
			`"standard output, which is the result of a command, is over the limit of 1048576 bytes"}`)}
	}
	if code != 0 {
		e = store.Entry{Kind: store.KindFailed, Data: out.Failure}
		if !out.Failed {
			e.Data, _ = json.Marshal(abi.Errorf(abi.StepFailed, "the workflow returned %d", code))
		}
		if out.Cancelled {
			e.Kind = store.KindCancelled
		}
	}
	a.o.mu.Lock()
	defer a.o.mu.Unlock()
	_, err := a.o.append(e)
	return err
}

// Entries gives the run's journal to the machine.
func (a *activation) Entries() []store.Entry {
	a.o.mu.Lock()
	defer a.o.mu.Unlock()
	return a.o.journal.Entries()
}

// CallRoom says whether the guest may append another call.
func (a *activation) CallRoom() error {
	a.o.mu.Lock()
	defer a.o.mu.Unlock()
	return a.o.journal.CallRoom()
}

// CheckAttribute says whether the run may have another attribute.
func (a *activation) CheckAttribute(key string) error {
	a.o.mu.Lock()
	defer a.o.mu.Unlock()
	return a.o.journal.CheckAttribute(key)
}

// Append appends a call of the guest.
func (a *activation) Append(e store.Entry) (store.Entry, error) {
	o := a.o
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := a.stopped(); err != nil {
		return e, err
	}
	if e.Kind == store.KindWithdraw && e.Code == journal.WithdrawDone && o.begun(e.Handle) {
		e.Code = journal.WithdrawRunning
	}
	return o.append(e)
}

// begun tells whether an attempt of a step has begun and its outcome, known or not, is one that the guest has to
// learn: it may have had its effect.
func (o *owner) begun(handle int64) bool {
	h := o.journal.Handle(handle)
	if h == nil || h.Step == nil {
		return false
	}
	if a := o.attempts[handle]; a != nil {
		a.cancel(context.Canceled)
		return true
	}
	return h.Resolved
}

// wait is called when the guest waits for something that has not happened. It answers nil when the journal has
// grown by something that the guest takes, else the reason to give the instance up.
func (a *activation) wait() error {
	o := a.o
	o.mu.Lock()
	if err := a.stopped(); err != nil {
		o.mu.Unlock()
		return err
	}
	o.journal.Suspend(a.Suspension())
	err := o.fireDue()
	if err == nil {
		err = a.stopped() // the run's deadline was due
	}
	switch {
	case err != nil:
	case o.journal.Paused():
		err = replay.ErrSuspend
	case o.journal.Deliverable():
		o.journal.Resume()
		o.mu.Unlock()
		return nil
	}
	if err != nil {
		o.mu.Unlock()
		return err
	}
	starts, err := o.prepareAttempts()
	if err != nil || len(starts) == 0 && len(o.attempts) == 0 {
		hopeless := err == nil && o.hopeless()
		deliverable := o.journal.Deliverable()
		if deliverable {
			o.journal.Resume()
		}
		o.mu.Unlock()
		if err == nil && deliverable {
			return nil
		}
		if hopeless {
			return a.deadlock()
		}
		return errors.Join(err, replay.ErrSuspend)
	}
	o.mu.Unlock()
	return a.stay(starts)
}

// stay makes durable what the guest did, starts attempts, and keeps the instance while they run. The guest has no slot
// meanwhile, and if it gives the instance up, it gets none: nothing is computed any more.
func (a *activation) stay(starts []*attempt) error {
	s := a.o.s
	if a.worker {
		s.stepAside()
		defer s.stepBack()
	}
	p := s.slots.park(a.inst.Resident() + a.held())
	a.slot = false
	err := a.o.commit(s.ctx)
	if err == nil && a.canFork(starts) {
		if err = p.resume(s.ctx); err == nil {
			a.slot = true
			if a.fork(starts[0]) {
				return errForked
			}
			p, a.slot = s.slots.park(a.inst.Resident()+a.held()), false
		}
	}
	if err == nil {
		a.o.launch(starts)
		err = a.linger(p.evict)
	}
	if err == nil {
		err = p.resume(s.ctx)
	}
	if err != nil {
		p.leave()
		return err
	}
	a.slot = true
	return nil
}

// hopeless tells whether nothing can ever wake the run.
func (o *owner) hopeless() bool {
	_, wake := o.journal.Wake()
	if o.journal.CancelPolicy() == abi.CancelCooperative && o.journal.CancelUnixMs() == 0 {
		return false // it may wait for its cancel
	}
	return !wake && o.journal.OpenHandles() == 0 || !wake && o.nobodyElse()
}

// nobodyElse tells whether all open handles are ones that the guest does not wait for.
func (o *owner) nobodyElse() bool {
	s, _ := o.journal.Suspension()
	return s.Poll && !s.Events
}

// deadlock lets the guest report its stacks, or fails the run.
func (a *activation) deadlock() error {
	if a.Dump() {
		return nil
	}
	a.o.mu.Lock()
	defer a.o.mu.Unlock()
	e := store.Entry{Kind: store.KindFailed, Data: a.Outcome().Failure}
	if len(e.Data) == 0 {
		e.Data, _ = json.Marshal(&abi.Error{Code: abi.StepFailed, Kind: "deadlock",
			Message: "deadlock: the workflow waits for something that can never come"})
	}
	if _, err := a.o.append(e); err != nil {
		return err
	}
	return replay.ErrSuspend
}

// linger keeps the instance while attempts run, until a delivery comes, the time is over, or the memory is wanted.
func (a *activation) linger(evict <-chan struct{}) error {
	o := a.o
	t := o.s.cfg.Clock.NewTimer(o.s.cfg.Linger)
	defer t.Stop()
	for {
		select {
		case <-a.grown:
		case <-evict:
			return errEvicted
		case <-t.C():
			return errEvicted
		case <-o.s.ctx.Done():
			return ErrClosed
		}
		if err := a.stopped(); err != nil {
			return err
		}
		goOn, err := a.lookAgain()
		if err != nil || goOn {
			return err
		}
	}
}

// lookAgain is called when the journal of a lingering guest has grown. It answers true when the guest goes on.
func (a *activation) lookAgain() (bool, error) {
	o := a.o
	o.mu.Lock()
	switch {
	case o.journal.Paused():
		o.mu.Unlock()
		return false, replay.ErrSuspend
	case o.journal.Deliverable():
		o.journal.Resume()
		o.mu.Unlock()
		return true, nil
	}
	starts, err := o.prepareAttempts()
	idle := len(o.attempts) == 0
	o.mu.Unlock()
	switch {
	case err != nil:
		return false, err
	case idle: // the attempts ended in delays
		return false, replay.ErrSuspend
	case len(starts) == 0:
		return false, nil
	}
	if err := o.commit(o.s.ctx); err != nil {
		return false, err
	}
	o.launch(starts)
	return false, nil
}

// logLine keeps a line of workflow code, unless it was stored before.
func (a *activation) logLine(n uint64, level int32, text string) {
	o := a.o
	o.mu.Lock()
	defer o.mu.Unlock()
	if n < o.logLines {
		return
	}
	o.logLines = n + 1
	if o.journal.Retried() && a.Passed() { // stored before the retry, which began to count anew
		return
	}
	o.addLog(store.LogLine{UnixMs: a.Now(), Level: int8(level), Text: text})
}

func (o *owner) addLog(l store.LogLine) {
	l.Index = o.records
	o.records++
	o.logs = append(o.logs, l)
}

// realRandom fills p from the system's secure random.
func realRandom(p []byte) {
	if _, err := rand.Read(p); err != nil {
		panic(err) // crypto/rand.Read never fails since Go 1.24
	}
}

// realTime gives the wall clock and the time since a start.
func realTime(s *Scheduler, start time.Time) func() (int64, int64) {
	wall := s.cfg.Clock.Now()
	return func() (int64, int64) {
		elapsed := budgetClock.Now().Sub(start)
		return wall.Add(elapsed).UnixNano(), int64(elapsed)
	}
}
