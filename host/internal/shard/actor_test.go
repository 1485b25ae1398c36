package shard

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

var (
	actorKey     = store.RunKey{ID: "order-1"}
	actorErrDisk = errors.New("a sector cannot be read")
)

// actorWorld is an actor with a port and a home that record requests.
type actorWorld struct {
	t     *testing.T
	now   int64
	a     *actor
	said  []string
	lease *run.Lease   // of the last requested guest
	began *run.Attempt // that was started last
}

func actorNewWorld(t *testing.T) *actorWorld {
	t.Helper()
	w := &actorWorld{t: t, now: 1_800_000_000_000}
	a := newActor(w, w, actorKey)
	w.a = &a
	return w
}

func (w *actorWorld) say(what string, args ...any) {
	w.said = append(w.said, fmt.Sprintf(what, args...))
}

func (w *actorWorld) Order(_ *run.Lease, o run.Order)  { w.say("order %d", o) }
func (w *actorWorld) Yield(*run.Lease)                 { w.say("yield") }
func (w *actorWorld) Halt(_ *run.Lease, cause error)   { w.say("halt: %v", cause) }
func (w *actorWorld) Start(a *run.Attempt)             { w.began = a; w.say("start %s", a.Name) }
func (w *actorWorld) Tell(a *run.Attempt)              { w.say("tell %s", a.Name) }
func (w *actorWorld) Drop(a *run.Attempt)              { w.say("drop %s", a.Name) }
func (w *actorWorld) Created()                         { w.say("created") }
func (w *actorWorld) Activate(_ int64, l *run.Lease)   { w.lease = l; w.say("activate") }
func (w *actorWorld) Withdraw(_ store.RunKey, h int64) { w.say("withdraw %d", h) }
func (w *actorWorld) WithdrawRun(store.RunKey)         { w.say("withdraw all") }
func (w *actorWorld) Return(place any)                 { w.say("return %s", place) }
func (w *actorWorld) Prepared()                        { w.say("prepared") }
func (w *actorWorld) Replaced()                        { w.say("replaced") }
func (w *actorWorld) Stuck(st *store.RunState)         { w.say("stuck: %s", st.Reason) }
func (w *actorWorld) Happened(fx *run.Effects) {
	if fx.Fault != nil {
		w.say("fault: %v", fx.Fault)
	}
}

// heard checks the requests since the last call.
func (w *actorWorld) heard(want ...string) {
	w.t.Helper()
	if !slices.Equal(w.said, want) {
		w.t.Errorf("asked: %s\n want: %s", strings.Join(w.said, ", "), strings.Join(want, ", "))
	}
	w.said = nil
}

func actorNewRun(n byte) run.NewRun {
	return run.NewRun{Key: actorKey, Workflow: "order", Version: 1, Module: sha256.Sum256([]byte("v1")), Input: []byte(`1`),
		InputDigest: run.InputDigest([]byte(`1`)), Seed: make([]byte, 32), Incarnation: store.Incarnation{n}}
}

// deliver delivers an event with a reply that is recorded under the given name.
func (w *actorWorld) deliver(name string, ev run.Event) {
	w.a.Deliver(w.now, Envelope{Event: ev, Reply: func(a run.Answer, err error) {
		if err != nil {
			w.say("%s: %v", name, err)
		} else {
			w.say("%s: %s", name, a.State.Status)
		}
	}, Free: func() { w.say("free %s", name) }})
}

// load gives the actor a run that does not exist yet.
func (w *actorWorld) load() {
	w.a.Run = run.New(actorKey, run.Config{Active: true, Ask: func(a run.Ask) (any, run.Verdict) {
		if a.Handler == "gone" {
			w.say("%s waits", a.Handler)
			return nil, run.Unhandled
		}
		return a.Handler, run.Begins
	}})
	w.a.Drain(w.now)
}

// start starts the run, commits that, and gives its guest a place.
func (w *actorWorld) start() {
	w.load()
	w.deliver("start", run.Start{New: actorNewRun(1)})
	w.a.Hurry()
	w.commit()
	w.guest(run.GuestReady{Lease: w.lease})
	w.said = nil
}

func (w *actorWorld) guest(ev run.Event) {
	if w.a.Run.Lent() {
		w.a.TakeBack(w.now, w.lease, ev)
	}
	w.a.Apply(w.now, Envelope{Event: ev})
	w.a.Drain(w.now)
}

// fly puts a commit in flight, and returns its state.
func (w *actorWorld) fly() *store.RunState {
	w.t.Helper()
	if w.a.Fly(w.now) == nil {
		w.t.Fatal("there is nothing to commit")
	}
	st := w.a.Take().State
	return &st
}

