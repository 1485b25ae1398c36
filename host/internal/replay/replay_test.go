package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// tail is a journal without a host.
type tail struct {
	j   *journal.Journal
	now int64
}

func newTail(t testing.TB) *tail {
	x := &tail{j: &journal.Journal{}, now: 1000}
	x.add(t, journal.Started{RunID: "r", Workflow: "w", Seed: make([]byte, 32)}.Entry([]byte("in")))
	x.add(t, store.Entry{Kind: store.KindActivated})
	return x
}

func (x *tail) add(t testing.TB, e store.Entry) {
	t.Helper()
	if _, err := x.j.Append(e, x.now); err != nil {
		t.Fatal(err)
	}
}

func (x *tail) Entries() []store.Entry                    { return x.j.Entries() }
func (x *tail) CallRoom() error                           { return x.j.CallRoom() }
func (x *tail) CheckAttribute(key string) error           { return x.j.CheckAttribute(key) }
func (x *tail) Now() int64                                { return x.now }
func (x *tail) Append(e store.Entry) (store.Entry, error) { return x.j.Append(e, x.now) }
func (x *tail) machine(change ...func(*Config)) *Machine {
	at, _ := x.j.StartedUnixMs()
	c := Config{Started: x.j.Started(), Input: []byte("in"), StartedUnixMs: at, Tail: x,
		HandlerError: func(h string) error {
			if h == "host/none" {
				return abi.Errorf(abi.UnknownHandler, "no handler %q", h)
			}
			return nil
		},
		RealTime:   func() (int64, int64) { return 7e9, 5e6 },
		RealRandom: func(p []byte) { p[0] = 42 }, NewToken: func() string { return "token" }}
	for _, f := range change {
		f(&c)
	}
	return New(c)
}

func must(t testing.TB, want int64) func(int64, error) {
	return func(got int64, err error) {
		t.Helper()
		if got != want || err != nil {
			t.Fatalf("got %d, %v; want %d", got, err, want)
		}
	}
}

func suspends(t testing.TB, err error) {
	t.Helper()
	if !errors.Is(err, ErrSuspend) {
		t.Fatalf("error %v, want a suspension", err)
	}
}

func TestSleepAndReplay(t *testing.T) {
	x := newTail(t)
	run := func(m *Machine) error {
		must(t, 1)(m.Sleep("nap", 500))
		if _, n := m.Result(1); n != abi.Pending.Neg() {
			t.Fatalf("result before it is told: %d", n)
		}
		h, err := m.Await([]int64{1})
		if err != nil {
			return err
		}
		if h != 1 || m.Now() != 1600 {
			t.Fatalf("handle %d, now %d", h, m.Now())
		}
		if b, n := m.Result(1); n != 0 || len(b) != 0 {
			t.Fatal("a sleep has a result")
		}
		must(t, 1)(m.Await([]int64{1})) // may be asked again
		return nil
	}
	suspends(t, run(x.machine()))
	x.now = 1600
	if err := x.j.FireDue(x.now); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		m := x.machine()
		if err := run(m); err != nil {
			t.Fatal(err)
		}
		if err := m.LeftOver(); err != nil {
			t.Fatal(err)
		}
	}
	if n := x.j.Len(); n != 4 {
		t.Fatalf("%d entries", n)
	}
	if m := x.machine(); m.LeftOver() == nil {
		t.Fatal("a sleep that was not made was not missed")
	}
}

