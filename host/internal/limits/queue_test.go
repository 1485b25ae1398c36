package limits

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/store"
)

func TestConcurrency(t *testing.T) {
	w := newWorld(t, rule(t, "2"))
	for i := range 4 {
		w.ask(fmt.Sprint(i), 0, `{}`)
	}
	w.is("0", "1")
	w.ask("1", 0, `{}`) // it has a slot
	w.ask("3", 0, `{}`) // it waits
	w.is()
	w.end("2") // it was cancelled while it waited
	w.end("2")
	w.is()
	w.end("0")
	w.is("3")
	w.end("1")
	w.end("3")
	w.is()
	if n := len(w.cells); n != 1 {
		t.Errorf("%d cells are left, want that of the counts", n)
	}
}

func TestKeys(t *testing.T) {
	w := newWorld(t, rule(t, "1 per input.customer"), rule(t, "3"))
	for i, c := range []int{0, 0, 0, 1, 2, 3} {
		w.ask(fmt.Sprint(i), 0, customer(c))
	}
	w.is("0", "3", "4")
	w.end("3") // there is room, but not for customer 0
	w.is("5")
	w.end("0")
	w.is("1")
	w.end("1")
	w.is("2")
}

// A rate admits no more than its maximum in any window of its length, and the rest as soon as possible.
func TestRate(t *testing.T) {
	w := newWorld(t, rule(t, "2/10s per input.customer"))
	for i := range 5 {
		w.ask(fmt.Sprint(i), 0, customer(0))
		w.now += 1000
	}
	w.is("0", "1") // at 1 s and 2 s
	for _, want := range []struct {
		at  int64
		run string
	}{{11000, "2"}, {12000, "3"}, {21000, "4"}} {
		if w.wake != want.at {
			t.Fatalf("it wakes at %d, want %d", w.wake, want.at)
		}
		w.now = w.wake
		w.do(func(*Queue) {})
		w.is(want.run)
	}
	for w.wake != store.NoWake {
		w.now = w.wake
		w.do(func(*Queue) {})
	}
	for i := range 5 {
		w.end(fmt.Sprint(i))
	}
	if n := len(w.cells); n != 1 {
		t.Errorf("%d cells are left, want that of the counts", n)
	}
}

func TestRateOfAll(t *testing.T) {
	w := newWorld(t, rule(t, "1/10s"))
	w.ask("a", 0, `{}`)
	w.ask("b", 0, `{}`)
	w.is("a")
	w.now -= 500 // the clock is set back: what was admitted counts as admitted now
	w.given["a"] = w.now
	w.do(func(*Queue) {})
	w.is()
	w.now = w.wake
	w.do(func(*Queue) {})
	w.is("b")
}

// The priority decides within a key, and also between keys, except for each eighth run.
func TestPriority(t *testing.T) {
	w := newWorld(t, rule(t, "1"))
	w.ask("first", 0, `{}`)
	w.ask("low", -5, `{}`)
	w.ask("normal", 0, `{}`)
	w.ask("high", 7, `{}`)
	w.ask("normal2", 0, `{}`)
	w.is("first")
	for _, run := range []string{"first", "high", "normal", "normal2"} {
		w.end(run)
	}
	w.is("high", "normal", "normal2", "low")

	w = newWorld(t, rule(t, "1"), rule(t, "100 per input.customer"))
	w.ask("first", 0, customer(9))
	w.ask("low", -5, customer(1))
	for i := range 20 {
		w.ask(fmt.Sprint("high", i), 5, customer(2))
	}
	order := w.runs()
	for len(w.live) > 0 {
		for run := range w.live {
			w.end(run)
		}
		order = append(order, w.runs()...)
	}
	if at := slices.Index(order, "low"); at < 1 || at > fairTurn {
		t.Errorf("the run of low priority was number %d", at)
	}
}

// Keys take turns, however many runs each has, and whenever they come.
func TestFairness(t *testing.T) {
	w := newWorld(t, rule(t, "1"), rule(t, "5 per input.customer"))
	w.do(func(b *Queue) {
		for i := range 50 {
			w.asks(b, fmt.Sprint("many", i), 0, customer(0))
		}
		for c := 1; c <= 5; c++ {
			for i := range 3 {
				w.asks(b, fmt.Sprint("few", c, "-", i), 0, customer(c))
			}
		}
	})
	var order []string
	for len(w.live) > 0 {
		for run := range w.live {
			w.end(run)
		}
		order = append(order, w.runs()...)
	}
	last := slices.IndexFunc(order, func(run string) bool { return run == "few5-2" })
	if last < 0 || last > 6*3 {
		t.Errorf("the last run of a key with three runs was number %d", last)
	}
}

