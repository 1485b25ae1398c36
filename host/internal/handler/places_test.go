package handler_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// calls are calls of handlers by runs of several namespaces.
type calls struct {
	*handler.Registry
	t       *testing.T
	waiting []*call
	inside  []*call
	order   []string // calls that have begun after waiting

	mu     sync.Mutex
	queued []int64 // appended by timers, each in its own goroutine
}

type call struct {
	name  string
	key   store.RunKey
	id    int // in the order in which they came
	place *handler.Place
}

func newCalls(t *testing.T, shared bool) *calls {
	return callsOf(t, handler.Config{Shared: func() bool { return shared }, Lingering: -1})
}

func callsOf(t *testing.T, cfg handler.Config) *calls {
	x := &calls{t: t}
	cfg.Runs = x
	x.Registry = handler.NewRegistry(cfg)
	return x
}

func nothing(context.Context, handler.Attempt, []byte) ([]byte, error) { return nil, nil }

// call makes a call, which goes on until it is ended, and reports whether it has begun.
func (x *calls) call(name string, ns store.NamespaceID, id int) bool {
	if !x.Handled(name) {
		x.Handle(name, nothing)
	}
	c := &call{name: name, key: store.RunKey{Namespace: ns, ID: fmt.Sprint(name, id)}, id: id}
	return x.ask(c, "w")
}

func (x *calls) ask(c *call, workflow string) bool {
	place, v := x.Ask(run.Ask{Run: c.key, Workflow: workflow, Handle: int64(c.id), Handler: c.name})
	if v != run.Begins {
		x.waiting = append(x.waiting, c)
		return false
	}
	c.place = place.(*handler.Place) //nolint:forcetypeassert // see Ask
	x.inside = append(x.inside, c)
	return true
}

// Admitted begins a call that was waiting.
func (x *calls) Admitted(key store.RunKey, ev run.Admitted) {
	i := slices.IndexFunc(x.waiting, func(c *call) bool { return c.key == key && int64(c.id) == ev.Handle })
	c := x.waiting[i]
	c.place = ev.Place.(*handler.Place) //nolint:forcetypeassert // see Ask
	x.waiting = slices.Delete(x.waiting, i, i+1)
	x.inside = append(x.inside, c)
	x.order = append(x.order, fmt.Sprintf("%d/%d", c.key.Namespace, c.id))
}

// Queued records that a call waits, after its linger time.
func (x *calls) Queued(_ store.RunKey, handle int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.queued = append(x.queued, handle)
}

func (x *calls) lingered() []int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.queued)
}

// fill makes calls until one must wait, withdraws that one, and returns the number of calls that have begun.
func (x *calls) fill(name string, ns store.NamespaceID) (n int) {
	for x.call(name, ns, n) {
		n++
	}
	x.giveUp(len(x.waiting) - 1)
	return n
}

func (x *calls) giveUp(i int) {
	c := x.waiting[i]
	x.waiting = slices.Delete(x.waiting, i, i+1)
	x.Withdraw(c.key, int64(c.id))
}

func (x *calls) end(i int) {
	c := x.inside[i]
	x.inside = slices.Delete(x.inside, i, i+1)
	c.place.Return()
	c.place.Return() // changes nothing
}

// endOf ends a call of a namespace.
func (x *calls) endOf(ns store.NamespaceID) {
	x.t.Helper()
	i := slices.IndexFunc(x.inside, func(c *call) bool { return c.key.Namespace == ns })
	if i < 0 {
		x.t.Fatalf("no call of namespace %d goes on", ns)
	}
	x.end(i)
}

func (x *calls) has(name string, ns store.NamespaceID) (n int) {
	for _, c := range x.inside {
		if c.name == name && c.key.Namespace == ns {
			n++
		}
	}
	return n
}

// close ends all calls, and checks that nothing is left of them: namespaces come and go during a host's life.
func (x *calls) close() {
	x.t.Helper()
	for len(x.waiting) > 0 {
		x.giveUp(0)
	}
	for len(x.inside) > 0 {
		x.end(0)
	}
	if n := x.Remembered(); n != 0 {
		x.t.Errorf("after all calls have ended, %d namespaces are remembered", n)
	}
}

// TestShares fills the places of a handler with endless calls: a single namespace gets all places. One of several
// namespaces gets at most half, and the last eight places are for namespaces without any.
func TestShares(t *testing.T) {
	x := newCalls(t, false)
	all := x.fill("slow", 0)
	x.close()
	if all != 64 {
		t.Errorf("the only namespace has %d places, want 64", all)
	}
	x = newCalls(t, true)
	var got []int
	for ns := range store.NamespaceID(11) {
		got = append(got, x.fill("slow", ns))
	}
	if want := []int{32, 24, 1, 1, 1, 1, 1, 1, 1, 1, 0}; !slices.Equal(got, want) {
		t.Errorf("one namespace after the other has %d places, want %d", got, want)
	}
	if n := x.fill("other", 0); n != 32 {
		t.Errorf("the places of one handler leave %d of another one, want 32", n)
	}
	x.close()
}

// TestSharesOfAll fills the places of all handlers together.
func TestSharesOfAll(t *testing.T) {
	for _, c := range []struct {
		shared bool
		want   int
	}{{false, 1024}, {true, 512}} {
		x := newCalls(t, c.shared)
		n := 0
		for i := 0; ; i++ {
			m := x.fill(fmt.Sprint(i), 0)
			n += m
			if m == 0 {
				break
			}
		}
		if n != c.want {
			t.Errorf("the default namespace has %d places of all handlers, want %d (shared: %v)", n, c.want, c.shared)
		}
		if c.shared && !x.call("0", 1, 0) {
			t.Error("another namespace has none")
		}
		x.close()
	}
}

