package run

import (
	"fmt"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/cost"
	"github.com/wfhost/wfhost/store"
)

// wide is a run with many open calls.
type wide struct {
	t     testing.TB
	r     *Run
	now   int64
	going []*Attempt
}

// newWide returns a run whose guest waits for the signal "go", and has made n other calls, which call returns.
func newWide(t testing.TB, n int, call func(i int) store.Entry) *wide {
	t.Helper()
	key := store.RunKey{Namespace: 1, ID: "r"}
	w := &wide{t: t, now: 1000, r: New(key, Config{Active: true})}
	l := w.do(Start{New: NewRun{Key: key, Workflow: "w", Version: 1, Seed: make([]byte, 32)}}).Activate
	w.do(GuestReady{Lease: l})
	calls := []store.Entry{{Kind: store.KindSignalWait, Name: "go"}}
	for i := range n {
		calls = append(calls, call(i))
	}
	for i, e := range calls {
		if e.Kind != store.KindEmit && e.Kind != store.KindMarker && e.Kind != store.KindAttribute {
			e.Handle = int64(i + 1)
		}
		if _, err := l.Append(w.now, e); err != nil {
			t.Fatal(err)
		}
	}
	fx := w.do(GuestWaits{Lease: l, Suspension: store.Suspension{Seq: store.Seq(len(l.Entries())), Awaited: []int64{1}}})
	w.going = append(w.going, fx.Start...)
	w.commit()
	return w
}

func (w *wide) do(ev Event) *Effects {
	w.now++
	fx := w.r.Apply(w.now, ev)
	if fx.Err != nil {
		w.t.Fatalf("%T: %v", ev, fx.Err)
	}
	return fx
}

// commit does what a shard does after each event.
func (w *wide) commit() {
	w.r.Prepare(w.now)
	w.r.NextWake(w.now)
}

// beside is something that a run can have many of, and the maximum.
type beside struct {
	name  string
	most  int
	entry func(i int) store.Entry
	// then is called for each run before it is measured; nil: nothing.
	then func(w *wide)
}

var besides = []beside{
	{name: "open waits", most: 9000, entry: func(i int) store.Entry {
		return store.Entry{Kind: store.KindSignalWait, Name: fmt.Sprint("w", i)}
	}},
	{name: "waits for updates", most: 9000, entry: func(i int) store.Entry {
		return store.Entry{Kind: store.KindSignalWait, Name: fmt.Sprint(abi.UpdatePrefix, "w", i)}
	}},
	{name: "open sleeps", most: 9000, entry: func(i int) store.Entry {
		return store.Entry{Kind: store.KindSleep, Name: "s", HasDue: true, DueUnixMs: int64(1e9 + i)}
	}},
	{name: "open children", most: abi.MaxLiveChildren, entry: func(i int) store.Entry {
		return store.Entry{Kind: store.KindChild, Name: "c", Target: "w"}
	}},
	{name: "hooks", most: 9000, entry: func(i int) store.Entry {
		token := fmt.Sprint("token-", i)
		return store.Entry{Kind: store.KindHook, Name: fmt.Sprint("h", i), Target: token, Data: []byte(token)}
	}},
	{name: "steps at work", most: 9000, entry: aStep},
	{name: "steps in their second attempt", most: 9000, entry: aStep, then: (*wide).failAll},
	{name: "attributes", most: abi.MaxAttributes, entry: func(i int) store.Entry {
		return store.Entry{Kind: store.KindAttribute, Name: fmt.Sprint("a", i), Input: []byte("value")}
	}},
	{name: "markers", most: 9000, entry: func(i int) store.Entry {
		return store.Entry{Kind: store.KindMarker, Name: fmt.Sprint("v", i), Code: 1}
	}},
	{name: "entries", most: 9000, entry: func(int) store.Entry {
		return store.Entry{Kind: store.KindEmit, Name: "topic", Input: []byte("1")}
	}},
}

func aStep(i int) store.Entry {
	return store.Entry{Kind: store.KindStep, Name: fmt.Sprint("p", i), Target: "host/x"}
}

// failAll fails the first attempt of each step, and begins the second.
func (w *wide) failAll() {
	first := w.going
	w.going = nil
	for _, a := range first {
		w.going = append(w.going, w.do(AttemptEnds{Attempt: a, Outcome: StepFailure("x", "fails", true)}).Start...)
	}
	w.now += 1e6
	w.going = append(w.going, w.do(Due{}).Start...)
	w.commit()
	if len(w.going) != len(first) {
		w.t.Fatalf("%d of %d steps are in their second attempt", len(w.going), len(first))
	}
}

