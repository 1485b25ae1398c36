package handler_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// remote is a handler for workers that performs nothing.
type remote struct{ handler.Remote }

func (remote) SetDraining(bool) {}

// begun returns the calls that have begun after waiting, in order, and forgets them.
func (x *calls) begun() (list []string) {
	list, x.order = x.order, nil
	return list
}

// wait makes calls of a full handler by runs of a workflow.
func (x *calls) wait(name, workflow string, ns store.NamespaceID, ids ...int) {
	x.t.Helper()
	for _, id := range ids {
		if x.ask(&call{name: name, key: store.RunKey{Namespace: ns, ID: fmt.Sprint(workflow, id)}, id: id}, workflow) {
			x.t.Errorf("call %d begins", id)
		}
	}
}

// TestWorkflowsTakeTurns has runs of two workflows wait for the same handler. Each workflow gets every second turn,
// and its runs keep their order.
func TestWorkflowsTakeTurns(t *testing.T) {
	x := newCalls(t, false)
	x.fill("slow", 0)
	x.wait("slow", "many", 0, 1, 2, 3, 4)
	x.wait("slow", "few", 0, 11, 12)
	x.Withdraw(store.RunKey{ID: "many2"}, 2)
	x.waiting = slices.DeleteFunc(x.waiting, func(c *call) bool { return c.id == 2 })
	for range 5 {
		x.endOf(0)
	}
	if got, want := x.begun(), []string{"0/1", "0/11", "0/3", "0/12", "0/4"}; !slices.Equal(got, want) {
		t.Errorf("the order is %v, want %v", got, want)
	}
	x.close()
}

// TestAskAgain has a waiting step ask again: it keeps its turn, and gets one place.
func TestAskAgain(t *testing.T) {
	x := newCalls(t, false)
	x.fill("slow", 0)
	x.wait("slow", "w", 0, 1, 2)
	first := run.Ask{Run: store.RunKey{ID: "w1"}, Workflow: "w", Handle: 1, Handler: "slow"}
	if _, v := x.Ask(first); v != run.Queues {
		t.Errorf("verdict %d", v)
	}
	if w, ok := x.Waits(store.RunKey{ID: "w2"}); !ok || w.Handler != "slow" || w.Before != 1 || w.Why != handler.WaitsForHandler {
		t.Errorf("%+v %v", w, ok)
	}
	x.endOf(0)
	x.endOf(0)
	if got, want := x.begun(), []string{"0/1", "0/2"}; !slices.Equal(got, want) || x.Asks(first.Run) || x.Len() != 0 {
		t.Errorf("%v begin, %d wait", got, x.Len())
	}
	x.close()
}

// TestAskForAnother has an attempt ask under the handle of an attempt that waits for another handler; the latter then
// no longer waits.
func TestAskForAnother(t *testing.T) {
	x := newCalls(t, false)
	x.fill("slow", 0)
	x.fill("other", 0)
	x.wait("slow", "w", 0, 1)
	key := store.RunKey{ID: "w1"}
	if _, v := x.Ask(run.Ask{Run: key, Workflow: "w", Handle: 1, Handler: "other"}); v != run.Queues {
		t.Errorf("verdict %d", v)
	}
	if w, ok := x.Waits(key); !ok || w.Handler != "other" || x.Len() != 1 {
		t.Errorf("%+v %v, %d wait", w, ok, x.Len())
	}
	x.Withdraw(key, 1)
	x.waiting = nil
	x.endOf(0)
	x.endOf(0)
	if got := x.begun(); len(got) > 0 {
		t.Errorf("%v begin", got)
	}
	x.close()
}

// TestWithdrawPartition withdraws the attempts of all runs of a partition, and no others.
func TestWithdrawPartition(t *testing.T) {
	x := newCalls(t, false)
	x.fill("slow", 0)
	var lost []int
	partition := store.RunKey{ID: "w1"}.Partition()
	for id := 1; len(lost) < 3 || id < 100; id++ {
		x.wait("slow", "w", 0, id)
		if key := (store.RunKey{ID: fmt.Sprint("w", id)}); key.Partition() == partition {
			lost = append(lost, id)
		}
	}
	n := x.Len()
	if _, v := x.Ask(run.Ask{Run: store.RunKey{ID: "w1"}, Workflow: "w", Handle: 1001, Handler: "slow"}); v != run.Queues {
		t.Errorf("verdict %d", v)
	}
	x.WithdrawPartition(partition)
	x.waiting = slices.DeleteFunc(x.waiting, func(c *call) bool { return slices.Contains(lost, c.id) })
	if x.Len() != n-len(lost) || x.Asks(store.RunKey{ID: "w1"}) || !x.Asks(x.waiting[0].key) {
		t.Errorf("%d of %d wait, of which %d were of the partition", x.Len(), n, len(lost))
	}
	for len(x.waiting) > 0 {
		x.endOf(0)
	}
	x.close()
}

