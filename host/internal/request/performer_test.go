package request

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/store"
)

// memory keeps requests as the interface says. Its clock is that of the test.
type memory struct {
	mu      sync.Mutex
	list    []store.Request
	due     map[int64]time.Time
	kept    map[int64]string // reasons of refused requests
	asked   int
	arrived func()
	fails   error // of EndRequests
}

func (m *memory) put(kind store.RequestKind, run string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := int64(len(m.due) + 1)
	m.list = append(m.list, store.Request{ID: id, Kind: kind, Run: store.RunKey{ID: run}})
	m.due[id] = time.Now()
	return id
}

func (m *memory) Requests(_ context.Context, _ []store.PartitionID, skip []store.RunKey, limit int) (out []store.Request, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked++
	runs := map[store.RunKey]bool{} // whether its requests are returned
	for _, r := range m.list {
		if _, seen := runs[r.Run]; !seen {
			runs[r.Run] = !m.due[r.ID].After(time.Now()) && !slices.Contains(skip, r.Run) && limit > 0
			if runs[r.Run] {
				limit--
			}
		}
		if runs[r.Run] {
			out = append(out, r)
		}
	}
	return out, nil
}

func (m *memory) EndRequests(_ context.Context, results []store.RequestResult) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fails != nil {
		return m.fails
	}
	for _, x := range results {
		at := slices.IndexFunc(m.list, func(r store.Request) bool { return r.ID == x.ID })
		switch {
		case x.AgainMs > 0:
			m.list[at].Attempts++
			m.due[x.ID] = time.Now().Add(time.Duration(x.AgainMs) * time.Millisecond)
			continue
		case x.Reason != "":
			m.kept[x.ID] = x.Reason
		}
		m.list = slices.Delete(m.list, at, at+1)
	}
	return nil
}

func (m *memory) Listen(ctx context.Context, arrived func()) {
	m.arrived = arrived
	<-ctx.Done()
}

// world performs the requests of a memory.
type world struct {
	*memory
	mu   sync.Mutex
	did  []string
	do   func(ctx context.Context, r *store.Request) (Verdict, error)
	stop func()
}

func newWorld(t *testing.T, do func(ctx context.Context, r *store.Request) (Verdict, error)) *world {
	w := &world{memory: &memory{due: map[int64]time.Time{}, kept: map[int64]string{}}, do: do}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	w.stop = func() { cancel(); <-ended }
	go func() {
		defer close(ended)
		Perform(ctx, Config{Store: w.memory, Owned: func() []store.PartitionID { return nil },
			Do: func(ctx context.Context, r *store.Request) (Verdict, error) {
				w.mu.Lock()
				w.did = append(w.did, fmt.Sprint(r.Run.ID, r.ID))
				w.mu.Unlock()
				return w.do(ctx, r)
			},
			Report: func(*store.Request, error, time.Duration) {}, Failed: func(error) {}})
	}()
	synctest.Wait()
	return w
}

// settle waits until nothing happens before time passes, and then calls f alone.
func (w *world) settle(f func()) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.memory.mu.Lock()
	defer w.memory.mu.Unlock()
	f()
}

// TestOrder performs the requests of a run in their order, while those of other runs go on.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		w := newWorld(t, func(_ context.Context, r *store.Request) (Verdict, error) {
			if r.ID == 1 {
				<-hold
			}
			return Done, nil
		})
		for range 3 {
			w.put(store.RequestSignal, "a")
		}
		w.put(store.RequestStart, "b")
		w.arrived()
		w.settle(func() {
			if want := []string{"a1", "b4"}; !slices.Equal(slices.Sorted(slices.Values(w.did)), want) {
				t.Errorf("while the first request of a is being performed: %v", w.did)
			}
		})
		w.put(store.RequestStart, "c")
		w.arrived()
		synctest.Wait()
		close(hold)
		w.settle(func() {
			w.did = slices.DeleteFunc(w.did, func(s string) bool { return s[0] != 'a' })
			if want := []string{"a1", "a2", "a3"}; !slices.Equal(w.did, want) || len(w.list) > 0 {
				t.Errorf("%v, %v are left", w.did, w.list)
			}
		})
		w.stop()
	})
}