// TestTurns has three namespaces come after one that holds all places and has a thousand waiting calls.
func TestTurns(t *testing.T) {
	x := newCalls(t, false)
	x.fill("slow", 0)
	for i := range 1000 {
		x.call("slow", 0, i)
	}
	for ns := range store.NamespaceID(3) {
		for i := range 3 {
			if x.call("slow", ns+1, i) {
				t.Fatal("a call begins though there is no place")
			}
		}
	}
	for range 3 + 8 + 6 { // eight are kept
		x.endOf(0)
	}
	if want := []string{"1/0", "2/0", "3/0", "1/1", "2/1", "3/1", "1/2", "2/2", "3/2"}; !slices.Equal(x.order, want) {
		t.Errorf("the order is %v, want %v", x.order, want)
	}
	for x.order = nil; len(x.order) == 0; {
		x.endOf(0)
	}
	if n := x.has("slow", 0); n != 32 {
		t.Errorf("the first namespace gets its next place as the %d., want its 32.", n)
	}
	if !slices.Equal(x.order, []string{"0/0"}) {
		t.Errorf("the next one of the first namespace is %v", x.order)
	}
	x.close()
}

// TestTurnsOfMany has more namespaces than places, each with another waiting call. A namespace with very short calls
// gets no more turns than the others.
func TestTurnsOfMany(t *testing.T) {
	x := newCalls(t, true)
	for i := range 3 {
		for ns := range store.NamespaceID(66) {
			x.call("slow", ns, i)
		}
	}
	if len(x.inside) != 64 {
		t.Fatalf("%d calls go on, want one of each of 64 namespaces", len(x.inside))
	}
	x.endOf(0)  // so 64 begins its first call
	x.endOf(1)  // and 65
	x.endOf(64) // so 0, which has waited since the second round, begins again
	x.endOf(0)
	x.endOf(1)
	if want := []string{"64/0", "65/0", "0/1", "1/1", "64/1"}; !slices.Equal(x.order, want) {
		t.Errorf("the order is %v, want %v", x.order, want)
	}
	x.close()
}

// TestRandomCalls begins, ends and withdraws calls at random. No call waits while there is room for it, the namespace
// with the fewest places is next, and no place is lost.
func TestRandomCalls(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	x := newCalls(t, true)
	for i := range 4000 {
		switch n := r.IntN(1000); {
		case n < 550:
			x.call("slow", store.NamespaceID(min(r.IntN(8), r.IntN(8))), i)
		case n < 600 && len(x.waiting) > 0:
			x.giveUp(r.IntN(len(x.waiting)))
		case len(x.inside) > 0:
			x.endInOrder(r.IntN(len(x.inside)))
		}
		free := 64 - len(x.inside)
		for ns := range store.NamespaceID(8) {
			if has := x.has("slow", ns); has > 32 || free < 0 {
				t.Fatalf("after %d: %d calls go on, %d of namespace %d", i, len(x.inside), has, ns)
			}
		}
		for _, c := range x.waiting {
			if has := x.has("slow", c.key.Namespace); has == 0 && free > 0 || has < 32 && free > 8 {
				t.Fatalf("after %d: a call of namespace %d waits, which has %d places, while %d are free", i, c.key.Namespace, has, free)
			}
		}
	}
	x.close()
	if n := x.fill("slow", 1); n != 32 {
		t.Errorf("in the end there are %d places for a namespace, want 32", n)
	}
	x.close()
}

// endInOrder ends a call, and checks that the call which begins then is the right one of the waiting ones.
func (x *calls) endInOrder(i int) {
	x.t.Helper()
	ended, has := x.inside[i].key.Namespace, map[store.NamespaceID]int{}
	fewest := 64
	for _, c := range x.waiting {
		has[c.key.Namespace] = x.has("slow", c.key.Namespace)
		if c.key.Namespace == ended {
			has[c.key.Namespace]--
		}
		fewest = min(fewest, has[c.key.Namespace])
	}
	x.order = nil
	x.end(i)
	if len(x.order) > 0 {
		if c := x.inside[len(x.inside)-1]; len(x.order) > 1 || has[c.key.Namespace] != fewest {
			x.t.Fatalf("%v begin, of a namespace with %d places, while one with %d waits", x.order, has[c.key.Namespace], fewest)
		}
	}
}

// TestTurnsOfAWorkflowThatDrains: a workflow whose only waiting attempt begins and is followed by another gets no
// more turns than the others.
func TestTurnsOfAWorkflowThatDrains(t *testing.T) {
	x := callsOf(t, handler.Config{MaxCallsPerHandler: 1, Lingering: -1})
	x.Handle("h", nothing)
	id := 0
	ask := func(workflow string) {
		id++
		c := &call{name: "h", id: id}
		c.key.ID = workflow + strings.Repeat("x", id)
		x.ask(c, workflow)
	}
	ask("a")
	ask("a") // waits
	for range 20 {
		ask("b") // a backlog
	}
	var order string
	for range 10 {
		x.end(0)
		k := x.inside[0].key.ID[:1]
		order += k
		if k == "a" {
			ask("a")
		}
	}
	if n := strings.Count(order, "b"); n < 5 {
		t.Errorf("turns: %s", order)
	}
}
