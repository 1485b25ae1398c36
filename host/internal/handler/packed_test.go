package handler_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// packedPair is two registries with the same operations: only one packs waiting attempts.
type packedPair struct {
	t          *testing.T
	rnd        *rand.Rand
	packs, not *packedRuns
	most       int // attempts that were packed at a time
	rare       int // one in so many operations affects many attempts
}

// packedRuns is a registry with the events that it sent to runs.
type packedRuns struct {
	*handler.Registry
	told   []string
	places map[string]*handler.Place
}

func (r *packedRuns) Queued(store.RunKey, int64) {}

func (r *packedRuns) Admitted(key store.RunKey, ev run.Admitted) {
	r.admit(key, ev.Handle, ev.Place)
}

func (r *packedRuns) admit(key store.RunKey, handle int64, place any) {
	name := fmt.Sprint(key.Namespace, key.ID, handle)
	r.told = append(r.told, name)
	r.places[name] = place.(*handler.Place) //nolint:forcetypeassert // see Ask
}

func newPackedRuns(maxCalls, lingering int) *packedRuns {
	r := &packedRuns{places: map[string]*handler.Place{}}
	r.Registry = handler.NewRegistry(handler.Config{Runs: r, MaxCallsPerHandler: 3, MaxCalls: maxCalls, Offered: 2, Lingering: lingering})
	return r
}

// TestPackedAttempts performs random operations on thousands of waiting attempts: packed or not, they get their
// places in the same order, and have the same descriptions.
func TestPackedAttempts(t *testing.T) {
	for seed := range uint64(24) {
		x := &packedPair{t: t, rnd: rand.New(rand.NewPCG(seed, 3))}
		maxCalls, lingering := []int{5, 100}[seed%2], []int{-1, 5}[seed/2%2]
		x.packs, x.not = newPackedRuns(maxCalls, lingering), newPackedRuns(maxCalls, lingering)
		x.not.PackFrom(1<<30, 0)
		from := 2 + x.rnd.IntN(60)
		x.packs.PackFrom(from, x.rnd.IntN(from))
		x.rare = 20 + x.rnd.IntN(200)
		asks := 3 + x.rnd.IntN(8) // of 12 operations: from few attempts to thousands
		for n := range 2000 {
			x.move(asks)
			if x.compare(); n%16 == 0 {
				x.sound()
			}
		}
		if asks > 6 && x.most < 50 {
			t.Errorf("seed %d: at most %d attempts were packed", seed, x.most)
		}
		x.end()
	}
}

func (x *packedPair) both(do func(r *packedRuns)) {
	do(x.packs)
	do(x.not)
}

func (x *packedPair) key() store.RunKey {
	n := x.rnd.IntN(2000)
	id := fmt.Sprint("r", n)
	switch {
	case n == 0:
		id = ""
	case n%7 == 0:
		id = strings.Repeat("x", 250+n%20) + id
	}
	return store.RunKey{Namespace: store.NamespaceID(x.rnd.IntN(3)), ID: id}
}

func (x *packedPair) move(asks int) {
	key, handle, name := x.key(), int64(1), []string{"a", "b"}[x.rnd.IntN(2)]
	if x.rnd.IntN(8) == 0 {
		handle = int64(x.rnd.IntN(3)) - 1
	}
	switch n := x.rnd.IntN(12); {
	case n < asks:
		a := run.Ask{Run: key, Workflow: fmt.Sprint("w", len(key.ID)%3), Handle: handle, Handler: name,
			SinceMs: int64(x.rnd.IntN(300)) - 100, Anew: x.rnd.IntN(20) == 0}
		if _, has := x.packs.places[fmt.Sprint(key.Namespace, key.ID, handle)]; has {
			return
		}
		x.both(func(r *packedRuns) {
			p, v := r.Ask(a)
			if v == run.Begins {
				r.admit(key, handle, p)
			}
			r.told = append(r.told, fmt.Sprint(v))
		})
	case n < asks+1:
		if x.rnd.IntN(2) == 0 {
			x.both(func(r *packedRuns) { r.Withdraw(key, handle) })
		} else {
			x.both(func(r *packedRuns) { r.WithdrawRun(key) })
		}
	case x.rnd.IntN(x.rare) == 0:
		x.many(name)
	default:
		x.returnOne()
	}
}

// many does what concerns many attempts.
func (x *packedPair) many(name string) {
	switch p := store.PartitionID(x.rnd.IntN(store.Partitions)); x.rnd.IntN(5) {
	case 0:
		x.both(func(r *packedRuns) { r.Handle(name, nothing) })
	case 1:
		x.both(func(r *packedRuns) { r.HandleRemote(name, remote{}) })
	case 2:
		draining := x.rnd.IntN(2) == 0
		x.both(func(r *packedRuns) { r.SetDraining(draining) })
	default:
		x.both(func(r *packedRuns) { r.WithdrawPartition(p) })
	}
}