// TestBackoff performs a request that is refused for the time being, with a request behind it and one beside it, and one whose run is
// missing: later and later, at most a minute apart, and the latter for a minute.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var at []time.Duration
		w := newWorld(t, func(_ context.Context, r *store.Request) (Verdict, error) {
			switch r.Run.ID {
			case "busy":
				at = append(at, time.Since(began))
				return Again, errors.New("busy")
			case "missing":
				return Missing, errors.New("not found")
			case "left":
				return Left, errors.New("fenced")
			}
			return Done, nil
		})
		w.put(store.RequestStart, "busy")
		w.put(store.RequestSignal, "busy")
		w.put(store.RequestSignal, "missing")
		w.put(store.RequestStart, "left")
		w.put(store.RequestStart, "fine")
		<-time.After(10 * time.Minute)
		w.stop()
		if len(w.list) != 3 || w.list[0].ID != 1 || w.list[2].Run.ID != "left" || w.kept[3] != "not found" || len(w.kept) != 1 {
			t.Errorf("left: %+v, refused: %v", w.list, w.kept)
		}
		if n := len(at); n < 16 || n > 22 || at[n-1]-at[n-2] < maxDelay || at[n-1]-at[n-2] > maxDelay+2*pollTime || at[1]-at[0] > 2*pollTime {
			t.Errorf("attempts at %v", at)
		}
		for i := 2; i < len(at); i++ {
			if at[i]-at[i-1] < at[i-1]-at[i-2]-2*pollTime {
				t.Errorf("the delays shrink: %v", at)
			}
		}
	})
}

// TestStartBehindItsSignal performs a start before the signal and the cancel of its run that have lower numbers, and puts all of them
// off if the start must wait.
func TestStartBehindItsSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there := false // of the goroutine that performs the requests of a
		var busy atomic.Bool
		busy.Store(true)
		w := newWorld(t, func(_ context.Context, r *store.Request) (Verdict, error) {
			switch {
			case r.Kind == store.RequestStart && busy.Load():
				return Again, errors.New("busy")
			case r.Kind == store.RequestStart:
				there = true
			case !there:
				return Missing, errors.New("not found")
			}
			return Done, nil
		})
		w.put(store.RequestSignal, "a")
		w.put(store.RequestCancel, "a")
		w.put(store.RequestStart, "a")
		w.arrived()
		w.settle(func() {
			if want := []string{"a1", "a3"}; !slices.Equal(w.did, want) || w.list[0].Attempts != 1 || w.list[2].Attempts != 1 {
				t.Errorf("%v %+v", w.did, w.list)
			}
			w.did = nil
			busy.Store(false)
		})
		<-time.After(2 * time.Second)
		w.stop()
		if want := []string{"a1", "a3", "a1", "a2"}; !slices.Equal(w.did, want) || len(w.list) > 0 {
			t.Errorf("%v %+v", w.did, w.list)
		}
	})
}

// TestManyRequests performs more requests than fit into memory, and does not ask for each one.
func TestManyRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		most, now := 0, 0
		var mu sync.Mutex
		w := newWorld(t, func(context.Context, *store.Request) (Verdict, error) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			<-time.After(time.Millisecond)
			mu.Lock()
			now--
			mu.Unlock()
			return Done, nil
		})
		const n = 10 * maxRuns
		for i := range n {
			w.put(store.RequestStart, fmt.Sprint("r", i))
		}
		w.arrived()
		<-time.After(time.Second / 2)
		w.stop()
		if len(w.did) != n || len(w.list) > 0 || most != atOnce || w.asked > n/10 {
			t.Errorf("%d performed, %d left, %d at a time, asked %d times", len(w.did), len(w.list), most, w.asked)
		}
	})
}

// TestStop stops while requests are being performed: what is done is recorded, the rest is left. Results that could not be recorded
// are lost, and the requests performed again.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(ctx context.Context, r *store.Request) (Verdict, error) {
			if r.ID == 2 {
				<-ctx.Done()
			}
			return Done, nil
		})
		w.settle(func() { w.fails = errors.New("away") })
		w.put(store.RequestStart, "a")
		w.arrived()
		w.settle(func() { w.fails = nil })
		<-time.After(2 * time.Second)
		w.settle(func() {
			if want := []string{"a1", "a1"}; !slices.Equal(w.did, want) || len(w.list) > 0 {
				t.Errorf("%v %+v", w.did, w.list)
			}
		})
		w.put(store.RequestSignal, "b")
		w.put(store.RequestSignal, "b")
		w.put(store.RequestSignal, "c")
		w.arrived()
		synctest.Wait()
		w.stop()
		if len(w.list) != 1 || w.list[0].ID != 3 {
			t.Errorf("left: %+v", w.list)
		}
	})
}
