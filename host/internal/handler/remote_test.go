package handler_test

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

var charge = handler.WorkerQueue{Namespace: 3, Handler: "charge"}

// bench is a broker with attempts whose outcomes are recorded at once.
type bench struct {
	*handler.Broker
	t *testing.T
}

func newBench(t *testing.T) *bench {
	n := uint64(0)
	return &bench{handler.NewBroker(clock.System(), func(p []byte) { n++; binary.LittleEndian.PutUint64(p, n) }), t}
}

// performed is an attempt that goes on.
type performed struct {
	out    chan run.StepOutcome
	cancel context.CancelFunc
	told   bool
}

// begin offers an attempt with a timeout of a minute. Its outcome is recorded, unless unrecorded simulates that the
// run no longer needs it.
func (b *bench) begin(name string, atMostOnce, unrecorded bool) *performed {
	ctx, cancel := context.WithCancel(b.t.Context())
	p := &performed{out: make(chan run.StepOutcome, 1), cancel: cancel}
	a := handler.Attempt{Run: store.RunKey{Namespace: 3, ID: name}, Handler: "charge", Step: name, Number: 1, AtMostOnce: atMostOnce,
		Timeout: time.Minute}
	go func() {
		out, reply := b.Perform(ctx, a, []byte(name), func() bool { return p.told }, func() {})
		if reply != nil {
			reply(!unrecorded, nil)
		}
		p.out <- out
	}()
	synctest.Wait()
	return p
}

func (b *bench) take(max int) []handler.OfferedAttempt {
	b.t.Helper()
	list, err := b.Take(b.t.Context(), charge, handler.TakeRequest{Worker: "w", Max: max, Lease: 10 * time.Second})
	if err != nil {
		b.t.Fatal(err)
	}
	return list
}

// is checks the kind and text of an outcome. The kind is "none" if there is no outcome yet, and "result" for a
// result.
func (b *bench) is(p *performed, kind, text string) {
	b.t.Helper()
	synctest.Wait()
	select {
	case out := <-p.out:
		got, said := "result", string(out.Data)
		if out.Abandoned {
			got = "abandoned"
		} else if out.Err != nil {
			got, said = out.Err.Kind, out.Err.Message
		}
		if got != kind || !strings.Contains(said, text) {
			b.t.Errorf("the outcome is %s %q, want %s %q", got, said, kind, text)
		}
	default:
		if kind != "none" {
			b.t.Errorf("there is no outcome, want %s", kind)
		}
	}
}

// pass advances the bubble's time, and waits until due timers have fired.
func (b *bench) pass(d time.Duration) {
	late, cancel := context.WithTimeout(b.t.Context(), d)
	defer cancel()
	<-late.Done()
	synctest.Wait()
}

func (b *bench) empty() {
	b.t.Helper()
	if list := b.States(3); len(list) != 0 {
		b.t.Errorf("something is left: %+v", list)
	}
}

func within(t *testing.T, f func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newBench(t)) })
}

// TestHandIn performs attempts in order, in batches.
func TestHandIn(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		first, second, third := b.begin("a", false, false), b.begin("b", false, false), b.begin("c", false, true)
		if s := b.States(3); len(s) != 1 || s[0].Waiting != 3 || s[0].Oldest.IsZero() || len(b.States(4)) != 0 {
			t.Errorf("%+v", s)
		}
		if name, of, ok := b.Waits(store.RunKey{Namespace: 3, ID: "b"}); !ok || name != "b" || of != "charge" {
			t.Error(name, of, ok)
		}
		list := b.take(2)
		if len(list) != 2 || string(list[0].Input) != "a" || string(list[1].Input) != "b" || list[0].Lease == list[1].Lease {
			t.Fatalf("%+v", list)
		}
		if _, _, ok := b.Waits(store.RunKey{Namespace: 3, ID: "b"}); ok {
			t.Error("an attempt that a worker has waits for one")
		}
		if s := b.States(3)[0]; s.Waiting != 1 || s.Leased != 2 || len(s.Workers) != 1 || s.Workers[0] != "w" {
			t.Errorf("%+v", s)
		}
		last := b.take(9)
		for i, want := range []error{nil, nil, handler.ErrLost} {
			lease := append(list, last...)[i].Lease
			if err := b.HandIn(t.Context(), handler.WorkerQueue{Namespace: 4, Handler: "charge"}, lease, run.StepOutcome{}); !errors.Is(err, handler.ErrLost) {
				t.Errorf("a worker of another namespace hands in: %v", err)
			}
			if err := b.HandIn(t.Context(), charge, lease, run.StepOutcome{Data: []byte("done")}); !errors.Is(err, want) {
				t.Errorf("%d: %v, want %v", i, err, want)
			}
			if err := b.HandIn(t.Context(), charge, lease, run.StepOutcome{}); !errors.Is(err, handler.ErrLost) {
				t.Errorf("handed in twice: %v", err)
			}
		}
		b.is(first, "result", "done")
		b.is(second, "result", "done")
		b.is(third, "result", "done")
		b.empty()
	})
}