func (x *packedPair) returnOne() {
	names := make([]string, 0, len(x.not.places))
	for name := range x.not.places {
		names = append(names, name)
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	name := names[x.rnd.IntN(len(names))]
	x.both(func(r *packedRuns) {
		p := r.places[name]
		delete(r.places, name)
		p.Return()
	})
}

func (x *packedPair) compare() {
	x.t.Helper()
	x.most = max(x.most, x.packs.Packed())
	if !slices.Equal(x.packs.told, x.not.told) {
		x.t.Fatalf("packed: %v\nnot:    %v", x.packs.told, x.not.told)
	}
	x.both(func(r *packedRuns) { r.told = nil })
	key := x.key()
	p, ok := x.packs.Waits(key)
	n, ok2 := x.not.Waits(key)
	if ok != ok2 || !reflect.DeepEqual(p, n) || x.packs.Asks(key) != ok || x.packs.Len() != x.not.Len() {
		x.t.Fatalf("%v: packed %+v %v of %d, not %+v %v of %d", key, p, ok, x.packs.Len(), n, ok2, x.not.Len())
	}
	if x.packs.WaitingOf("a", 1) != x.not.WaitingOf("a", 1) {
		x.t.Fatalf("%d wait for a, and %d", x.packs.WaitingOf("a", 1), x.not.WaitingOf("a", 1))
	}
}

func (x *packedPair) sound() {
	x.t.Helper()
	if err := x.packs.CheckQueues(); err != nil {
		x.t.Fatal(err)
	}
}

// end lets all attempts begin and end, and checks that nothing is left.
func (x *packedPair) end() {
	x.t.Helper()
	x.both(func(r *packedRuns) {
		r.SetDraining(false)
		r.Handle("a", nothing)
		r.Handle("b", nothing)
	})
	for len(x.not.places) > 0 {
		x.returnOne()
		x.compare()
	}
	if n := x.packs.Remembered(); n != 0 || x.packs.Packed() != 0 || x.packs.Len() != 0 {
		x.t.Errorf("%d are remembered, %d packed, %d wait", n, x.packs.Packed(), x.packs.Len())
	}
}

// TestAttemptsStayPacked adds attempts in several orders while others begin and ask again: most of them stay packed,
// and take less than 48 bytes each, 16 of them for the id of the run. When all have gone, nothing is left of them.
func TestAttemptsStayPacked(t *testing.T) {
	const n = 20_000
	rnd := rand.New(rand.NewPCG(1, 2))
	for name, since := range map[string]func(i int) int{
		"first come":           func(i int) int { return i },
		"last come":            func(i int) int { return n - i },
		"any":                  func(int) int { return rnd.IntN(n) },
		"partition by portion": func(i int) int { return i/64/1024*1024 + i%1024 },
	} {
		r := newPackedRuns(100, -1)
		r.Handle("a", nothing)
		before := heapBytes()
		ask := func(i int) {
			key := store.RunKey{ID: fmt.Sprintf("order-%010d", i)}
			if p, v := r.Ask(run.Ask{Run: key, Workflow: "w", Handle: 7, Handler: "a", SinceMs: int64(since(i))}); v == run.Begins {
				r.admit(key, 7, p)
			}
		}
		stay := func(when string) {
			t.Helper()
			if packed := r.Packed(); packed < r.Len()*9/10 {
				t.Fatalf("%s, %s: %d of %d are packed", name, when, packed, r.Len())
			}
		}
		for i := range n {
			ask(i)
		}
		if each := int(heapBytes()-before) / n; each > 48 {
			t.Errorf("%s: %d bytes for each", name, each)
		}
		for i := range 2000 {
			for key, p := range r.places {
				delete(r.places, key)
				p.Return()
				break
			}
			ask(n + i)
			stay("as others go on")
		}
		for i := range n {
			ask(i) // those that have begun come again
		}
		stay("after all have asked again")
		if err := r.CheckQueues(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for i := range n + 2000 {
			r.Withdraw(store.RunKey{ID: fmt.Sprintf("order-%010d", i)}, 7)
		}
		if err := r.CheckQueues(); err != nil || r.Len() != 0 {
			t.Errorf("%s: %d are left, %v", name, r.Len(), err)
		}
		if left := heapBytes() - before; left > 1<<20 {
			t.Errorf("%s: %d bytes are left", name, left)
		}
		runtime.KeepAlive(r)
	}
}

// TestMovedAttemptsComeFirst registers a function for a handler whose attempts waited for workers: attempts with the
// same instant that ask later come later.
func TestMovedAttemptsComeFirst(t *testing.T) {
	r := newPackedRuns(100, -1)
	r.HandleRemote("a", remote{})
	ask := func(name string) {
		p, v := r.Ask(run.Ask{Run: store.RunKey{ID: name}, Workflow: "w", Handle: 1, Handler: "a", SinceMs: 5})
		if v == run.Begins {
			r.admit(store.RunKey{ID: name}, 1, p)
		}
	}
	for i := range 8 {
		ask(fmt.Sprint("before", i))
	}
	r.Handle("a", nothing)
	ask("after")
	for len(r.places) > 0 {
		for name, p := range r.places {
			delete(r.places, name)
			p.Return()
			break
		}
	}
	if last := r.told[len(r.told)-1]; last != "0after1" || len(r.told) != 9 {
		t.Error(r.told)
	}
}

func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
