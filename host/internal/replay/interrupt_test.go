package replay

import (
	"encoding/json"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// TestInterruptTellsTheHandle ends waits by a cancel and by a query. If the wait is for one handle, the error has
// that handle, which is still open, unless the run's rules are older than that.
func TestInterruptTellsTheHandle(t *testing.T) {
	for i, c := range []struct {
		rules int
		await []int64
		want  int64
	}{
		{journal.RulesNewest, []int64{2}, 2},
		{journal.RulesHandle, []int64{1}, 1},
		{journal.RulesHandle, []int64{1, 2}, 0},
		{journal.RulesHandle, nil, 0},
		{journal.RulesArguments, []int64{2}, 0},
		{0, []int64{2}, 0},
	} {
		x := newTail(t)
		begin := func(mode Mode) *Machine {
			m := x.machine(func(cfg *Config) {
				cfg.Started.Rules, cfg.Mode, cfg.Query = c.rules, mode, QueryRequest{Name: "status"}
			})
			must(t, 0)(m.CancelPolicy(abi.CancelCooperative))
			must(t, 1)(m.Sleep("a", 500))
			must(t, 2)(m.Signal("b", -1))
			return m
		}
		told := func(m *Machine, code abi.Code) {
			t.Helper()
			must(t, code.Neg())(m.Await(c.await))
			var e abi.Error
			if err := json.Unmarshal(m.Last(), &e); err != nil || e.Code != code || e.Handle != c.want {
				t.Errorf("%d: %s, %v, want handle %d", i, m.Last(), err, c.want)
			}
		}
		m := begin(Live)
		told(begin(Query), abi.Query)
		x.add(t, store.Entry{Kind: store.KindCancel})
		told(m, abi.Cancelled)
		told(begin(Live), abi.Cancelled) // as a replay does
		if _, n := m.Result(2); n != abi.Pending.Neg() {
			t.Errorf("%d: the handle is not open: %d", i, n)
		}
	}
}

// TestLastSurvives makes the calls that do not change the newest answer.
func TestLastSurvives(t *testing.T) {
	x := newTail(t)
	m := x.machine()
	must(t, abi.InvalidArgument.Neg())(m.Sleep("", 1))
	want := string(m.Last())
	m.Input()
	m.Info()
	m.Now()
	m.Random(make([]byte, 4))
	m.NextEvent()
	m.Last()
	m.WallNs()
	m.MonoNs()
	if _, err := m.Poll(PollRequest{HasClock: true}); err != nil {
		t.Fatal(err)
	}
	if got := string(m.Last()); got != want || got == "" {
		t.Errorf("the newest answer is %q, want %q", got, want)
	}
	must(t, 1)(m.Sleep("nap", 1))
	if len(m.Last()) > 0 {
		t.Errorf("the newest answer is %q after a call that has none", m.Last())
	}
}