// TestCosts measures the cost of each event, with the step, its commit and its next wake, for a run with much data of
// each kind.
func TestCosts(t *testing.T) {
	events := []struct {
		name string
		ev   func(i int) Event
	}{
		{"signal", func(int) Event { return Signal{Name: "other"} }},
		{"signal with a key", func(i int) Event { return Signal{Name: "other", IdempotencyKey: fmt.Sprint(i)} }},
		{"update", func(i int) Event { return Signal{Name: abi.UpdatePrefix + "other", IdempotencyKey: fmt.Sprint(i)} }},
		{"due", func(int) Event { return Due{} }},
		{"look", func(int) Event { return Look{Func: func(*Run) error { return nil }} }},
		{"delivery to a token", func(i int) Event {
			return Look{Func: func(r *Run) error { r.Journal().Hook(fmt.Sprint("token-", i)); return nil }}
		}},
		{"wake of one name", func(int) Event { return Wake{Name: "none"} }},
		{"pause and unpause", func(i int) Event {
			if i%2 == 0 {
				return Pause{}
			}
			return Unpause{}
		}},
	}
	var cases []cost.Case
	for _, b := range besides {
		for _, e := range events {
			if e.name == "wake of one name" && b.name == "open sleeps" {
				continue // this compares the names of all of them
			}
			cases = append(cases, cost.Case{Call: e.name, Of: b.name, Sizes: sizes(b.most), Setup: func(t testing.TB, n int) func() {
				w, i := b.wide(t, n), 0
				return func() {
					w.do(e.ev(i))
					w.commit()
					i++
				}
			}})
		}
	}
	cost.Table(t, append(cases, ends()...))
}

// sizes returns the amounts to measure with, for data that has a maximum.
func sizes(most int) []int {
	if most <= 1000 {
		return []int{10, most / 2, most}
	}
	return []int{10, 1000, most}
}

func (b *beside) wide(t testing.TB, n int) *wide {
	w := newWide(t, n, b.entry)
	if b.then != nil {
		b.then(w)
	}
	return w
}

// ends are events that end one of many calls. Each case needs 160 of them.
func ends() (cases []cost.Case) {
	add := func(call string, b *beside, end func(w *wide, i int)) {
		most := max(sizes(b.most)[2], 400)
		cases = append(cases, cost.Case{Call: call, Of: b.name, Sizes: []int{200, most / 2, most}, Setup: func(t testing.TB, n int) func() {
			w, i := b.wide(t, n), 0
			return func() {
				end(w, i)
				w.commit()
				i++
			}
		}})
	}
	attempt := func(w *wide, _ int) {
		a := w.going[0]
		w.going = w.going[1:]
		w.do(AttemptEnds{Attempt: a, Outcome: StepOutcome{Data: []byte("1")}})
	}
	for i := range besides {
		switch b := &besides[i]; b.name {
		case "steps at work", "steps in their second attempt":
			add("end of an attempt", b, attempt)
			add("failure of an attempt, and the next one", b, func(w *wide, _ int) {
				a := w.going[0]
				w.going = append(w.going[1:], w.do(AttemptEnds{Attempt: a, Outcome: StepFailure("x", "fails", true)}).Start...)
				w.now += 10
			})
		case "open children":
			add("end of a child", b, func(w *wide, i int) {
				w.answer(store.CommandChildEnd, i, Message{Status: store.Completed, Payload: []byte("1")})
			})
		case "hooks":
			add("claim of a token", b, func(w *wide, i int) {
				w.answer(store.CommandReply, i, Message{Token: fmt.Sprint("token-", i)})
			})
		case "open sleeps":
			add("timer", b, func(w *wide, i int) {
				w.now = int64(1e9 + i)
				w.do(Due{})
			})
		}
	}
	return cases
}

// answer delivers another run's answer to the i-th call of a run with many.
func (w *wide) answer(kind store.CommandKind, i int, m Message) {
	m.Handle, m.Sender = int64(i+2), w.r.State().Incarnation
	before := w.r.Journal().OpenHandles()
	w.do(Command{Command: store.Command{Seq: store.CommandSeq(i + 1), Kind: kind, To: w.r.Key(), ToIncarnation: w.r.State().Incarnation,
		From: store.RunKey{Namespace: 1, ID: fmt.Sprint("other-", i)}}, Message: m})
	if w.r.Journal().OpenHandles() != before-1 {
		w.t.Fatalf("answer %d ends nothing", i)
	}
}