// TestBefore returns the number of attempts before one, up to a maximum.
func TestBefore(t *testing.T) {
	x := newCalls(t, false)
	x.fill("slow", 0)
	const all = handler.MaxBefore + 10
	for i := range all {
		a := run.Ask{Run: store.RunKey{ID: fmt.Sprint(i)}, Workflow: "w", Handle: 1, Handler: "slow", SinceMs: int64(i * 7919 % all)}
		if _, v := x.Ask(a); v != run.Queues {
			t.Fatalf("verdict %d", v)
		}
	}
	for _, i := range []int{0, 1, 2, 77, all - 1} {
		w, _ := x.Waits(store.RunKey{ID: fmt.Sprint(i)})
		if want := min(i*7919%all, handler.MaxBefore); w.Before != want {
			t.Errorf("%d attempts are before attempt %d, want %d", w.Before, i, want)
		}
	}
	for i := range all {
		x.Withdraw(store.RunKey{ID: fmt.Sprint(i)}, 1)
	}
	x.close()
}

// activity counts work in progress.
type activity struct{ n int }

func (a *activity) Begin() { a.n++ }
func (a *activity) Done()  { a.n-- }

// TestPulse counts attempts that wait for a place whose attempt is over as activity, for a handler's own places and
// those of all handlers, also while the handler is replaced.
func TestPulse(t *testing.T) {
	var busy activity
	x := callsOf(t, handler.Config{MaxCallsPerHandler: 2, MaxCalls: 3, Lingering: -1, Activity: &busy})
	want := func(what string, n int) {
		t.Helper()
		if busy.n != n {
			t.Errorf("%s: activity %d, want %d", what, busy.n, n)
		}
	}
	for id := 1; id <= 5; id++ { // the last two wait: b for a place of all handlers, a for its own
		x.call([]string{"a", "a", "b", "b", "a"}[id-1], 0, id)
	}
	want("calls wait", 0)
	x.inside[2].place.Over() // b's
	want("the call of b is over", 1)
	x.inside[0].place.Over() // a's
	want("a call of a is over", 2)
	x.SetDraining(true)
	want("draining", 0)
	x.SetDraining(false)
	want("not draining", 2)
	x.Handle("a", nil)
	x.Handle("a", nothing)
	want("another handler", 2)
	x.giveUp(1)
	want("nobody waits for a", 1)
	x.end(2)
	want("the place of b is returned", 0)
	x.close()
	want("the end", 0)
}

// TestStepsOfOneRun has several steps of a run wait, and withdraws them one by one.
func TestStepsOfOneRun(t *testing.T) {
	x := newCalls(t, false)
	x.fill("slow", 0)
	key := store.RunKey{ID: "r"}
	for _, handle := range []int64{5, 3, 9, 7} {
		x.Ask(run.Ask{Run: key, Workflow: "w", Handle: handle, Handler: "slow"})
	}
	for i, handle := range []int64{5, 9, 3, 7} {
		if !x.Asks(key) || x.Len() != 4-i {
			t.Fatalf("%d wait, want %d", x.Len(), 4-i)
		}
		x.Withdraw(key, handle)
		x.Withdraw(key, handle) // changes nothing
	}
	if x.Asks(key) || x.Len() != 0 {
		t.Error("a step waits that was withdrawn")
	}
	x.close()
}

// TestUnhandled has runs wait for a handler that is registered later: then as many begin as it has places. If workers
// perform it, others begin when a worker takes one.
func TestUnhandled(t *testing.T) {
	for _, workers := range []bool{false, true} {
		x := newCalls(t, false)
		const n = 300
		for id := range n {
			_, v := x.Ask(run.Ask{Run: store.RunKey{ID: fmt.Sprint(id)}, Workflow: "w", Handle: int64(id), Handler: "late"})
			if v != run.Unhandled {
				t.Fatalf("verdict %d", v)
			}
			x.waiting = append(x.waiting, &call{name: "late", key: store.RunKey{ID: fmt.Sprint(id)}, id: id})
		}
		if w, ok := x.Waits(store.RunKey{ID: "7"}); !ok || w.Why != handler.WaitsUnhandled || w.Before != 7 {
			t.Errorf("%+v %v", w, ok)
		}
		places := 64
		if workers {
			places = 256
			x.HandleRemote("late", remote{})
			if got := x.WaitingOf("late", 0); got != n-places {
				t.Errorf("%d attempts wait that no worker can take yet", got)
			}
		} else {
			x.Handle("late", nothing)
		}
		if got := x.begun(); len(got) != places || got[0] != "0/0" || got[places-1] != fmt.Sprint("0/", places-1) {
			t.Errorf("%d begin, %v", len(got), got)
		}
		x.endOf(0)
		if got := x.begun(); len(got) != 1 || got[0] != fmt.Sprint("0/", places) {
			t.Errorf("then %v begin", got)
		}
		x.close()
	}
}