// TestLeaseEnds has workers disappear: other workers get the attempt, until it has failed.
func TestLeaseEnds(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		p, next := b.begin("a", false, false), b.begin("b", false, false)
		var leases []string
		for i := 1; i <= 5; i++ {
			x := b.take(1)
			if len(x) != 1 || string(x[0].Input) != "a" || x[0].Delivery != i {
				t.Fatalf("%+v", x)
			}
			leases = append(leases, x[0].Lease)
			b.pass(9 * time.Second)
			b.is(p, "none", "")
			if len(b.leased()) != 1 {
				t.Error("a lease ends too early")
			}
			b.pass(time.Second)
		}
		b.is(p, abi.KindError, `5 workers took the attempt and were not heard of until their leases ended; the last one was the worker "w"`)
		for _, l := range leases {
			if _, _, err := b.Extend(charge, l, time.Second); !errors.Is(err, handler.ErrLost) {
				t.Error(err)
			}
		}
		b.take(1)
		next.cancel()
		b.is(next, "abandoned", "")
		b.empty()
	})
}

func (b *bench) leased() (workers []string) {
	for _, s := range b.States(3) {
		workers = append(workers, s.Workers...)
	}
	return workers
}

// TestHeartbeats keeps an attempt leased until its timeout, and no longer.
func TestHeartbeats(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		p := b.begin("a", false, false)
		x := b.take(1)[0]
		for i := range 11 {
			b.pass(5 * time.Second)
			until, _, err := b.Extend(charge, x.Lease, 10*time.Second)
			if err != nil || until.After(x.Deadline) || i < 9 && !until.Equal(time.Now().Add(10*time.Second)) {
				t.Fatal(i, until, err)
			}
		}
		b.is(p, "none", "")
		b.pass(5 * time.Second)
		b.is(p, abi.KindTimeout, "")
		b.empty()
	})
}

// TestAtMostOnce loses workers before and after they have begun.
func TestAtMostOnce(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		p := b.begin("a", true, false)
		x := b.take(1)[0]
		if err := b.HandIn(t.Context(), charge, x.Lease, run.StepOutcome{}); !errors.Is(err, handler.ErrNotBegun) {
			t.Error(err)
		}
		b.pass(10 * time.Second)
		x = b.take(1)[0]
		if _, _, err := b.Extend(charge, x.Lease, 10*time.Second); err != nil || x.Delivery != 2 {
			t.Error(err, x.Delivery)
		}
		b.pass(10 * time.Second)
		b.is(p, abi.KindUnknown, "nobody knows its outcome")
		if len(b.take(1)) != 0 {
			t.Error("an attempt that was begun is offered again")
		}
		b.empty()
	})
}

// TestCancel cancels attempts before they begin, and while they are in progress.
func TestCancel(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		tell := func(p *performed) { p.told = true; p.cancel(); synctest.Wait() }
		p := b.begin("waits", false, false)
		tell(p)
		b.is(p, abi.KindError, "cancelled before it began")
		p = b.begin("goes on", false, false)
		x := b.take(1)[0]
		tell(p)
		b.is(p, "none", "")
		if _, cancelled, err := b.Extend(charge, x.Lease, time.Second); !cancelled || err != nil {
			t.Error(cancelled, err)
		}
		if err := b.HandIn(t.Context(), charge, x.Lease, run.StepOutcome{Data: []byte("undone")}); err != nil {
			t.Error(err)
		}
		b.is(p, "result", "undone")
		p = b.begin("lost", false, false)
		b.take(1)
		tell(p)
		b.pass(10 * time.Second)
		b.is(p, abi.KindError, "was not heard of")
		p = b.begin("once", true, false)
		x = b.take(1)[0]
		tell(p)
		b.is(p, abi.KindError, "cancelled before it began")
		p = b.begin("released", false, false)
		x = b.take(1)[0]
		tell(p)
		if err := b.Release(charge, x.Lease); err != nil {
			t.Error(err)
		}
		b.is(p, abi.KindError, "cancelled before it began")
		b.empty()
	})
}

// TestWait has workers wait for attempts: each attempt wakes one.
func TestWait(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		got := make(chan string, 9)
		ask := func(ctx context.Context, wait time.Duration) {
			go func() {
				list, err := b.Take(ctx, charge, handler.TakeRequest{Max: 1, Wait: wait, Lease: time.Second})
				switch {
				case err != nil:
					got <- err.Error()
				case len(list) == 0:
					got <- "nothing"
				default:
					got <- string(list[0].Input)
				}
			}()
			synctest.Wait()
		}
		gone, leave := context.WithCancel(t.Context())
		ask(gone, time.Minute)
		ask(t.Context(), time.Minute)
		ask(t.Context(), 2*time.Second)
		leave()
		synctest.Wait()
		p := b.begin("a", false, false)
		b.pass(1900 * time.Millisecond) // the lease ends, and the waiting worker gets the attempt
		b.pass(time.Second)
		for _, want := range []string{"nothing", "a", "a"} {
			if x := <-got; x != want {
				t.Errorf("got %q, want %q", x, want)
			}
		}
		p.cancel()
		synctest.Wait()
		ask(t.Context(), time.Minute)
		b.SetDraining(true)
		if x := <-got; x != handler.ErrDraining.Error() {
			t.Error(x)
		}
		b.SetDraining(false)
		b.empty()
	})
}