// Changed rules apply to waiting runs.
func TestChange(t *testing.T) {
	w := newWorld(t, rule(t, "1 per input.customer"))
	for i := range 6 {
		w.ask(fmt.Sprint(i), 0, customer(i%2))
	}
	w.is("0", "1")
	w.rules = Rules{rule(t, "2 per input.customer")}
	w.do(func(*Queue) {})
	w.is("2", "3")
	lower := Rules{rule(t, "1 per input.customer")}
	for _, run := range []string{"0", "1"} { // those that were admitted go on
		w.rules = Rules{rule(t, "2 per input.customer")}
		delete(w.live, run)
		w.do(func(b *Queue) { b.rules = lower; b.Return(run, incarnation(run), false) })
	}
	w.rules = lower
	w.is()
	w.end("2")
	w.is("4")
	w.rules = nil
	w.do(func(*Queue) {})
	w.is("5")
}

// A run is about to be admitted, and is cancelled while other runs take the last room. Its turn goes to another run
// with its key.
func TestPassOfCancelled(t *testing.T) {
	w := newWorld(t, rule(t, "1 per input.tenant"), rule(t, "9 per input.customer"), rule(t, "3"))
	ask := func(run string, priority, customer, tenant int) {
		w.ask(run, priority, fmt.Sprintf(`{"customer":%d,"tenant":%d}`, customer, tenant))
	}
	ask("a", 0, 1, 1)
	ask("z", 0, 2, 2)
	ask("c", 0, 3, 1) // wait for the tenant
	ask("d", 0, 4, 1)
	ask("y", 0, 5, 3)
	w.is("a", "z", "y")
	ask("urgent", 5, 6, 5) // waits for the room of all
	w.end("a")
	w.is("urgent") // one of c and d would be next
	first, second := "c", "d"
	if w.cells[partPosition+"d"] != nil && w.lane("d").Blocked == nil {
		first, second = "d", "c"
	}
	w.end(first)
	w.end("z")
	w.is(second)
}

// lane returns the lane of a waiting run.
func (w *world) lane(run string) *lane {
	return w.open().lane(string(w.cells[partPosition+run][:nameBytes]))
}

// Runs that are checked when a key has room, but still wait for another key, leave the room to others.
func TestPassOfBlocked(t *testing.T) {
	w := newWorld(t, rule(t, "1 per input.tenant"), rule(t, "1 per input.customer"))
	ask := func(run string, customer, tenant int) {
		w.ask(run, 0, fmt.Sprintf(`{"customer":%d,"tenant":%d}`, customer, tenant))
	}
	ask("holder", 100, 1)
	for i := range 8 {
		ask(fmt.Sprint("blocked", i), i, 1)
	}
	ask("free", 50, 1)
	w.is("holder")
	for i := range 8 {
		ask(fmt.Sprint("other", i), i, 10+i)
	}
	w.runs()
	w.end("holder")
	w.is("free")
}

// TestRandom has runs come, leave and be cancelled, rules change, time pass and commits fail: no rule is ever broken,
// and all runs are admitted in the end.
func TestRandom(t *testing.T) {
	sets := []string{"3|2 per input.customer", "2 per input.customer|4/10s per input.tenant", "5/7s|3 per input.tenant",
		"1 per input.customer|2 per input.tenant|4", "2/3s per input.customer|9/20s per input.tenant|3"}
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t)
		choose := func() {
			w.rules = nil
			for text := range strings.SplitSeq(sets[rnd.IntN(len(sets))], "|") {
				w.rules = append(w.rules, rule(t, text))
			}
		}
		choose()
		n, waits := 0, map[string]bool{}
		step := func() {
			for _, run := range w.runs() {
				delete(waits, run)
			}
			w.fails = rnd.IntN(8) / 7
		}
		for range 150 {
			switch k := rnd.IntN(10); {
			case k < 5:
				from, count, of := n, 1+rnd.IntN(3), rnd.IntN(5)
				n += count
				w.do(func(b *Queue) { // again, if its commit fails
					for i := range count {
						waits[fmt.Sprint(from+i)] = true
						w.asks(b, fmt.Sprint(from+i), i-1, customer(of+i))
					}
				})
			case k < 7:
				for run := range w.live {
					w.end(run)
					break
				}
			case k < 8:
				for run := range waits {
					delete(waits, run)
					w.end(run)
					break
				}
			default:
				w.now += int64(rnd.IntN(3000))
				w.do(func(*Queue) {})
			}
			step()
		}
		for len(waits) > 0 {
			switch {
			case len(w.live) > 0:
				for run := range w.live {
					w.end(run)
					break
				}
			case w.wake != store.NoWake:
				w.now = max(w.now, w.wake)
				w.do(func(*Queue) {})
			default:
				t.Fatalf("seed %d: %d runs wait for ever", seed, len(waits))
			}
			step()
		}
	}
}