func TestRefusals(t *testing.T) {
	x := newTail(t)
	refused := func(m *Machine) []abi.Code {
		var codes []abi.Code
		note := func(n int64, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			var e abi.Error
			if n >= 0 || json.Unmarshal(m.Last(), &e) != nil || e.Code.Neg() != n || e.Message == "" {
				t.Fatalf("answer %d, last %q", n, m.Last())
			}
			codes = append(codes, e.Code)
		}
		must(t, 1)(m.Sleep("nap", 0))
		note(m.Sleep("nap", 0))
		note(m.Sleep("", 0))
		note(m.Sleep("neg", -1))
		note(m.Sleep("bad\xff", 1))
		note(m.Sleep(strings.Repeat("x", 300), 1))
		note(m.SleepUntil("late", abi.MaxUnixMs+1))
		note(m.SleepText("text", "5 seconds"))
		note(m.Step("s", "host/none", nil, nil))
		note(m.Step("s", "", nil, nil))
		note(m.Step("s", "h", make([]byte, abi.MaxPayloadBytes+1), nil))
		note(m.Step("s", "h", nil, []byte(`{"nope":1}`)))
		note(m.StepBegin("wasi/x", nil))
		note(m.StepBegin("b", []byte("[]")))
		note(m.Cancel(77))
		note(m.Await([]int64{77}))
		note(m.Await(make([]int64, abi.MaxAwaitHandles+1)))
		note(m.Emit("", nil))
		note(m.Complete(make([]byte, abi.MaxPayloadBytes+1)), nil)
		note(m.Fail(make([]byte, abi.MaxPayloadBytes+1)), nil)
		_, n := m.Result(77)
		note(n, nil)
		must(t, 2)(m.SleepText("ok", "1h"))
		return codes
	}
	first := refused(x.machine())
	n := x.j.Len()
	// Replayed under a host that would decide otherwise: the recorded answers stay.
	second := refused(x.machine(func(c *Config) { c.HandlerError = func(string) error { return nil } }))
	if !slices.Equal(first, second) || x.j.Len() != n {
		t.Fatalf("%v\n%v", first, second)
	}
}

func TestMismatches(t *testing.T) {
	x := newTail(t)
	m := x.machine()
	must(t, 1)(m.Step("s", "h", []byte("in"), nil))
	must(t, 2)(m.Sleep("nap", 5))
	must(t, 0)(m.Cancel(2))
	for name, f := range map[string]func(m *Machine) error{
		"kind":    func(m *Machine) error { _, err := m.Sleep("s", 5); return err },
		"name":    func(m *Machine) error { _, err := m.Step("t", "h", []byte("in"), nil); return err },
		"handler": func(m *Machine) error { _, err := m.Step("s", "g", []byte("in"), nil); return err },
		"input":   func(m *Machine) error { _, err := m.Step("s", "h", []byte("other"), nil); return err },
		"wait": func(m *Machine) error {
			_, _ = m.Step("s", "h", []byte("in"), nil)
			_, err := m.Await([]int64{1})
			return err
		},
		"poll":   func(m *Machine) error { _, err := m.Poll(PollRequest{Events: true}); return err },
		"cancel": func(m *Machine) error { _, _ = m.Step("s", "h", []byte("in"), nil); _, err := m.Cancel(1); return err },
		"return": func(m *Machine) error { return m.LeftOver() },
		"other cancel": func(m *Machine) error {
			_, _ = m.Step("s", "h", []byte("in"), nil)
			_, _ = m.Sleep("nap", 5)
			_, err := m.Cancel(1)
			return err
		},
		"step_end": func(m *Machine) error { return m.StepEnd(0, nil) },
	} {
		var mm *Mismatch
		if err := f(x.machine()); !errors.As(err, &mm) || !strings.Contains(err.Error(), "the journal has") {
			t.Errorf("%s: %v", name, err)
		}
	}
	x.add(t, store.Entry{Kind: store.KindStepResult, Handle: 1, Data: []byte("out")})
	m = x.machine() // resolved: a changed input is a warning
	must(t, 1)(m.Step("s", "h", []byte("other"), nil))
	if len(m.Warnings) != 1 {
		t.Fatal("no warning of a changed input")
	}
	m = x.machine(func(c *Config) { c.Strict = true })
	if _, err := m.Step("s", "h", []byte("other"), nil); err == nil {
		t.Fatal("strict lets a changed input pass")
	}
	m = x.machine() // a delivery taken too early
	must(t, 1)(m.Step("s", "h", []byte("in"), nil))
	must(t, 1)(m.Await([]int64{1}))
	if _, err := m.Sleep("nap", 5); err == nil || !strings.Contains(err.Error(), "after 0 deliveries") {
		t.Fatalf("a reordering was not noticed: %v", err)
	}
}

