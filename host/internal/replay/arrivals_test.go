package replay

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/cost"
	"github.com/wfhost/wfhost/store"
)

// TestArrivals ends the steps of a guest in any order, while the guest waits for some of them at a time and leaves
// many. It gets the step that ended first, and a cancel before later deliveries. A replay gets the same.
func TestArrivals(t *testing.T) {
	all := t
	rapid.Check(t, func(t *rapid.T) {
		const steps = 3 * fewLeft
		x := newTail(all)
		var ids []int64
		for id := range int64(steps) {
			ids = append(ids, id+1)
		}
		ends := rapid.Permutation(ids).Draw(t, "ends")
		cancelAt := rapid.IntRange(0, steps-1).Draw(t, "cancel")
		m := asks(all, x, steps)
		place, cancelPlace := map[int64]int{}, 0
		for i, id := range ends {
			if i == cancelAt {
				cancelPlace = x.j.Len()
				x.add(all, store.Entry{Kind: store.KindCancel})
			}
			place[id] = x.j.Len()
			x.add(all, store.Entry{Kind: store.KindStepResult, Handle: id})
		}
		var waits [][]int64
		var told []int64
		seen, cancelled := map[int64]bool{}, false
		for range rapid.IntRange(1, 40).Draw(t, "waits") {
			ids := rapid.SliceOfN(rapid.Int64Range(1, steps), 1, 4).Draw(t, "ids")
			first := int64(0)
			for _, id := range ids {
				if seen[id] && (first == 0 || !seen[first] || place[id] < place[first]) || !seen[first] && (first == 0 || place[id] < place[first]) {
					first = id
				}
			}
			want := first
			if !seen[first] && !cancelled && cancelPlace < place[first] {
				want, cancelled = abi.Cancelled.Neg(), true
			} else {
				seen[first] = true
			}
			got, err := m.Await(ids)
			if got != want || err != nil {
				t.Fatalf("a wait for %v: %d, %v; want %d", ids, got, err, want)
			}
			waits, told = append(waits, ids), append(told, got)
		}
		again := asks(all, x, steps)
		for i, ids := range waits {
			if got, err := again.Await(ids); got != told[i] || err != nil {
				t.Fatalf("replayed, a wait for %v: %d, %v; want %d", ids, got, err, told[i])
			}
		}
	})
}

// asks returns a machine whose guest has the cooperative cancel policy and has started steps.
func asks(t testing.TB, x *tail, steps int) *Machine {
	m := x.machine()
	must(t, 0)(m.CancelPolicy(abi.CancelCooperative))
	for i := range steps {
		must(t, int64(i+1))(m.Step(fmt.Sprint(i), "host/x", nil, nil))
	}
	return m
}