// Rules may change at any time: no run is left behind.
func TestRandomChanges(t *testing.T) {
	sets := [][]Rule{{rule(t, "3"), rule(t, "2 per input.customer")}, {rule(t, "1 per input.customer")}, nil,
		{rule(t, "4/5s per input.customer"), rule(t, "2")}, {rule(t, "1/1s")}}
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		w := newWorld(t, sets[0]...)
		all := w.rules
		left := 120
		for n := 0; left > 0 || len(w.live) > 0; n++ {
			if n > 5000 {
				t.Fatalf("seed %d: %d runs live, none begins", seed, len(w.live))
			}
			if n < 120 {
				w.rules = nil // a rule does not count earlier runs
				w.do(func(b *Queue) {
					x := all.Of([]byte(customer(rnd.IntN(4))), 0)
					w.seq++
					b.rules = sets[(n/10)%len(sets)]
					run := fmt.Sprint(n)
					w.keys[run] = x.Keys
					b.Ask(run, store.CommandID{Incarnation: incarnation(run), Seq: w.seq}, x)
				})
			}
			left -= len(w.runs())
			rules := sets[rnd.IntN(len(sets))]
			for run := range w.live {
				delete(w.live, run)
				w.do(func(b *Queue) { b.rules = rules; b.Return(run, incarnation(run), false) })
				break
			}
			w.now += 500
			w.do(func(b *Queue) { b.rules = sets[(n/10)%len(sets)] })
			left -= len(w.runs())
		}
	}
}

func TestPlace(t *testing.T) {
	w := newWorld(t, rule(t, "1 per input.customer"), rule(t, "10/1h"))
	for i := range 3 {
		w.ask(fmt.Sprint(i), 0, customer(0))
	}
	w.ask("urgent", 3, customer(0))
	w.ask("other", 0, customer(1))
	for run, want := range map[string]QueuePosition{"urgent": {1, 3, 3, "1 per input.customer"}, "2": {3, 3, 3, "1 per input.customer"}} {
		got, ok, err := FindPosition(w.read, w.rules, w.now, run, incarnation(run))
		if err != nil || !ok || got != want {
			t.Errorf("run %s: %+v %v %v, want %+v", run, got, ok, err, want)
		}
	}
	for _, run := range []string{"0", "other", "none"} {
		if got, ok, err := FindPosition(w.read, w.rules, w.now, run, incarnation(run)); ok || err != nil {
			t.Errorf("run %s waits: %+v %v", run, got, err)
		}
	}
	if s, err := CountQueue(w.read); err != nil || s != (QueueStats{3, 2}) {
		t.Errorf("%+v, %v", s, err)
	}
}

// Damage is an error, and nothing is committed.
func TestDamage(t *testing.T) {
	errDisk := errors.New("a sector cannot be read")
	for _, part := range []string{partQueue, partLane, partCounter, partWaiter, partPosition, partHolder} {
		for _, how := range []string{"gone", "text"} {
			w := newWorld(t, rule(t, "1 per input.customer"))
			for i := range 3 {
				w.ask(fmt.Sprint(i), 0, customer(0))
			}
			for k := range w.cells {
				if k[:1] == part {
					if delete(w.cells, k); how == "text" {
						w.cells[k] = []byte("x")
					}
				}
			}
			var list []store.Cell
			for k, v := range w.cells {
				list = append(list, store.Cell{Key: []byte(k), Value: v})
			}
			if bad := CheckQueue(list); len(bad) == 0 {
				t.Errorf("part %s is %s: nothing is wrong", part, how)
			}
			b, err := OpenQueue(w.read, w.marks, w.rules, w.now)
			if err != nil {
				continue
			}
			b.Return("0", incarnation("0"), false)
			b.Return("1", incarnation("1"), false)
			b.Admit(10)
			if _, err := b.Close(); err != nil && !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("part %s is %s: %v", part, how, err)
			}
		}
	}
	w := newWorld(t, rule(t, "1 per input.customer"))
	w.ask("0", 0, customer(0))
	n := 0
	for after := range 12 {
		n = 0
		b, err := OpenQueue(func(from, to []byte, limit int) ([]store.Cell, error) {
			n++
			if n > after {
				return nil, errDisk
			}
			return w.read(from, to, limit)
		}, nil, w.rules, w.now)
		if err == nil {
			b.Ask("1", store.CommandID{}, w.rules.Of([]byte(customer(1)), 0))
			b.Admit(1)
			_, err = b.Close()
		}
		if n > after && !errors.Is(err, errDisk) {
			t.Errorf("after %d reads: %v", after, err)
		}
	}
}
