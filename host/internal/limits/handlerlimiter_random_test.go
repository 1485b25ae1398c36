package limits

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// TestTurnstileRandom has two hosts with a shared store perform their operations in random order. No attempt waits
// while it may begin, no limit is exceeded, and in the end every attempt has begun once or was withdrawn.
func TestTurnstileRandom(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			w := newHandlerWorld(t, seed)
			for range 120 {
				w.step()
				if w.check(); t.Failed() {
					t.Fatalf("seed %d: %v", seed, w.did)
				}
			}
			if w.end(); t.Failed() {
				t.Fatalf("seed %d: %v", seed, w.did)
			}
		})
	}
}

// tick is the step of the clock.
const tick = 20 * time.Millisecond

// handlerWorld is two hosts that share a store and a clock.
type handlerWorld struct {
	*rand.Rand
	t       *testing.T
	clock   *clock.Fake
	houses  []*house
	entered int
	limits  []string
	going   [2]map[string]bool
	times   map[string][]time.Time // start times of attempts since the limits were set, by key
	keys    map[string]string
	cancels map[string]func()
	begun   map[string]int
	holds   bool      // commits are held up
	since   time.Time // when limits were set
	did     []string
}

func newHandlerWorld(t *testing.T, seed uint64) *handlerWorld {
	w := &handlerWorld{Rand: rand.New(rand.NewPCG(seed, 1)), t: t, clock: startClock(), times: map[string][]time.Time{},
		keys:    map[string]string{},
		cancels: map[string]func(){}, begun: map[string]int{}, holds: seed%2 == 1}
	shared := memstore.New()
	for i := range w.going {
		w.going[i] = map[string]bool{}
		w.houses = append(w.houses, newHouse(t, shared.Open(), w.clock))
	}
	w.set()
	return w
}

// set sets other limits on both hosts.
func (w *handlerWorld) set() {
	choices := [][]string{{"2"}, {"1 per input.k"}, {"3/1s"}, {"2/1s per input.k"}, {"3", "1 per input.k"},
		{"2", "2/1s per input.k"},
		{"5/1s", "2/1s per input.k"}, {"300"}}
	w.limits = choices[w.IntN(len(choices))]
	for _, x := range w.houses {
		x.refuse = nil
		x.set(w.limits...)
	}
	clear(w.times)
	w.since = w.clock.Now()
}

// one returns one of some names, empty if there is none.
func (w *handlerWorld) one(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[w.IntN(len(names))]
}

func (w *handlerWorld) step() {
	i := w.IntN(2)
	x := w.houses[i]
	what := ""
	switch n := w.IntN(20); {
	case n < 9:
		name := fmt.Sprint("a", w.entered)
		w.entered++
		w.keys[name] = fmt.Sprint("k", w.IntN(3))
		w.cancels[name] = func() { w.withdraw(x, name) }
		what = fmt.Sprint("enter ", i, name, w.keys[name])
		x.enter(fmt.Sprint("run", w.IntN(4)), name, w.keys[name])
	case n < 13:
		if name := w.one(slices.Sorted(maps.Keys(w.going[i]))); name != "" {
			what = fmt.Sprint("leave ", i, name)
			delete(w.going[i], name)
			x.leave(name)
		}
	case n < 16:
		n := w.IntN(35)
		what = fmt.Sprint("advance ", n)
		w.advance(n)
	case n < 17:
		what = "set"
		w.set()
		what += fmt.Sprint(w.limits)
	case n < 18 && w.holds:
		x.mu.Lock()
		what = fmt.Sprint("hold ", i, x.hold == nil)
		if x.hold == nil {
			x.hold = make(chan struct{})
		} else {
			close(x.hold)
			x.hold = nil
		}
		x.mu.Unlock()
	case n < 19:
		if name := w.one(slices.Sorted(maps.Keys(w.cancels))); name != "" {
			what = "cancel " + name
			w.cancels[name]()
			delete(w.cancels, name)
		}
	default:
		what = fmt.Sprint("refuse ", i)
		x.mu.Lock()
		x.refuse = errors.New("no room")
		x.mu.Unlock()
	}
	w.did = append(w.did, what)
	synctest.Wait()
}

// withdraw withdraws an attempt, unless it has begun.
func (w *handlerWorld) withdraw(x *house, name string) {
	x.mu.Lock()
	began := slices.Contains(x.begun, name)
	x.mu.Unlock()
	if w.begun[name] == 0 && !began {
		x.withdraw(name)
	}
}

func (w *handlerWorld) advance(ticks int) {
	for range ticks {
		w.clock.Advance(tick)
		w.check()
	}
}