// TestDrain gives up waiting attempts, and lets workers finish theirs.
func TestDrain(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		done, lost, waits, once := b.begin("done", false, false), b.begin("lost", false, false), b.begin("waits", false, false),
			b.begin("once", true, false)
		list := b.take(2)
		b.SetDraining(true)
		b.is(waits, "abandoned", "")
		b.is(once, abi.KindError, "stopped before a worker began it")
		b.is(b.begin("late", false, false), "abandoned", "")
		if _, err := b.Take(t.Context(), charge, handler.TakeRequest{Max: 1}); !errors.Is(err, handler.ErrDraining) {
			t.Error(err)
		}
		if err := b.HandIn(t.Context(), charge, list[0].Lease, run.StepOutcome{Data: []byte("x")}); err != nil {
			t.Error(err)
		}
		b.is(done, "result", "x")
		b.pass(10 * time.Second)
		b.is(lost, "abandoned", "")
		b.SetDraining(false)
		closed := b.begin("closed", false, false)
		b.take(1)
		b.Close()
		b.is(closed, "abandoned", "")
		b.empty()
	})
}

// TestRelease gives back an attempt, which then does not count.
func TestRelease(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		p := b.begin("a", false, false)
		for range 10 {
			x := b.take(1)[0]
			if x.Delivery != 1 {
				t.Error(x.Delivery)
			}
			if err := b.Release(charge, x.Lease); err != nil || !errors.Is(b.Release(charge, x.Lease), handler.ErrLost) {
				t.Error(err)
			}
		}
		p.cancel()
		b.is(p, "abandoned", "")
		b.empty()
	})
}

// TestBatchBytes bounds the total of the inputs in a batch; the first one is always included.
func TestBatchBytes(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		for range 6 {
			b.begin(strings.Repeat("x", 1<<20), false, false)
		}
		if n, m := len(b.take(100)), len(b.take(100)); n != 4 || m != 2 {
			t.Error(n, m)
		}
		b.Close()
		synctest.Wait()
	})
}

// TestUnheard ends the wait for recording an outcome with its context.
func TestUnheard(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		go b.Perform(t.Context(), handler.Attempt{Run: store.RunKey{Namespace: 3}, Handler: "charge", Timeout: time.Minute}, nil, nil, func() {})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.HandIn(ctx, charge, b.take(1)[0].Lease, run.StepOutcome{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		b.empty()
	})
}

// A worker sees that the lease of an attempt ends no later than the attempt.
func TestLeaseBeyondDeadline(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		p := b.begin("a", false, false)
		list, err := b.Take(t.Context(), charge, handler.TakeRequest{Max: 1, Lease: time.Hour})
		if err != nil || len(list) != 1 || list[0].Until != list[0].Deadline {
			t.Errorf("%+v, %v", list, err)
		}
		b.pass(time.Minute)
		b.is(p, abi.KindTimeout, "")
		b.empty()
	})
}

// setClock is a clock that a test sets.
type setClock struct {
	clock.Clock
	by *time.Duration
}

func (c setClock) Now() time.Time { return c.Clock.Now().Round(0).Add(*c.by) } // without the monotonic clock

// Leases and attempts that began while the clock was a day ahead end after their full duration.
func TestLeaseWhileTheClockWasAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		by := 24 * time.Hour
		b := &bench{handler.NewBroker(setClock{clock.System(), &by}, func(p []byte) { _, _ = rand.Read(p) }), t}
		lost, heard := b.begin("a", false, false), b.begin("b", false, false)
		x := b.take(2)
		by = 0
		for range 12 {
			b.pass(5 * time.Second)
			if _, _, err := b.Extend(charge, x[1].Lease, 10*time.Second); err != nil {
				break
			}
		}
		b.pass(10 * time.Second)
		b.is(heard, abi.KindTimeout, "1m0s")
		if list := b.leased(); len(list) != 0 {
			t.Errorf("leased to %v", list)
		}
		if again := b.take(1); len(again) != 1 || again[0].Delivery != 2 {
			t.Errorf("%+v", again)
		}
		b.pass(time.Minute)
		b.is(lost, "none", "")
		lost.cancel()
		b.is(lost, "abandoned", "")
		b.empty()
	})
}

// Waiting attempts are cancelled in any order; the others stay.
func TestCancelWaiting(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		var all []*performed
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			all = append(all, b.begin(name, false, false))
		}
		for _, i := range []int{4, 2, 0} {
			all[i].cancel()
			b.is(all[i], "abandoned", "")
		}
		if list := b.take(9); len(list) != 2 || list[0].Attempt.Step != "b" || list[1].Attempt.Step != "d" {
			t.Errorf("%+v", list)
		}
		b.Close()
		b.is(all[1], "abandoned", "")
		b.is(all[3], "abandoned", "")
		b.empty()
	})
}