// TestWorkersOfNamespaces fills the offers of one namespace to its workers: another namespace has its own.
func TestWorkersOfNamespaces(t *testing.T) {
	x := newCalls(t, true)
	x.HandleRemote("slow", remote{})
	for ns := range store.NamespaceID(3) {
		if n := x.fill("slow", ns); n != 256 {
			t.Errorf("namespace %d offers %d attempts", ns, n)
		}
	}
	x.close()
}

// TestPerformedElsewhere changes a handler to one for workers, and then to a function, while attempts wait for it.
func TestPerformedElsewhere(t *testing.T) {
	x := newCalls(t, true)
	x.fill("slow", 1)
	x.wait("slow", "w", 1, 1001, 1002)
	x.HandleRemote("slow", remote{})
	if got := x.begun(); len(got) != 2 {
		t.Errorf("%v begin", got)
	}
	for ns := range store.NamespaceID(3) {
		x.fill("slow", ns)
		x.wait("slow", "v", ns, 3000+int(ns))
	}
	x.Handle("slow", nothing)
	for len(x.inside) > 0 {
		x.end(0)
	}
	if len(x.waiting) > 0 {
		t.Errorf("%d wait, and no call goes on", len(x.waiting))
	}
	x.close()
}

// TestDraining grants no places while the host drains, and grants all free ones when it stops draining.
func TestDraining(t *testing.T) {
	x := newCalls(t, false)
	x.fill("slow", 0)
	x.wait("slow", "w", 0, 1001, 1002)
	x.Handle("other", nothing)
	x.SetDraining(true)
	x.endOf(0)
	x.endOf(0)
	x.wait("other", "w", 0, 1003)
	if got := x.begun(); got != nil {
		t.Errorf("%v begin", got)
	}
	x.SetDraining(false)
	if got := x.begun(); len(got) != 3 {
		t.Errorf("%v begin", got)
	}
	x.close()
}

// TestPlacesOfAllHandlers uses up the places of all handlers together: the next ones go to the attempts that have
// waited longest, whatever their handlers.
func TestPlacesOfAllHandlers(t *testing.T) {
	x := newCalls(t, false)
	for i := range 1024 / 64 {
		x.fill(fmt.Sprint(i), 0)
	}
	x.Handle("a", nothing)
	x.Handle("b", nothing)
	x.wait("a", "w", 0, 2001)
	x.wait("b", "w", 0, 2002)
	x.wait("a", "w", 0, 2003)
	x.Withdraw(store.RunKey{ID: "w2002"}, 2002)
	x.waiting = slices.DeleteFunc(x.waiting, func(c *call) bool { return c.id == 2002 })
	x.endOf(0)
	x.endOf(0)
	if got, want := x.begun(), []string{"0/2001", "0/2003"}; !slices.Equal(got, want) {
		t.Errorf("the order is %v, want %v", got, want)
	}
	x.close()
}

// TestLingering has attempts wait: some of their runs stay in memory for a second, in case there is a place soon.
func TestLingering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := callsOf(t, handler.Config{MaxCallsPerHandler: 1, Lingering: 2})
		x.call("slow", 0, 0)
		ask := func(id int64, want run.Verdict) {
			t.Helper()
			a := run.Ask{Run: store.RunKey{ID: fmt.Sprint(id)}, Workflow: "w", Handle: id, Handler: "slow"}
			x.waiting = append(x.waiting, &call{name: "slow", key: a.Run, id: int(id)})
			for range 2 {
				if _, v := x.Ask(a); v != want {
					t.Errorf("call %d: verdict %d, want %d", id, v, want)
				}
			}
		}
		ask(1, run.Soon)
		ask(2, run.Soon)
		ask(3, run.Queues)
		<-time.After(time.Second / 2)
		x.end(0) // 1 begins
		ask(4, run.Soon)
		<-time.After(time.Second / 2)
		synctest.Wait()
		if got := x.lingered(); !slices.Equal(got, []int64{2}) {
			t.Errorf("%v linger no more", got)
		}
		<-time.After(time.Second / 2)
		synctest.Wait()
		if got := x.lingered(); !slices.Equal(got, []int64{2, 4}) {
			t.Errorf("%v linger no more", got)
		}
		x.close()
	})
}