func (w *actorWorld) commit() { w.a.Durable(w.now, w.fly()) }

// step has the guest make a step, and wait for it.
func (w *actorWorld) step(handler string) { w.calls(pay(handler)) }

func pay(handler string) store.Entry {
	return store.Entry{Kind: store.KindStep, Name: "pay", Handle: 1, Target: abi.HandlerPrefix + handler}
}

// calls has the guest make calls, and wait for the last one.
func (w *actorWorld) calls(calls ...store.Entry) {
	w.t.Helper()
	var last int64
	for _, e := range calls {
		if _, err := w.lease.Append(w.now, e); err != nil {
			w.t.Fatal(err)
		}
		last = e.Handle
	}
	at := store.Seq(len(w.lease.Entries()))
	w.guest(run.GuestWaits{Lease: w.lease, Suspension: store.Suspension{Seq: at, Awaited: []int64{last}}})
}

// Events that arrive before the run is read wait, and are answered when they are durable.
func TestMailWaits(t *testing.T) {
	w := actorNewWorld(t)
	w.deliver("start", run.Start{New: actorNewRun(1)})
	if !w.a.Working() || w.a.AtRest() || w.a.Running() {
		t.Error("an actor whose run is read does not work")
	}
	w.load()
	w.heard("activate", "created")
	if w.a.Wants() || !w.a.Hurry() || !w.a.Wants() {
		t.Error("a run that lingers is not hurried")
	}
	st := w.fly()
	w.heard("prepared")
	if !w.a.Flying() || w.a.Fly(w.now) != nil || w.a.Hurry() {
		t.Error("a second commit is made of nothing")
	}
	w.a.Durable(w.now, st)
	w.heard("free start", "start: running")
	if w.a.Size() <= actorBytes || w.a.AppliedMs != w.now {
		t.Errorf("the actor takes %d bytes, and was stepped at %d", w.a.Size(), w.a.AppliedMs)
	}
}

// A guest is asked to yield only once, and the event is committed together with the guest's calls.
func TestActorYield(t *testing.T) {
	w := actorNewWorld(t)
	w.start()
	w.deliver("signal", run.Signal{Name: "x"})
	w.a.AskToYield()
	w.a.AskToYield()
	w.heard("yield")
	w.guest(run.GuestYields{Lease: w.lease})
	if got := w.said; len(got) != 2 || got[0] != "prepared" {
		t.Errorf("asked: %v", got)
	}
	w.said = nil
	st := w.fly()
	w.deliver("again", run.Pause{})
	w.a.Durable(w.now, st)
	w.heard("free signal", "signal: running")
}

// An attempt starts when its cause is durable. If the guest has the run then, the attempt starts when the guest
// yields, and not at all if the run has ended.
func TestAttemptsStartWhenTheirCauseIsDurable(t *testing.T) {
	w := actorNewWorld(t)
	w.start()
	w.step("charge")
	if st := w.fly(); w.began != nil {
		t.Error("an attempt starts before its cause is durable")
	} else {
		w.a.Durable(w.now, st)
	}
	if w.began == nil || !w.a.Running() {
		t.Fatal("the attempt does not start")
	}
	w.said = nil
	w.a.Lose(actorErrDisk)
	w.heard("halt: a sector cannot be read", "drop pay", "withdraw all")

	w = actorNewWorld(t)
	w.start()
	w.step("charge")
	st := w.fly()
	w.deliver("end", run.Terminate{})
	w.a.Durable(w.now, st)
	w.commit()
	if w.began != nil || w.a.Working() || !w.a.AtRest() {
		t.Errorf("an attempt of a run that has ended: %v", w.began)
	}
	w.said = nil
	w.deliver("late", run.Signal{Name: "x"}) // the reply: the run has ended, durably
	w.heard("free late")
	if w.a.Fly(w.now) != nil {
		t.Error("there is something to commit")
	}
	w.heard("late: run \"order-1\": run has ended: terminated")
}

// The cause of an attempt becomes durable while the guest has the run: the attempt starts when the guest has yielded.
func TestActorAttemptStartsWhenTheGuestYields(t *testing.T) {
	w := actorNewWorld(t)
	w.start()
	w.calls(pay("charge"), store.Entry{Kind: store.KindSignalWait, Name: "go", Handle: 2})
	st := w.fly()
	w.deliver("signal", run.Signal{Name: "go"})
	w.guest(run.GuestReady{Lease: w.lease})
	w.a.Durable(w.now, st)
	if w.began != nil || !w.a.Run.Lent() {
		t.Fatal("an attempt starts while the guest has the run")
	}
	w.guest(run.GuestYields{Lease: w.lease})
	w.commit()
	if w.began == nil {
		w.guest(run.GuestYields{Lease: w.lease})
	}
	if w.began == nil {
		t.Error("the attempt does not start")
	}
}

