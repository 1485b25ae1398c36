package handler_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// TestLimitsChangeBeforeTheVerdict has the limits change between the verdict of the limiter and the moment when the
// registry records it: Admit(nil) comes first.
func TestLimitsChangeBeforeTheVerdict(t *testing.T) {
	runs, busy := &noted{}, &activity{}
	l := &limiterFunc{}
	r := handler.NewRegistry(handler.Config{Limiter: l, Runs: runs, Lingering: -1, Activity: busy, MaxCallsPerHandler: 1})
	l.enter = func(handler.Entrant) (handler.Slot, run.Verdict) { return emptySlot{}, run.Begins }
	r.Handle("h", nothing)
	p, v := r.Ask(run.Ask{Run: store.RunKey{ID: "first"}, Workflow: "w", Handle: 1, Handler: "h"})
	if v != run.Begins {
		t.Fatal(v)
	}
	l.enter = func(e handler.Entrant) (handler.Slot, run.Verdict) {
		done := make(chan struct{})
		e.Wakes() // HandlerLimiter.set
		go func() { e.Admit(nil); close(done) }()
		<-done
		return emptySlot{}, run.Soon
	}
	a := run.Ask{Run: store.RunKey{ID: "r"}, Workflow: "w", Handle: 1, Handler: "h"}
	_, v = r.Ask(a)
	if v != run.Soon {
		t.Fatal(v)
	}
	if busy.n != 0 {
		t.Errorf("activity %d, the attempt waits in line", busy.n)
	}
	if _, v = r.Ask(a); v == run.Soon {
		t.Error("asked again: Soon, and nobody will tell")
	}
	p.(*handler.Place).Return()
	if len(runs.admitted) != 1 || busy.n != 0 {
		t.Errorf("%d admitted, activity %d", len(runs.admitted), busy.n)
	}
}

// TestLenCountsSlots counts attempts that wait for slots.
func TestLenCountsSlots(t *testing.T) {
	runs := &noted{}
	l := &limiterFunc{enter: func(handler.Entrant) (handler.Slot, run.Verdict) { return emptySlot{}, run.Queues }}
	r := handler.NewRegistry(handler.Config{Limiter: l, Runs: runs, Lingering: -1})
	r.Handle("h", nothing)
	for i := range 5 {
		r.Ask(run.Ask{Run: store.RunKey{ID: fmt.Sprint(i)}, Workflow: "w", Handle: 1, Handler: "h"})
	}
	if r.Len() != 5 {
		t.Errorf("%d wait, want 5", r.Len())
	}
}

// TestRegisteredWhileAsking registers a handler with limits while an attempt asks: it gets no place without a slot.
func TestRegisteredWhileAsking(t *testing.T) {
	for i := range 20_000 {
		l := &limiterFunc{enter: func(handler.Entrant) (handler.Slot, run.Verdict) { return emptySlot{}, run.Queues }}
		r := handler.NewRegistry(handler.Config{Limiter: l, Runs: &noted{}, Lingering: -1})
		var wg sync.WaitGroup
		wg.Go(func() { r.Handle("h", nothing) })
		if i%2 == 0 {
			runtime.Gosched()
		}
		_, v := r.Ask(run.Ask{Run: store.RunKey{ID: "r"}, Workflow: "w", Handle: 1, Handler: "h"})
		wg.Wait()
		if v == run.Begins {
			t.Fatalf("round %d: it begins without a slot", i)
		}
	}
}

// unreadable is a source of limits that can be read only from an instant on.
type unreadable struct {
	limiterFunc
	until time.Time
}

func (u *unreadable) Limited(store.NamespaceID, string) (limited, known bool) {
	return false, time.Now().After(u.until)
}

func (u *unreadable) Load(context.Context, store.NamespaceID) error {
	if time.Now().After(u.until) {
		return nil
	}
	return errors.New("corrupt")
}

// counted is an activity that several goroutines use.
type counted struct{ n atomic.Int64 }

func (c *counted) Begin() { c.n.Add(1) }
func (c *counted) Done()  { c.n.Add(-1) }

// TestUnreadableLimits has limits that cannot be read for an hour: the run is told that it waits, so that it may
// leave memory, and asks again when they can be read.
func TestUnreadableLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs, busy := &noted{}, &counted{}
		l := &unreadable{until: time.Now().Add(time.Hour)}
		r := handler.NewRegistry(handler.Config{Limiter: l, Runs: runs, Lingering: -1, Activity: busy,
			Background: func(f func(context.Context)) {
				busy.Begin()
				go func() {
					f(t.Context())
					busy.Done()
				}()
			}})
		r.Handle("h", nothing)
		a := run.Ask{Run: store.RunKey{ID: "r"}, Workflow: "w", Handle: 1, Handler: "h"}
		if _, v := r.Ask(a); v != run.Soon {
			t.Errorf("verdict %d", v)
		}
		<-time.NewTimer(time.Minute).C
		synctest.Wait()
		if runs.queued != 1 || busy.n.Load() != 0 {
			t.Errorf("it was told %d times that it waits; activity %d", runs.queued, busy.n.Load())
		}
		if w, _ := r.Waits(a.Run); w.Why != handler.WaitsForLimits {
			t.Errorf("%+v", w)
		}
		if _, v := r.Ask(a); v != run.Queues {
			t.Errorf("verdict %d", v)
		}
		other := a
		other.Run.ID = "s"
		if _, v := r.Ask(other); v != run.Queues {
			t.Errorf("verdict %d of another run", v)
		}
		<-time.NewTimer(time.Hour).C
		synctest.Wait()
		if len(runs.admitted) != 2 || r.Len() != 0 || busy.n.Load() != 0 {
			t.Errorf("%d ask again, %d wait, activity %d", len(runs.admitted), r.Len(), busy.n.Load())
		}
	})
}

// TestEmptyHandlerName asks for the handler "host/", whose name without the prefix is empty.
func TestEmptyHandlerName(t *testing.T) {
	r := handler.NewRegistry(handler.Config{Runs: &noted{}, Lingering: -1})
	if r.Handled("") {
		t.Error("a handler without a name is registered")
	}
	if _, v := r.Ask(run.Ask{Run: store.RunKey{ID: "r"}, Workflow: "w", Handle: 1, Handler: ""}); v != run.Unhandled {
		t.Errorf("verdict %d", v)
	}
}
