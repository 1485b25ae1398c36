package handler_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// packedPair is two registries to which the same happens: one packs attempts that wait.
type packedPair struct {
	t          *testing.T
	rnd        *rand.Rand
	packs, not *packedRuns
	most       int // attempts that were packed at a time
}

// packedRuns is a registry, and what it has told runs.
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

func newPackedRuns() *packedRuns {
	r := &packedRuns{places: map[string]*handler.Place{}}
	r.Registry = handler.NewRegistry(handler.Config{Runs: r, MaxCallsPerHandler: 3, Offered: 2, Lingering: -1})
	return r
}

// TestPackedAttempts has random things happen to thousands of attempts that wait: whether they are packed, they get their places in the
// same order, and are described in the same way.
func TestPackedAttempts(t *testing.T) {
	for seed := range uint64(40) {
		x := &packedPair{t: t, rnd: rand.New(rand.NewPCG(seed, 3)), packs: newPackedRuns(), not: newPackedRuns()}
		x.not.PackFrom(1<<30, 0)
		x.packs.PackFrom(2+x.rnd.IntN(60), 1+x.rnd.IntN(2))
		asks := 3 + x.rnd.IntN(8) // of 12 moves: from few attempts to thousands
		for range 2500 {
			x.move(asks)
			x.compare()
		}
		if asks > 6 && x.most < 100 {
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
	return store.RunKey{Namespace: store.NamespaceID(x.rnd.IntN(2)), ID: fmt.Sprint("r", x.rnd.IntN(2000))}
}

func (x *packedPair) move(asks int) {
	key, handle, name := x.key(), int64(1), []string{"a", "b"}[x.rnd.IntN(2)]
	if x.rnd.IntN(8) == 0 {
		handle = 2
	}
	switch n := x.rnd.IntN(12); {
	case n < asks:
		a := run.Ask{Run: key, Workflow: fmt.Sprint("w", len(key.ID)%2), Handle: handle, Handler: name, SinceMs: int64(x.rnd.IntN(300))}
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
		x.both(func(r *packedRuns) { r.Withdraw(key, handle) })
	case x.rnd.IntN(200) == 0:
		x.rare(name)
	default:
		x.returnOne()
	}
}

// rare does what concerns many attempts.
func (x *packedPair) rare(name string) {
	switch p := store.PartitionID(x.rnd.IntN(store.Partitions)); x.rnd.IntN(5) {
	case 0:
		x.both(func(r *packedRuns) { r.Handle(name, nothing) })
	case 1:
		x.both(func(r *packedRuns) { r.HandleRemote(name, remote{}) })
	case 2:
		x.both(func(r *packedRuns) { r.SetDraining(true) })
		x.both(func(r *packedRuns) { r.SetDraining(false) })
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

// end has all attempts begin and end, and looks that nothing is left.
func (x *packedPair) end() {
	x.t.Helper()
	x.both(func(r *packedRuns) {
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

// TestPackedAttemptsAreSmall: a hundred thousand attempts that wait take less than 100 bytes each.
func TestPackedAttemptsAreSmall(t *testing.T) {
	r := newPackedRuns()
	r.Handle("a", nothing)
	n := 100_000
	before := heapBytes()
	for i := range n {
		_, _ = r.Ask(run.Ask{Run: store.RunKey{ID: fmt.Sprintf("order-%010d", i)}, Workflow: "w", Handle: 7, Handler: "a", SinceMs: int64(i)})
	}
	if each := int(heapBytes()-before) / n; each > 100 {
		t.Errorf("%d bytes for each", each)
	} else {
		t.Logf("%d bytes for each", each)
	}
	if r.Len() != n-3 {
		t.Error(r.Len())
	}
}

func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