// A step whose handler is missing waits, but an early reply does not.
func TestMissingHandlerAndEarlyReply(t *testing.T) {
	w := actorNewWorld(t)
	w.start()
	w.step("gone")
	if !slices.Contains(w.said, "gone waits") {
		t.Errorf("asked: %v", w.said)
	}
	w.said = nil
	w.a.Deliver(w.now, Envelope{Event: run.Signal{Name: "x"}, Early: true, Reply: func(run.Answer, error) { w.say("early") }})
	if !slices.Contains(w.said, "early") {
		t.Errorf("asked: %v", w.said)
	}
}

// A run replaces another one that ends first, in a separate commit.
func TestActorReplace(t *testing.T) {
	w := actorNewWorld(t)
	w.start()
	w.calls(store.Entry{Kind: store.KindSignalWait, Name: "go", Handle: 1})
	n := actorNewRun(2)
	n.Conflict = run.ConflictTerminate
	w.deliver("replace", run.Start{New: n})
	w.said = nil
	w.commit()
	w.heard("prepared", "replaced", "activate", "created")
	w.a.Lose(actorErrDisk)
	w.heard("halt: a sector cannot be read", "withdraw all", "free replace", "replace: a sector cannot be read")
}

// Callers that wait for a run that cannot be read, or for a commit, are refused.
func TestRefuse(t *testing.T) {
	w := actorNewWorld(t)
	w.deliver("signal", run.Signal{Name: "x"})
	if w.a.Refuse(actorErrDisk) {
		t.Error("a signal is not heard")
	}
	w.heard("free signal", "signal: a sector cannot be read")
	w.a.Deliver(w.now, Envelope{Event: run.Due{}})
	if !w.a.Refuse(actorErrDisk) {
		t.Error("a wake is heard")
	}
	w.deliver("pause", run.Pause{})
	w.a.Stick(&store.RunCommit{State: store.RunState{Status: store.Stuck, Reason: "unreadable"}})
	if !w.a.Durable(w.now, w.fly()) {
		t.Error("nobody waits to be told that the run is stuck")
	}
	w.heard("stuck: unreadable")
	w.a.Lose(actorErrDisk)
	w.heard("free pause", "pause: a sector cannot be read")
	w.load()
	w.deliver("wake", run.Wake{}) // there is no run, which is certain once no commit of it is in flight
	if w.a.Fly(w.now) != nil || len(w.said) != 2 || w.said[0] != "free wake" {
		t.Errorf("asked: %v", w.said)
	}
}

// A run is reported as stuck when that is durable.
func TestStuck(t *testing.T) {
	w := actorNewWorld(t)
	w.start()
	w.guest(run.GuestEnds{Lease: w.lease, End: run.End{Mismatch: "entry 2 differs"}})
	w.a.Hurry()
	w.said = nil
	w.commit()
	if len(w.said) != 2 || !strings.HasPrefix(w.said[1], "stuck: ") {
		t.Errorf("asked: %v", w.said)
	}
}

// The next iteration begins when the commit that ends the previous one is made.
func TestActorContinue(t *testing.T) {
	w := actorNewWorld(t)
	w.start()
	w.guest(run.GuestEnds{Lease: w.lease, End: run.End{Continue: &run.Continue{Input: []byte("2"), Version: 1,
		Told: func(int64) bool { return true }}}})
	w.said = nil
	w.fly()
	w.heard("prepared", "activate")
}

// A start is refused because of its id only when the run with that id is durable: otherwise that run might never have
// existed.
func TestRefusalIsDurable(t *testing.T) {
	w := actorNewWorld(t)
	w.load()
	w.deliver("start", run.Start{New: actorNewRun(1)})
	w.said = nil
	second := actorNewRun(2)
	second.Conflict = run.ConflictFail
	w.deliver("second", run.Start{New: second})
	w.heard("free second")
	st := w.fly()
	if len(w.said) > 0 && strings.Contains(strings.Join(w.said, ""), "second") {
		t.Errorf("asked before the commit: %v", w.said)
	}
	w.said = nil
	w.a.Durable(w.now, st)
	if said := strings.Join(w.said, ", "); !strings.Contains(said, "second: ") {
		t.Errorf("asked: %s", said)
	}
}
