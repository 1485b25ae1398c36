package limits

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// world is a queue with its store, and the state of its runs.
type world struct {
	t     *testing.T
	cells map[string][]byte
	// sorted has the keys of cells; nil after a change.
	sorted []string
	marks  Marks
	rules  Rules
	now    int64
	wake   int64
	seq    store.Seq
	begun  []Grant
	live   map[string]map[string]string // keys of admitted runs that have not ended
	keys   map[string]map[string]string
	asked  map[string]int64
	given  map[string]int64
	fails  int // so many commits fail
	reads  int
}

func newWorld(t *testing.T, rules ...Rule) *world {
	return &world{t: t, cells: map[string][]byte{}, marks: Marks{}, rules: rules, now: 1000, wake: store.NoWake,
		live: map[string]map[string]string{}, keys: map[string]map[string]string{}, asked: map[string]int64{},
		given: map[string]int64{}}
}

func (w *world) read(from, to []byte, limit int) (list []store.Cell, err error) {
	w.reads++
	if next := append(bytes.Clone(from), 0); bytes.Equal(next, to) {
		if v, ok := w.cells[string(from)]; ok {
			return []store.Cell{{Key: from, Value: v}}, nil
		}
		return nil, nil
	}
	if w.sorted == nil {
		w.sorted = slices.Sorted(maps.Keys(w.cells))
	}
	i, _ := slices.BinarySearch(w.sorted, string(from))
	for ; i < len(w.sorted) && w.sorted[i] < string(to) && len(list) < limit; i++ {
		list = append(list, store.Cell{Key: []byte(w.sorted[i]), Value: w.cells[w.sorted[i]]})
	}
	return list, nil
}

func (w *world) open() *Queue {
	w.t.Helper()
	b, err := OpenQueue(w.read, w.marks, w.rules, w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// do lets f change the queue, and admits runs. A failed commit has no effect.
func (w *world) do(f func(b *Queue)) {
	w.t.Helper()
	for {
		b := w.open()
		f(b)
		grants := b.Admit(3)
		c, err := b.Close()
		if err != nil {
			w.t.Fatal(err)
		}
		if w.fails > 0 {
			w.fails--
			w.marks = Marks{}
			continue
		}
		w.apply(c)
		if c.OldWakeMs != w.wake {
			w.t.Fatalf("the former wake is %d, want %d", c.OldWakeMs, w.wake)
		}
		w.wake = c.WakeMs
		for _, g := range grants {
			w.begun = append(w.begun, g)
			w.live[g.Run] = w.keys[g.Run]
			w.given[g.Run] = w.now
		}
		w.check()
		f = func(*Queue) {}
		if !c.More {
			return
		}
	}
}

// apply makes a commit durable.
func (w *world) apply(c *QueueCommit) {
	w.sorted = nil
	for _, cell := range c.Cells {
		if cell.Value == nil {
			delete(w.cells, string(cell.Key))
		} else {
			w.cells[string(cell.Key)] = cell.Value
		}
	}
}

// check compares the cells with each other, and the runs with the rules.
func (w *world) check() {
	w.t.Helper()
	var list []store.Cell
	for _, k := range slices.Sorted(maps.Keys(w.cells)) {
		list = append(list, store.Cell{Key: []byte(k), Value: w.cells[k]})
	}
	if bad := CheckQueue(list); len(bad) > 0 {
		w.t.Fatal(bad)
	}
	for _, r := range w.rules {
		n := map[string]int{}
		if r.WindowMs == 0 {
			for _, keys := range w.live {
				n[keys[r.Per]]++
			}
		} else {
			for run, at := range w.given {
				if at > w.now-r.WindowMs {
					n[w.keys[run][r.Per]]++
				}
			}
		}
		for key, n := range n {
			if n > r.Max {
				w.t.Fatalf("%d runs of key %q, the limit is %s", n, key, r)
			}
		}
	}
}

func (w *world) ask(run string, priority int, input string) {
	w.t.Helper()
	w.do(func(b *Queue) { w.asks(b, run, priority, input) })
}

func (w *world) asks(b *Queue, run string, priority int, input string) {
	x := w.rules.Of([]byte(input), priority)
	w.keys[run], w.asked[run] = x.Keys, w.now
	w.seq++
	b.Ask(run, store.CommandID{Incarnation: incarnation(run), Seq: w.seq}, x)
}

func incarnation(run string) (i store.Incarnation) {
	copy(i[:], run)
	return i
}

// end ends a run.
func (w *world) end(run string) {
	w.t.Helper()
	delete(w.live, run)
	w.do(func(b *Queue) { b.Return(run, incarnation(run), false) })
}

// runs returns the admitted runs in order, and forgets them.
func (w *world) runs() (list []string) {
	for _, g := range w.begun {
		list = append(list, g.Run)
	}
	w.begun = nil
	return list
}

func (w *world) is(want ...string) {
	w.t.Helper()
	if got := w.runs(); !slices.Equal(got, want) {
		w.t.Fatalf("admitted %v, want %v", got, want)
	}
}

func rule(t *testing.T, text string) Rule {
	t.Helper()
	r, err := ParseConcurrency(text)
	if err != nil {
		r, err = ParseRate(text)
		if err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func customer(n int) string { return fmt.Sprintf(`{"customer":"c%d","tenant":%d}`, n, n%3) }
