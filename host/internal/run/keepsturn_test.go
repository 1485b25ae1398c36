package run

import (
	"fmt"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// TestClockSetBackWhileAStepWaits sets the clock back while one step waits for a place after a delay. Another step,
// whose attempt is then given up, still asks for a place.
func TestClockSetBackWhileAStepWaits(t *testing.T) {
	for _, back := range []bool{false, true} {
		w := newWide(t, 2, func(i int) store.Entry {
			e := aStep(i)
			e.Target = fmt.Sprint(abi.HandlerPrefix, i)
			e.Options = []byte(`{"delay":"50ms"}`)
			return e
		})
		asked := map[int64]int{}
		w.r.ask = func(a Ask) (any, Verdict) { asked[a.Handle]++; return nil, Queues }
		first, second := w.going[0], w.going[1]
		w.do(AttemptEnds{Attempt: first, Outcome: StepFailure("x", "fails", true)})
		w.commit()
		w.now += 100
		w.do(Due{})
		w.commit()
		if asked[first.Handle] != 1 {
			t.Fatal(asked)
		}
		if back {
			w.now -= 100
		}
		w.do(AttemptEnds{Attempt: second, Outcome: StepOutcome{Abandoned: true}})
		w.commit()
		if asked[second.Handle] == 0 {
			at, ok := w.r.NextWake(w.now)
			t.Errorf("clock set back %v: the second step may begin, and does not ask; next wake %d %v, now %d", back, at, ok, w.now)
		}
	}
}

// TestQueuedRunKeepsItsTurn has a step wait for a place. A signal comes while no guest may start, and the run leaves
// memory as queued. When it is loaded again, the step asks, and does not withdraw: a handler with limits would put it
// at the end of its queue.
func TestQueuedRunKeepsItsTurn(t *testing.T) {
	w := newWide(t, 1, func(i int) store.Entry {
		e := aStep(i)
		e.Target = fmt.Sprint(abi.HandlerPrefix, i)
		e.Options = []byte(`{"delay":"50ms"}`)
		return e
	})
	var asks []Ask
	ask := func(a Ask) (any, Verdict) { asks = append(asks, a); return nil, Queues }
	w.r.ask = ask
	w.do(AttemptEnds{Attempt: w.going[0], Outcome: StepFailure("x", "fails", true)})
	w.commit()
	w.now += 100
	w.do(Due{})
	w.commit()
	if len(asks) != 1 {
		t.Fatal(asks)
	}
	l := w.do(Signal{Name: "go"}).Activate
	fx := w.do(Refused{Lease: l, Later: true}) // by the pacer, for instance
	if fx.WithdrawAll || len(fx.Withdraw) > 0 {
		t.Fatal("withdrawn")
	}
	w.commit()
	if !w.r.AtRest() || w.r.State().Status != store.Queued {
		t.Fatalf("%v %v", w.r.AtRest(), w.r.State().Status)
	}
	r, err := Load(w.r.State(), w.r.Journal().All(), Config{Active: true, Ask: ask})
	if err != nil {
		t.Fatal(err)
	}
	w.r = r
	l = w.do(Due{}).Activate
	w.do(GuestReady{Lease: l})
	if _, err := l.Append(w.now, store.Entry{Kind: store.KindSignalWait, Name: "more", Handle: 3}); err != nil {
		t.Fatal(err)
	}
	w.do(GuestWaits{Lease: l, Suspension: store.Suspension{Seq: store.Seq(len(l.Entries())), Awaited: []int64{3}}})
	w.commit()
	if len(asks) != 2 || asks[1].Anew {
		t.Errorf("%+v: it loses its turn", asks[len(asks)-1])
	}
}

// TestQueuesOnlyForPlaces has guests give up their instances: the lease says of a run whether it waits for places of attempts and
// has none in flight.
func TestQueuesOnlyForPlaces(t *testing.T) {
	for name, c := range map[string]struct {
		verdicts []Verdict // of its steps, in turn
		queues   bool
	}{
		"one in flight":         {[]Verdict{Begins}, false},
		"one waits":             {[]Verdict{Queues}, true},
		"its handler is absent": {[]Verdict{Unhandled}, true},
		"it is told soon":       {[]Verdict{Soon}, true},
		"one of two waits":      {[]Verdict{Begins, Queues}, false},
		"both wait":             {[]Verdict{Queues, Soon}, true},
	} {
		w := &wide{t: t, now: 1000, r: New(store.RunKey{Namespace: 1, ID: "r"}, Config{Active: true, Ask: func(a Ask) (any, Verdict) {
			return nil, c.verdicts[a.Handle-1]
		}})}
		l := w.do(Start{New: NewRun{Key: w.r.Key(), Workflow: "w", Version: 1, Seed: make([]byte, 32)}}).Activate
		w.do(GuestReady{Lease: l})
		for i := range c.verdicts {
			e := aStep(i)
			e.Target, e.Handle = abi.HandlerPrefix+"h", int64(i+1)
			if _, err := l.Append(w.now, e); err != nil {
				t.Fatal(err)
			}
		}
		w.do(GuestWaits{Lease: l, Suspension: store.Suspension{Seq: store.Seq(len(l.Entries())), Awaited: []int64{1}}})
		w.commit()
		w.do(Evict{Lease: l}) // unless it has left already
		if l.Queues != c.queues {
			t.Errorf("%s: it queues: %v", name, l.Queues)
		}
	}
}