func TestOutcomes(t *testing.T) {
	x := newTail(t)
	m := x.machine()
	must(t, 1)(m.Step("a", "h", nil, nil))
	must(t, 2)(m.StepBegin("b", nil))
	must(t, 3)(m.Sleep("c", 100))
	must(t, 0)(m.Cancel(3))
	must(t, 3)(m.Await([]int64{3})) // a withdrawn handle does not wait
	if _, n := m.Result(3); n != abi.Cancelled.Neg() {
		t.Fatalf("withdrawn: %d", n)
	}
	x.add(t, store.Entry{Kind: store.KindStepFailure, Handle: 2, Data: []byte(`{"code":"STEP_FAILED"}`)})
	x.add(t, store.Entry{Kind: store.KindStepResult, Handle: 1, Data: []byte("out")})
	must(t, 2)(m.Await(nil)) // journal order, not handle order
	must(t, 1)(m.Await([]int64{1, 3, 1}[:1]))
	must(t, 2)(m.Await([]int64{1, 2}))
	if _, n := m.Result(2); n != abi.StepFailed.Neg() || string(m.Last()) != `{"code":"STEP_FAILED"}` {
		t.Fatalf("failure %d %s", n, m.Last())
	}
	if b, n := m.Result(1); n != 3 || string(b) != "out" || string(m.Last()) != "out" {
		t.Fatal("result")
	}
	must(t, journal.WithdrawTold)(m.Cancel(1))
	if n, err := m.Await(nil); n != abi.UnknownHandle.Neg() || err != nil {
		t.Fatal(n, err)
	}
	if m.Complete([]byte("r")) != 0 || m.Fail([]byte("f")) != 0 || string(m.Outcome().Result) != "r" || string(m.Outcome().Failure) != "f" {
		t.Fatal("outcome")
	}
	must(t, 0)(m.CancelPolicy(abi.CancelCooperative))
	x.add(t, store.Entry{Kind: store.KindCancel})
	must(t, 4)(m.Sleep("d", 100))
	if n, err := m.Await([]int64{4}); n != abi.Cancelled.Neg() || err != nil {
		t.Fatal(n, err)
	}
}

func TestPolls(t *testing.T) {
	x := newTail(t)
	m := x.machine()
	poll := func(m *Machine, p PollRequest, want PollAnswer) {
		t.Helper()
		if got, err := m.Poll(p); got != want || err != nil {
			t.Fatalf("%+v: %v %v", p, got, err)
		}
	}
	poll(m, PollRequest{HasClock: true, Events: true}, PollClock) // due: only looking
	mono := m.MonoNs()
	poll(m, PollRequest{HasClock: true, TimeoutNs: 1e5}, PollClock) // a tick
	if m.MonoNs() != mono+1e5 {
		t.Fatal("a tick does not move the monotonic clock")
	}
	_, err := m.Poll(PollRequest{HasClock: true, TimeoutNs: 2e9 + 1})
	suspends(t, err)
	if s := m.Suspension(); !s.Poll || s.Events || !s.PollDue || s.PollDueUnixMs != 3001 {
		t.Fatalf("%+v", s)
	}
	x.now = 3001 + abi.MaxLagMs // late, but not late enough to move the clock
	x.j.Suspend(m.Suspension())
	if err := x.j.FireDue(x.now); err != nil {
		t.Fatal(err)
	}
	x.j.Resume()
	poll(m, PollRequest{HasClock: true, TimeoutNs: 2e9 + 1}, PollClock)
	if m.Now() != 3001 || m.WallNs() != 3001e6 || m.MonoNs() < mono+2e9 {
		t.Fatalf("now %d", m.Now())
	}
	must(t, 1)(m.Sleep("nap", 10))
	_, err = m.Poll(PollRequest{Events: true})
	suspends(t, err)
	x.j.Suspend(m.Suspension())
	if _, err := x.j.Skip("", x.now); err != nil {
		t.Fatal(err)
	}
	must(t, 0)(m.CancelPolicy(abi.CancelCooperative))
	x.add(t, store.Entry{Kind: store.KindCancel})
	poll(m, PollRequest{Events: true}, PollEvents)
	poll(m, PollRequest{Events: true}, PollEvents) // not taken yet
	if e := m.NextEvent(); e != abi.PackEvent(abi.EventResolved, 1) {
		t.Fatal(e)
	}
	poll(m, PollRequest{Events: true}, PollEvents)
	if e := m.NextEvent(); e != abi.PackEvent(abi.EventCancel, 0) || m.NextEvent() != 0 {
		t.Fatal(e)
	}
	if m.Consumed() != 3 {
		t.Fatal(m.Consumed())
	}
	_, err = m.Poll(PollRequest{Events: true})
	suspends(t, err)
	if !m.Dump() || m.Dump() || m.NextEvent() != abi.PackEvent(abi.EventDump, 0) {
		t.Fatal("dump")
	}
	// The journal has a clock where the guest polls without one.
	other := x.machine()
	if _, err := other.Poll(PollRequest{Events: true}); err == nil {
		t.Fatal("a clock was given to a poll without one")
	}
}