// TestCosts measures the cost of calls for a guest that has done much, has much open, or leaves much untaken.
func TestCosts(t *testing.T) {
	open := func(of func(*Machine, int) (int64, error)) func(t testing.TB, n int) (*tail, *Machine) {
		return func(t testing.TB, n int) (*tail, *Machine) {
			x := newTail(t)
			m := x.machine(func(c *Config) { c.MaxChildren = abi.MaxLiveChildren })
			for i := range n {
				if _, err := of(m, i); err != nil {
					t.Fatal(err)
				}
			}
			return x, m
		}
	}
	next := func(m *Machine) int { return len(m.handles) }
	step := func(m *Machine, i int) (int64, error) { return m.Step(fmt.Sprint("s", i), "host/x", nil, nil) }
	emit := func(m *Machine, _ int) (int64, error) { return m.Emit("t", nil) }
	const handles, entries = abi.MaxUnresolvedHandles - 400, 40_000
	grows := func(call, of string, limit int, setup func(testing.TB, int) (*tail, *Machine), f func(x *tail, m *Machine) error) cost.Case {
		return cost.Case{Call: call, Of: of, Sizes: []int{10, min(1000, limit), limit}, Setup: func(t testing.TB, n int) func() {
			x, m := setup(t, n)
			return func() {
				if err := f(x, m); err != nil {
					t.Fatal(err)
				}
			}
		}}
	}
	then := func(f func(m *Machine) (int64, error)) func(*tail, *Machine) error {
		return func(_ *tail, m *Machine) error {
			n, err := f(m)
			if err == nil && n < 0 {
				err = fmt.Errorf("refused: %s", m.Last())
			}
			return err
		}
	}
	cost.Table(t, []cost.Case{
		grows("step", "open steps", handles, open(step), then(func(m *Machine) (int64, error) { return step(m, next(m)) })),
		grows("step", "entries", entries, open(emit), then(func(m *Machine) (int64, error) { return step(m, next(m)) })),
		grows("sleep", "entries", entries, open(emit), then(func(m *Machine) (int64, error) { return m.Sleep(fmt.Sprint(next(m)), 5) })),
		grows("signal", "entries", entries, open(emit), then(func(m *Machine) (int64, error) { return m.Signal("s", 5) })),
		grows("hook", "open steps", handles, open(step), then(func(m *Machine) (int64, error) {
			return m.Hook("h", fmt.Sprint("token-", next(m)), nil)
		})),
		grows("emit", "entries", entries, open(emit), then(func(m *Machine) (int64, error) { return m.Emit("t", nil) })),
		grows("set_attribute", "entries", entries, open(emit), then(func(m *Machine) (int64, error) { return m.SetAttribute("a", nil) })),
		grows("version", "entries", entries, open(emit), then(func(m *Machine) (int64, error) {
			return m.Version(fmt.Sprint(len(m.entries)), 1)
		})),
		grows("child", "children", abi.MaxLiveChildren-200, open(func(m *Machine, i int) (int64, error) {
			return m.Child(fmt.Sprint(i), "w", nil, nil)
		}), then(func(m *Machine) (int64, error) { return m.Child(fmt.Sprint(next(m)), "w", nil, nil) })),
		grows("signal_send", "entries", entries, open(emit), then(func(m *Machine) (int64, error) { return m.SignalSend("s", "r", "s", nil) })),
		grows("now", "entries", entries, open(emit), then(func(m *Machine) (int64, error) { return m.Now(), nil })),
		grows("random", "entries", entries, open(emit), then(func(m *Machine) (int64, error) { m.Random(make([]byte, 8)); return 0, nil })),
		grows("info", "entries", entries, open(emit), then(func(m *Machine) (int64, error) { return int64(len(m.Info())), nil })),
		grows("a body and its info", "entries", entries, open(emit), then(func(m *Machine) (int64, error) {
			return int64(len(m.Fork(Config{Mode: Body, Started: m.cfg.Started, Until: m.suspension.Seq}).Info())), nil
		})),
		grows("cancel", "open steps", handles, open(step), func(_ *tail, m *Machine) error {
			_, err := m.Cancel(int64(len(m.handles) - (m.callPos-2-len(m.handles))%len(m.handles)))
			return err
		}),
		grows("await of one, the newest first", "resolved handles", handles, func(t testing.TB, n int) (*tail, *Machine) {
			x, m := open(step)(t, n+200)
			for id := range int64(n + 200) {
				x.add(t, store.Entry{Kind: store.KindStepResult, Handle: id + 1})
			}
			return x, m
		}, then(func(m *Machine) (int64, error) { return m.Await([]int64{int64(len(m.handles)) - int64(m.consumed)}) })),
		grows("await of any", "resolved handles", handles, func(t testing.TB, n int) (*tail, *Machine) {
			x, m := open(step)(t, n+200)
			for id := range int64(n + 200) {
				x.add(t, store.Entry{Kind: store.KindStepResult, Handle: id + 1})
			}
			return x, m
		}, then(func(m *Machine) (int64, error) { return m.Await(nil) })),
	})
}
