package replay

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// TestPrimitives makes each call other than time and steps, live and replayed.
func TestPrimitives(t *testing.T) {
	x := newTail(t)
	play := func(m *Machine) {
		t.Helper()
		must(t, 1)(m.Signal("s", 500))
		must(t, 2)(m.Signal("s", -1))
		must(t, 3)(m.SignalSend("out", "other", "s", []byte("p")))
		must(t, 4)(m.Child("kid", "w", []byte("in"), []byte(`{"attributes":{"a":"b"}}`)))
		must(t, 5)(m.Hook("h", "", nil))
		must(t, 6)(m.Hook("h", "chosen-token", nil))
		must(t, 0)(m.Emit("t", []byte("1")))
		must(t, 1)(m.Emit("t", []byte("2")))
		must(t, 0)(m.SetAttribute("k", []byte("v")))
		must(t, 0)(m.CancelPolicy(abi.CancelCooperative))
		must(t, 4)(m.Version("marker", 4))
		must(t, 4)(m.Version("marker", 5))
		if id, n := m.ChildID(4); n <= 0 || !strings.HasPrefix(string(id), "r.") {
			t.Fatalf("child %q %d", id, n)
		}
		if _, n := m.ChildID(1); n != abi.InvalidArgument.Neg() {
			t.Fatal(n)
		}
	}
	m := x.machine()
	play(m)
	play(x.machine())
	must(t, 5)(m.Await([]int64{5})) // a generated token is available at once
	if b, n := m.Result(5); n != 5 || string(b) != "token" || !m.Told(5) || m.Told(6) || m.Told(99) {
		t.Fatalf("%q %d", b, n)
	}
	x.add(t, store.Entry{Kind: store.KindSignalAccepted, Name: "s", Data: []byte("payload")})
	x.add(t, store.Entry{Kind: store.KindHookReady, Handle: 6, Code: int32(abi.Conflict), Data: []byte(`{"code":"CONFLICT"}`)})
	x.add(t, store.Entry{Kind: store.KindSignalSent, Handle: 3})
	x.add(t, store.Entry{Kind: store.KindChildFailure, Handle: 4, Data: []byte(`{"code":"CHILD_FAILED"}`)})
	for _, c := range []struct {
		handle int64
		want   string
		n      int64
	}{{1, "payload", 7}, {6, "", abi.Conflict.Neg()}, {3, "", 0}, {4, "", abi.ChildFailed.Neg()}} {
		must(t, c.handle)(m.Await(nil))
		if b, n := m.Result(c.handle); string(b) != c.want || n != c.n {
			t.Fatalf("handle %d: %q %d", c.handle, b, n)
		}
	}
	x.add(t, store.Entry{Kind: store.KindCancel})
	must(t, abi.Cancelled.Neg())(m.Await([]int64{2}))
	if !m.Outcome().Cancelled {
		t.Fatal("the cancel was not seen")
	}
	for name, err := range map[string]error{"policy": func() error { _, err := x.machine().CancelPolicy(0); return err }()} {
		var mm *Mismatch
		if !errors.As(err, &mm) || !strings.Contains(mm.Error(), "signal_wait") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMarkers(t *testing.T) {
	x := newTail(t)
	m := x.machine()
	must(t, 1)(m.Sleep("a", 5))
	again := x.machine() // newer code with a marker, in a journal without it
	must(t, 0)(again.Version("new", 3))
	must(t, 1)(again.Sleep("a", 5))
	must(t, 3)(again.Version("newer", 3))
	must(t, abi.InvalidArgument.Neg())(again.Version("x", -1))
	once := x.machine()
	must(t, 1)(once.Sleep("a", 5))
	must(t, 3)(once.Version("newer", 9))
}

func TestContinueAsNew(t *testing.T) {
	x := newTail(t)
	m := x.machine()
	if err := m.ContinueAsNew([]byte("next"), nil); !errors.Is(err, ErrContinue) || string(m.Outcome().Continue.Input) != "next" {
		t.Fatal(err, m.Outcome())
	}
	x = newTail(t)
	err := x.machine().ContinueAsNew(nil, []byte("{"))
	var refused *RefusedError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "continue_as_new was refused") {
		t.Fatal(err)
	}
	if err := x.machine().ContinueAsNew(make([]byte, abi.MaxPayloadBytes+1), nil); !errors.As(err, &refused) {
		t.Fatal(err) // the entry answers a refused call
	}
}

// TestOnAfterDump ends a guest that continues after it was asked for its stacks: the journal does not record the
// request.
func TestOnAfterDump(t *testing.T) {
	for name, on := range map[string]func(m *Machine) error{
		`sleep "a"`: func(m *Machine) error { _, err := m.Sleep("a", 500); return err },
		"a clock": func(m *Machine) error {
			_, err := m.Poll(PollRequest{Events: true, HasClock: true, TimeoutNs: 5e9})
			return err
		},
	} {
		x := newTail(t)
		m := x.machine()
		_, err := m.Poll(PollRequest{Events: true})
		suspends(t, err)
		if !m.Dump() || m.NextEvent() != abi.PackEvent(abi.EventDump, 0) {
			t.Fatal("it is not asked")
		}
		before := x.j.Len()
		if err := on(m); !errors.Is(err, ErrDeadlock) || !strings.Contains(err.Error(), name) || x.j.Len() != before {
			t.Errorf("%s: %v", name, err)
		}
		_, err = m.Poll(PollRequest{Events: true})
		suspends(t, err) // as before
	}
}

// TestMisplaced ends a guest that makes calls in a place where they are not allowed; if the journal has another call
// there, it is a mismatch.
func TestMisplaced(t *testing.T) {
	for name, call := range map[string]func(m *Machine) error{
		abi.FnStepEnd: func(m *Machine) error { return m.StepEnd(0, nil) },
		abi.FnQueryReply: func(m *Machine) error {
			_, err := m.Reply(0, 0, nil)
			return err
		},
	} {
		x := newTail(t)
		m := x.machine()
		must(t, 1)(m.Sleep("a", 500))
		var refused *RefusedError
		var e abi.Error
		err := call(m)
		if !errors.As(err, &refused) || json.Unmarshal(refused.JSON, &e) != nil || e.Code != abi.StepFailed || e.Kind != abi.KindTrap ||
			!strings.Contains(e.Message, name+" was called outside of a ") {
			t.Errorf("%s: %v", name, err)
		}
		var mismatch *Mismatch
		if err := call(x.machine()); !errors.As(err, &mismatch) || mismatch.Got != name {
			t.Errorf("%s in place of a sleep: %v", name, err)
		}
	}
}

func TestQuery(t *testing.T) {
	x := newTail(t)
	must(t, 1)(x.machine().Sleep("a", 500))
	ask := func() *Machine {
		return x.machine(func(c *Config) {
			c.Mode, c.Query = Query, QueryRequest{Name: "status", Input: []byte("question")}
		})
	}
	m := ask()
	if _, err := m.Reply(0, 0, nil); err == nil {
		t.Fatal("an answer before the question")
	}
	must(t, 1)(m.Sleep("a", 500))
	must(t, abi.Query.Neg())(m.Await([]int64{1}))
	if string(m.Input()) != "question" || !strings.Contains(string(m.Info()), `"query":"status"`) {
		t.Fatal(string(m.Input()), string(m.Info()))
	}
	for name, call := range map[string]func() (int64, error){
		"sleep": func() (int64, error) { return m.Sleep("b", 1) }, "await": func() (int64, error) { return m.Await(nil) },
		"cancel": func() (int64, error) { return m.Cancel(1) }, "version": func() (int64, error) { return m.Version("v", 1) },
		"emit":     func() (int64, error) { return m.Emit("t", nil) },
		"result":   func() (int64, error) { _, n := m.Result(1); return n, nil },
		"child_id": func() (int64, error) { _, n := m.ChildID(1); return n, nil },
		"complete": func() (int64, error) { return m.Complete(nil), nil }, "fail": func() (int64, error) { return m.Fail(nil), nil },
	} {
		if n, err := call(); n != abi.NotHere.Neg() || err != nil {
			t.Errorf("%s in a query: %d %v", name, n, err)
		}
	}
	if _, err := m.Poll(PollRequest{Events: true}); !errors.Is(err, ErrSuspend) {
		t.Fatal(err)
	}
	if _, err := m.Reply(0, 0, []byte("answer")); !errors.Is(err, ErrQueryEnd) || string(m.Outcome().Reply) != "answer" || !m.Outcome().ReplyOK {
		t.Fatal(err, m.Outcome())
	}
	m = ask()
	must(t, 1)(m.Sleep("a", 500))
	if got, err := m.Poll(PollRequest{Events: true}); got != PollEvents || err != nil || m.NextEvent() != abi.PackEvent(abi.EventQuery, 0) {
		t.Fatal(got, err)
	}
	m = ask() // a workflow that calls more than the journal has is suspended before that call
	must(t, 1)(m.Sleep("a", 500))
	if _, err := m.Sleep("later", 1); !errors.Is(err, ErrSuspend) {
		t.Fatal(err)
	}
}

func TestPrimitiveRefusals(t *testing.T) {
	x := newTail(t)
	m := x.machine()
	refused := func(want abi.Code) func(int64, error) {
		return func(n int64, err error) {
			t.Helper()
			if n != want.Neg() || err != nil {
				t.Errorf("answer %d %v, want %v", n, err, want)
			}
		}
	}
	big := make([]byte, abi.MaxPayloadBytes+1)
	refused(abi.InvalidArgument)(m.Signal("", 0))
	refused(abi.InvalidDuration)(m.Signal("s", 1<<62))
	refused(abi.InvalidArgument)(m.SignalSend("", "r", "s", nil))
	refused(abi.InvalidArgument)(m.SignalSend("n", "a b", "s", nil))
	refused(abi.InvalidArgument)(m.SignalSend("n", "r", "", nil))
	refused(abi.TooLarge)(m.SignalSend("n", "r", "s", big))
	refused(abi.InvalidArgument)(m.Child("", "w", nil, nil))
	refused(abi.InvalidArgument)(m.Child("c", "", nil, nil))
	refused(abi.TooLarge)(m.Child("c", "w", big, nil))
	refused(abi.InvalidArgument)(m.Child("c", "w", nil, []byte("{")))
	refused(abi.TooLarge)(m.Child("c", "w", nil, []byte(`{"attributes":{"a":"`+strings.Repeat("x", 2000)+`"}}`)))
	refused(abi.InvalidArgument)(m.Hook("", "", nil))
	refused(abi.InvalidArgument)(m.Hook("h", "short", nil))
	refused(abi.InvalidArgument)(m.Hook("h", "", []byte("[]")))
	refused(abi.InvalidArgument)(m.Emit("", nil))
	refused(abi.TooLarge)(m.Emit("t", big))
	refused(abi.InvalidArgument)(m.SetAttribute("", nil))
	refused(abi.InvalidArgument)(m.CancelPolicy(9))
	if n := m.RefuseWithoutEntry(errors.New("as it is")); n != abi.InvalidArgument.Neg() {
		t.Error(n)
	}
	if b, n := m.Answer([]byte("abc")); n != 3 || string(b) != "abc" || string(m.Last()) != "abc" {
		t.Error(b, n)
	}
	deep := x.j.Started()
	if deep.Parent != nil {
		t.Fatal("a parent")
	}
}

// TestChildRoom starts children up to the limit, and is refused. There is room again when the guest has received the
// end of one, or has withdrawn one. A replay under another limit gets the journal's answers.
func TestChildRoom(t *testing.T) {
	x := newTail(t)
	limit := 2
	var parent *journal.Parent
	machine := func() *Machine {
		return x.machine(func(c *Config) { c.MaxChildren, c.Started.Parent = limit, parent })
	}
	refused := abi.Limit.Neg()
	first := func(m *Machine) {
		must(t, 1)(m.Child("a", "w", nil, nil))
		must(t, 2)(m.Child("b", "w", nil, nil))
		must(t, refused)(m.Child("c", "w", nil, nil))
	}
	m := machine()
	first(m)
	if !strings.Contains(string(m.Last()), "the run has 2 children that have not ended") {
		t.Errorf("%s", m.Last())
	}
	x.add(t, store.Entry{Kind: store.KindChildResult, Handle: 1})
	rest := func(m *Machine) {
		must(t, 1)(m.Await([]int64{1}))
		must(t, 3)(m.Child("d", "w", nil, nil))
		must(t, refused)(m.Child("e", "w", nil, nil))
		must(t, 0)(m.Cancel(2))
		must(t, 4)(m.Child("f", "w", nil, nil))
	}
	rest(m)
	limit = 100
	m = machine()
	first(m)
	rest(m)
	limit, parent = 4, &journal.Parent{Depth: 1} // so that it is 2
	m = machine()
	first(m)
	rest(m)
	must(t, refused)(m.Child("g", "w", nil, nil))
}

// TestProgramOfOldRuns asks for the argument of a program: a run from before there was one never has one.
func TestProgramOfOldRuns(t *testing.T) {
	for rules, want := range []string{"", "w", "w"} {
		m := newTail(t).machine(func(c *Config) { c.Started.Rules = rules })
		if got := m.Program(); got != want {
			t.Errorf("rules %d: %q, want %q", rules, got, want)
		}
	}
}