func TestBodies(t *testing.T) {
	x := newTail(t)
	m := x.machine()
	must(t, 1)(m.StepBegin("a", nil))
	must(t, 2)(m.StepBegin("b", nil))
	_, err := m.Await([]int64{1, 2})
	suspends(t, err)
	until := m.Suspension().Seq
	x.add(t, store.Entry{Kind: store.KindStepResult, Handle: 1, Data: []byte("newer")})
	body := func(event bool) *Machine {
		return x.machine(func(c *Config) {
			c.Mode, c.Handle, c.Until, c.BodiesEvent, c.Step = Body, 2, until, event, &StepInfo{Name: "b", Attempt: 1}
		})
	}
	c := body(false)
	must(t, 1)(c.StepBegin("a", nil))
	must(t, 0)(c.StepBegin("b", nil)) // RUN_BODY
	if !c.InBody() || c.Now() != 7000 || c.WallNs() != 7e9 || c.MonoNs() != 1e9+5e6 {
		t.Fatalf("clocks of a body: %d %d %d", c.Now(), c.WallNs(), c.MonoNs())
	}
	var p [1]byte
	if c.Random(p[:]); p[0] != 42 || !strings.Contains(string(c.Info()), `"step":{"name":"b"`) {
		t.Fatal("a body has real random and the step's info")
	}
	for _, f := range []func() (int64, error){func() (int64, error) { return c.Sleep("x", 1) }, func() (int64, error) { return c.Await(nil) },
		func() (int64, error) { return c.Cancel(1) }, func() (int64, error) { _, n := c.Result(1); return n, nil },
		func() (int64, error) { return c.Complete(nil), nil }, func() (int64, error) { return c.Fail(nil), nil }} {
		if n, err := f(); n != abi.NotHere.Neg() || err != nil {
			t.Fatal(n, err)
		}
	}
	if _, err := c.Poll(PollRequest{Events: true}); !errors.Is(err, ErrBodyWait) {
		t.Fatal(err)
	}
	if err := c.StepEnd(0, []byte("done")); !errors.Is(err, ErrBodyEnd) || !c.Outcome().BodyOK || string(c.Outcome().Body) != "done" {
		t.Fatal(err)
	}
	for name, ask := range map[string]func(*Machine) bool{
		"await": func(m *Machine) bool {
			n, err := m.Await([]int64{1, 2})
			return n == abi.RunBody.Neg() && err == nil && m.Last()[0] == 2 && len(m.Last()) == 8
		},
		"event": func(m *Machine) bool {
			a, err := m.Poll(PollRequest{Events: true})
			return a == PollEvents && err == nil && m.NextEvent() == abi.PackEvent(abi.EventRunBody, 2)
		},
	} {
		m := body(true)
		must(t, 1)(m.StepBegin("a", nil))
		must(t, 2)(m.StepBegin("b", nil))
		if !ask(m) || !m.InBody() {
			t.Errorf("%s: the body was not begun", name)
		}
	}
	var mm *Mismatch
	c = body(false)
	must(t, 1)(c.StepBegin("a", nil))
	c.cfg.Handle = 9
	must(t, 2)(c.StepBegin("b", nil))
	if _, err := c.Sleep("more", 1); !errors.As(err, &mm) {
		t.Fatal(err)
	}
	s := x.machine(func(c *Config) { c.Mode, c.Step = StepFn, &StepInfo{} })
	if !s.InBody() || s.Complete([]byte("x")) != 0 || s.Fail(nil) != 0 || s.LeftOver() != nil || s.RunID() != "r" || string(s.Input()) != "in" {
		t.Fatal("a step function")
	}
	chk := x.machine(func(c *Config) { c.Mode = Check })
	must(t, 1)(chk.StepBegin("a", nil))
	must(t, 2)(chk.StepBegin("b", nil))
	if _, err := chk.Sleep("live", 1); !errors.Is(err, ErrSuspend) {
		t.Fatal(err)
	}
	if _, err := chk.Cancel(2); !errors.Is(err, ErrSuspend) {
		t.Fatal(err)
	}
}

