package limits

import (
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// TestWithdrawnWhileCounted withdraws an attempt while the commit that counts it is in flight. The commit is refused,
// and the next attempt can use the rate.
func TestWithdrawnWhileCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newHouse(t, memstore.New().Open(), startClock())
		x.set("1/1h")
		x.hold = make(chan struct{}, 9)
		a := run.Ask{Run: store.RunKey{ID: "r"}, Step: "a", Handler: charge.Name}
		s, _ := x.Enter(a, entrant{x, "a"})
		synctest.Wait()
		x.gone["a"] = true
		s.Return()
		x.refuse = store.ErrConflict
		x.hold <- struct{}{}
		synctest.Wait()
		held, waiting := x.Count(charge)
		if held+waiting > 0 {
			t.Errorf("after the refused commit, %d hold a slot and %d wait", held, waiting)
		}
		x.hold <- struct{}{}
		x.hold <- struct{}{}
		x.hold <- struct{}{}
		synctest.Wait()
		x.Enter(run.Ask{Run: store.RunKey{ID: "s"}, Step: "b", Handler: charge.Name}, entrant{x, "b"})
		synctest.Wait()
		x.advance(time.Second)
		if len(x.begun) != 1 {
			t.Errorf("%v have begun: the withdrawn attempt has used up the rate", x.begun)
		}
	})
}

// idleEntrant wants to be told nothing.
type idleEntrant struct{ block chan struct{} }

func (e idleEntrant) Admit(handler.Slot) { <-e.block }
func (idleEntrant) Wakes()               {}
func (idleEntrant) Queued()              {}

// TestManyWait has so many attempts of a handler wait that a withdrawal must not touch each of them: that would take
// minutes. Then it removes the limits, which takes one goroutine, not one per attempt.
func TestManyWait(t *testing.T) {
	x := newHouse(t, memstore.New().Open(), startClock())
	if err := x.Set(handlerCtx, charge, rules(t, "1")); err != nil {
		t.Fatal(err)
	}
	e := idleEntrant{make(chan struct{})}
	const n = 200_000
	var list []handler.Slot
	for i := range n {
		s, _ := x.Enter(run.Ask{Run: store.RunKey{ID: strconv.Itoa(i)}, Step: "a", Handler: charge.Name}, e)
		list = append(list, s)
	}
	for _, s := range list[1 : n/2] {
		s.Return()
	}
	if held, waiting := x.Count(charge); held != 1 || waiting != n/2 {
		t.Errorf("%d hold a slot, %d wait", held, waiting)
	}
	before := runtime.NumGoroutine()
	if err := x.Set(handlerCtx, charge, nil); err != nil {
		t.Fatal(err)
	}
	if more := runtime.NumGoroutine() - before; more > 10 {
		t.Errorf("%d goroutines more", more)
	}
	close(e.block)
}