// check records what has begun, and searches for attempts that wait although they may begin.
func (w *handlerWorld) check() {
	synctest.Wait()
	now := w.clock.Now()
	for i, x := range w.houses {
		x.mu.Lock()
		for _, name := range x.begun {
			w.begun[name]++
			w.did = append(w.did, fmt.Sprintf("[%d%s%s at %d]", i, name, w.keys[name], now.UnixMilli()-1e9))
			w.going[i][name] = true
			w.times[w.keys[name]] = append(w.times[w.keys[name]], now)
			w.times[""] = append(w.times[""], now)
		}
		x.begun = nil
		again := x.again
		x.again = nil
		x.mu.Unlock()
		for _, name := range again {
			x.enter("again", name, w.keys[name])
		}
		w.stuck(i)
	}
	for name, n := range w.begun {
		if n != 1 {
			w.t.Errorf("%s has begun %d times", name, n)
		}
	}
	for _, r := range rules(w.t, w.limits...) {
		for key, times := range w.times {
			if w.holds || r.WindowMs == 0 || (r.Per == "") != (key == "") {
				continue // delayed attempts begin later than they are counted
			}
			n := 0
			for _, at := range times {
				if now.Sub(at) < time.Duration(r.WindowMs)*time.Millisecond-tick { // it may have begun since the last check
					n++
				}
			}
			if n > r.Max {
				w.t.Errorf("%d have begun under %s of %q", n, r, key)
			}
		}
	}
	w.durable(now)
}

// durable compares the stored counts with the limits.
func (w *handlerWorld) durable(now time.Time) {
	for _, r := range rules(w.t, w.limits...) {
		window := time.Duration(r.WindowMs) * time.Millisecond
		if window == 0 || now.Sub(w.since) < window { // those of before had other limits
			continue
		}
		for _, key := range []string{"", `"k0"`, `"k1"`, `"k2"`} {
			c := newAttemptWindow(r, key, Share{})
			queue := store.RunKey{ID: QueuePrefix + charge.Name}
			q := store.CellQuery{Queue: queue, From: []byte(c.name), To: []byte(c.name + "\x00"), Limit: 1}
			list, err := w.houses[0].Cells(handlerCtx, q)
			if err != nil {
				w.t.Fatal(err)
			}
			if len(list) == 1 {
				_, c.grains, err = parseAttemptCell(list[0].Value)
				if err != nil {
					w.t.Fatal(err)
				}
			}
			if c.trim(now.UnixMilli()); c.begun() > r.Max {
				w.t.Errorf("%d are stored under %s of %q", c.begun(), r, key)
			}
		}
	}
}

// stuck searches for attempts of a host that wait although nothing blocks them.
func (w *handlerWorld) stuck(i int) {
	x := w.houses[i]
	x.HandlerLimiter.mu.Lock()
	defer x.HandlerLimiter.mu.Unlock()
	g := x.queues[charge]
	if g == nil || g.retryAt > 0 || g.committing {
		return
	}
	now := x.now()
	waiting := 0
	for _, l := range g.lanes {
		waiting += l.waiting
		free := l.full(now) == nil && !g.unread(l) // an unread counter may be full; it is read when it was expected to be free
		if c := l.blocked; c != nil && c.rule.WindowMs > 0 {
			_, armed := g.due.Due(c)
			free = free || !armed
		}
		for _, c := range g.totals {
			free = free && !c.full(now)
		}
		if l.waiting > 0 && free {
			w.t.Errorf("host %d: %d attempts of lane %q wait for nothing: %+v", i, l.waiting, l.name, *l)
		}
	}
	if waiting != g.waiting {
		w.t.Errorf("host %d counts %d that wait, there are %d", i, g.waiting, waiting)
	}
	for _, c := range g.totals {
		if c.rule.WindowMs == 0 && c.held != len(g.held) {
			w.t.Errorf("host %d: %d are counted, %d hold a slot", i, c.held, len(g.held))
		}
	}
}

// end ends all attempts, and checks the outcome of each.
func (w *handlerWorld) end() {
	for _, x := range w.houses {
		x.mu.Lock()
		if x.hold != nil {
			close(x.hold)
		}
		x.hold = nil
		x.mu.Unlock()
	}
	for range w.entered {
		w.advance(int(time.Second / tick))
		for i, x := range w.houses {
			for name := range w.going[i] {
				delete(w.going[i], name)
				x.leave(name)
			}
		}
	}
	for n := range w.entered {
		name := fmt.Sprint("a", n)
		gone := 0
		for _, x := range w.houses {
			if x.gone[name] {
				gone++
			}
		}
		if w.begun[name]+gone != 1 {
			w.t.Errorf("%s has begun %d times, and was withdrawn %d times", name, w.begun[name], gone)
		}
	}
	for i, x := range w.houses {
		g := x.queues[charge]
		if len(g.lanes)+len(g.held)+g.waiting+len(g.keyed)+g.ring.Len() > 0 {
			w.t.Errorf("host %d keeps %d lanes, %d slots, %d waiting, %d counters, %d in the ring", i, len(g.lanes), len(g.held),
				g.waiting, len(g.keyed), g.ring.Len())
		}
	}
}