// TestReplayIsLive runs a random workflow live with deliveries in random order, then replays its journal: it gets the
// same answers, times and random numbers.
func TestReplayIsLive(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		x := newTail(t)
		plan := rapid.SliceOfN(rapid.IntRange(0, 5), 1, 40).Draw(rt, "plan")
		deliver := func() {
			x.now += rapid.Int64Range(0, 50).Draw(rt, "dt")
			var open []int64
			for h := range x.j.Handles {
				open = append(open, h.ID)
			}
			if len(open) == 0 {
				return
			}
			id := rapid.SampledFrom(open).Draw(rt, "which")
			e := store.Entry{Kind: store.KindStepResult, Handle: id, Data: []byte(fmt.Sprint("result ", id)), Attempt: 1}
			if x.j.Handle(id).Kind == store.KindSleep {
				e = store.Entry{Kind: store.KindTimer, Handle: id, Skipped: true, HasDue: true, DueUnixMs: x.now + 5}
			}
			_, _ = x.j.Append(e, x.now) // a due timer may have been quicker
		}
		run := func(live bool) (trace []string) {
			m := x.machine()
			say := func(v ...any) { trace = append(trace, fmt.Sprint(v...)) }
			for i, op := range plan {
				switch op {
				case 0:
					say(m.Sleep(fmt.Sprint("s", i), int64(i*7)))
				case 1, 2:
					say(m.Step(fmt.Sprint("h", i%25), "host/x", []byte{byte(i)}, nil))
				case 3:
					n, err := m.Cancel(int64(i/3 + 1))
					say(n, err)
				case 4:
					var p [4]byte
					m.Random(p[:])
					say(p, m.MonoNs(), string(m.Info()))
				case 5:
					for {
						h, err := m.Await(nil)
						if errors.Is(err, ErrSuspend) && live {
							deliver()
							continue
						}
						b, n := m.Result(h)
						say(h, err, string(b), n, m.Now())
						break
					}
				}
				if live && rapid.IntRange(0, 3).Draw(rt, "more") == 0 {
					deliver()
				}
			}
			say(m.LeftOver())
			return trace
		}
		live := run(true)
		n := x.j.Len()
		if again := run(false); !slices.Equal(live, again) || x.j.Len() != n {
			rt.Fatalf("live\n%s\nreplay\n%s", strings.Join(live, "\n"), strings.Join(again, "\n"))
		}
	})
}

// TestWallClockEnds: the WASI clock stops at the end of its 64 bits instead of wrapping around.
func TestWallClockEnds(t *testing.T) {
	for ms, ns := range map[int64]uint64{lastWallMs: 18446744073709e6, lastWallMs + 1: 18446744073709e6, abi.MaxUnixMs: 18446744073709e6} {
		if got := wallNs(ms); uint64(got) != ns {
			t.Errorf("%d ms: %d ns", ms, uint64(got))
		}
	}
}
