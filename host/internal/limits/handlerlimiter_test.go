package limits

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

var (
	handlerCtx = context.Background()
	charge     = HandlerKey{Name: "charge"}
)

// house is a HandlerLimiter over a store whose commits can be delayed and refused.
type house struct {
	*HandlerLimiter
	store.LimitStore
	t     *testing.T
	clock *clock.Fake

	mu     sync.Mutex
	hold   chan struct{} // if not nil, each commit of attempts receives from it
	refuse error         // of the next commit of attempts
	deny   error         // of all commits but those of limits
	lines  []string      // of the log
	begun  []string
	again  []string // that must ask again
	waits  []string // that were told that they wait
	slots  map[string]handler.Slot
	gone   map[string]bool // withdrawn
}

func newHouse(t *testing.T, s store.LimitStore, c *clock.Fake) *house {
	x := &house{LimitStore: s, t: t, clock: c, slots: map[string]handler.Slot{}, gone: map[string]bool{}}
	x.HandlerLimiter = NewHandlerLimiter(HandlerLimiterConfig{Store: x, Clock: c, Logger: slog.New(slog.NewTextHandler(x, nil)), Failed: func(error) {}})
	t.Cleanup(x.Close)
	return x
}

// Write keeps a line of the log.
func (x *house) Write(line []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lines = append(x.lines, string(line))
	return len(line), nil
}

func (x *house) SetCells(ctx context.Context, s store.QueueSet) error {
	x.mu.Lock()
	hold := x.hold
	x.mu.Unlock()
	if attempts := string(s.Before.Key) == revisionCell; attempts && hold != nil {
		<-hold
	}
	x.mu.Lock()
	err := x.refuse
	x.refuse = nil
	if x.deny != nil && s.Queue.ID != QueuePrefix {
		err = x.deny
	}
	x.mu.Unlock()
	if err != nil {
		return err
	}
	return x.LimitStore.SetCells(ctx, s)
}

// rules reads rules: rates have a slash.
func rules(t *testing.T, texts ...string) (l Rules) {
	t.Helper()
	for _, text := range texts {
		parse := ParseConcurrency
		if strings.Contains(text, "/") {
			parse = ParseRate
		}
		r, err := parse(text)
		if err != nil {
			t.Fatal(err)
		}
		l = append(l, r)
	}
	return l
}

func (x *house) set(texts ...string) {
	x.t.Helper()
	if err := x.Set(handlerCtx, charge, rules(x.t, texts...)); err != nil {
		x.t.Fatal(err)
	}
	synctest.Wait()
}

// entrant is an attempt, identified by the name of its step.
type entrant struct {
	x    *house
	name string
}

// Admit records that the attempt has begun, or must ask again, unless it was withdrawn.
func (e entrant) Admit(s handler.Slot) {
	limited, _ := e.x.Limited(charge.Namespace, charge.Name)
	e.x.mu.Lock()
	gone := e.x.gone[e.name]
	switch {
	case gone:
	case s == nil && !limited:
		e.x.begun = append(e.x.begun, e.name)
		delete(e.x.slots, e.name)
	case s == nil:
		e.x.again = append(e.x.again, e.name)
		delete(e.x.slots, e.name)
	default:
		e.x.slots[e.name] = s
		e.x.begun = append(e.x.begun, e.name)
	}
	e.x.mu.Unlock()
	if gone && s != nil {
		s.Return()
	}
}

func (e entrant) Wakes() {}

// Queued notes that the attempt waits.
func (e entrant) Queued() {
	e.x.mu.Lock()
	defer e.x.mu.Unlock()
	e.x.waits = append(e.x.waits, e.name)
}

// enter makes an attempt of a run ask; its input has the key k.
func (x *house) enter(id, name, k string) run.Verdict {
	slot, v := x.Enter(run.Ask{Run: store.RunKey{ID: id}, Handler: charge.Name, Step: name, Input: fmt.Appendf(nil, `{"k":%q}`, k)},
		entrant{x, name})
	x.mu.Lock()
	if x.slots[name] == nil {
		x.slots[name] = slot
	}
	if v == run.Begins {
		x.begun = append(x.begun, name)
	}
	x.mu.Unlock()
	synctest.Wait()
	return v
}

// leave ends an attempt that has begun.
func (x *house) leave(name string) {
	if s := x.slots[name]; s != nil {
		s.Return()
	}
	synctest.Wait()
}

// withdraw withdraws an attempt, which may have begun.
func (x *house) withdraw(name string) {
	x.mu.Lock()
	x.gone[name] = true
	s := x.slots[name]
	x.mu.Unlock()
	if s != nil {
		s.Return()
	}
	synctest.Wait()
}

// want checks which attempts have begun since the last call. Attempts that began together are compared in any order.
func (x *house) want(names string) {
	x.t.Helper()
	synctest.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	slices.Sort(x.begun)
	if got := strings.Join(x.begun, " "); got != names {
		x.t.Errorf("%q have begun, want %q", got, names)
	}
	x.begun = nil
}

func (x *house) advance(d time.Duration) {
	x.clock.Advance(d)
	synctest.Wait()
}

func startClock() *clock.Fake { return clock.NewFake(time.Unix(1_000_000, 0)) }

// TestTurns: keys take turns, and so do the runs of a key, however many attempts each of them has.
func TestTurnstileTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newHouse(t, memstore.New().Open(), startClock())
		x.set("1", "1 per input.k")
		x.enter("r0", "first", "a")
		for _, e := range [][3]string{{"r1", "a1", "a"}, {"r1", "a2", "a"}, {"r1", "a3", "a"}, {"r2", "a4", "a"}, {"r3", "b1", "b"},
			{"r3", "b2", "b"}} {
			x.enter(e[0], e[1], e[2])
		}
		x.want("first")
		at := "first"
		for _, next := range []string{"a1", "b1", "a4", "b2", "a2", "a3"} {
			x.leave(at)
			x.want(next)
			at = next
		}
		x.leave(at)
		if held, waiting := x.Count(charge); held != 0 || waiting != 0 {
			t.Errorf("%d are held, %d wait", held, waiting)
		}
		if g := x.queues[charge]; len(g.lanes) != 0 || len(g.keyed) != 0 {
			t.Errorf("%d lanes and %d counters are left", len(g.lanes), len(g.keyed))
		}
	})
}

// Keys that are blocked by the same counter take turns, too.
func TestTurnsBehindAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newHouse(t, memstore.New().Open(), startClock())
		x.set("1 per input.same", "5 per input.k")
		x.enter("r", "first", "x")
		var want []string
		for i := range 3 {
			for n := range 9 {
				name := fmt.Sprint(i, n)
				x.enter("r"+name, name, fmt.Sprint("k", n))
				want = append(want, name)
			}
		}
		x.want("first")
		at := "first"
		for _, next := range want {
			x.leave(at)
			x.want(next)
			at = next
		}
	})
}

// TestAnotherHostIsQuicker has two hosts share a rate: the limit holds, and waiting attempts of either host begin
// when they may.
func TestAnotherHostIsQuicker(t *testing.T) {
	for _, rate := range []string{"2/1h", "2/1h per input.k"} {
		synctest.Test(t, func(t *testing.T) {
			s, c := memstore.New().Open(), startClock()
			one, two := newHouse(t, s, c), newHouse(t, s, c)
			one.set(rate)
			if err := two.Load(handlerCtx, 0); err != nil {
				t.Fatal(err)
			}
			one.hold = make(chan struct{}, 9)
			one.enter("r", "a", "k") // its commit is held up
			one.enter("r", "b", "k")
			one.enter("r", "c", "k")
			two.enter("s", "d", "k")
			two.want("d")
			close(one.hold)
			one.want("a")
			two.enter("s", "e", "k")
			two.want("")
			for _, n := range []int{2, 1} {
				one.advance(time.Hour)
				if got := len(one.begun) + len(two.begun); got != n {
					t.Errorf("%q: %d have begun, want %d", rate, got, n)
				}
				one.begun, two.begun = nil, nil
			}
		})
	}
}

// TestRefused refuses a commit: the attempts in it no longer count, and do not block others.
func TestRefused(t *testing.T) {
	for _, err := range []error{store.ErrConflict, errors.New("the disk is full")} {
		for _, rate := range []string{"1/1h", "1/1h per input.k"} {
			synctest.Test(t, func(t *testing.T) {
				x := newHouse(t, memstore.New().Open(), startClock())
				x.set(rate)
				x.hold = make(chan struct{}, 9)
				x.enter("r", "a", "k")
				x.enter("s", "b", "k")
				x.refuse = err
				x.hold <- struct{}{}
				x.hold <- struct{}{}
				synctest.Wait()
				x.advance(retryMs * time.Millisecond)
				x.want("a")
			})
		}
	}
}

// TestRefusedForLong keeps the disk full for a while: the log says so, but not each second.
func TestRefusedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newHouse(t, memstore.New().Open(), startClock())
		x.set("1/1h")
		x.deny = errors.New("the disk is full")
		x.enter("r", "a", "k")
		for range 100 {
			x.advance(retryMs * time.Millisecond)
		}
		x.want("")
		if all := strings.Join(x.lines, ""); len(x.lines) != 7 || !strings.Contains(x.lines[6], "times=64") || strings.Count(all, "the disk is full") != 7 {
			t.Errorf("the log is\n%s", all)
		}
		x.deny = nil
		x.advance(retryMs * time.Millisecond)
		x.want("a")
		if last := x.lines[len(x.lines)-1]; len(x.lines) != 8 || !strings.Contains(last, "begin again") || !strings.Contains(last, "times=101") {
			t.Errorf("the log ends with %s", last)
		}
	})
}

// TestNotPurged removes limits whose counters cannot be deleted: the limits are gone all the same.
func TestNotPurged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newHouse(t, memstore.New().Open(), startClock())
		x.set("1/1h")
		x.enter("r", "a", "k")
		x.enter("r", "b", "k")
		x.want("a")
		x.deny = errors.New("the disk is full")
		x.set()
		x.want("b")
		if list, err := x.All(handlerCtx, 0); err != nil || len(list) > 0 || len(x.lines) != 1 || !strings.Contains(x.lines[0], "the disk is full") {
			t.Errorf("%v, %v, the log is %q", list, err, x.lines)
		}
		x.deny = nil
		x.set("1/1h") // what was counted counts
		x.enter("r", "c", "k")
		x.want("")
	})
}

// TestDeletedWhileRefused removes the limits while a commit is being refused: the attempt begins.
func TestDeletedWhileRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newHouse(t, memstore.New().Open(), startClock())
		x.set("1/1h")
		x.hold = make(chan struct{}, 9)
		x.enter("r", "a", "k")
		x.enter("s", "b", "k")
		x.set()
		x.want("b")
		x.refuse = store.ErrConflict
		x.hold <- struct{}{}
		x.want("a")
		if _, waiting := x.Count(charge); waiting != 0 {
			t.Errorf("%d wait", waiting)
		}
		x.leave("a")
	})
}

// TestChangedWhileRefused changes the limits while a commit is being refused: the attempt waits under the new limits.
func TestChangedWhileRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newHouse(t, memstore.New().Open(), startClock())
		x.set("1/1h")
		x.hold = make(chan struct{}, 9)
		x.enter("r", "a", "k")
		x.enter("s", "b", "k")
		x.set("1")
		x.want("")
		x.refuse = store.ErrConflict
		x.hold <- struct{}{}
		x.want("a")
		x.leave("a")
		x.want("b")
		x.leave("b")
		x.want("")
	})
}

// If the clock is set back, attempts that began in its future count as begun now.
func TestClockIsSetBack(t *testing.T) {
	for _, rate := range []string{"1/1m", "1/1m per input.k"} {
		synctest.Test(t, func(t *testing.T) {
			x := newHouse(t, memstore.New().Open(), startClock())
			x.set(rate)
			x.enter("r", "a", "k")
			x.enter("r", "b", "k")
			x.want("a")
			x.clock.Step(-24 * time.Hour)
			synctest.Wait()
			x.advance(59 * time.Second)
			x.want("")
			x.advance(time.Second)
			x.want("b")
		})
	}
}

// TestWithdrawn withdraws attempts: one that waits, and one that is counted.
func TestWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newHouse(t, memstore.New().Open(), startClock())
		x.set("9/1h", "1")
		x.hold = make(chan struct{}, 9)
		if v := x.enter("r", "a", "k"); v != run.Soon {
			t.Errorf("verdict %d", v)
		}
		x.enter("s", "b", "k")
		x.enter("t", "c", "k")
		x.withdraw("a")
		x.withdraw("b")
		close(x.hold)
		x.want("c")
		x.leave("c")
		if held, waiting := x.Count(charge); held != 0 || waiting != 0 {
			t.Errorf("%d are held, %d wait", held, waiting)
		}
	})
}

// TestDrainingLimiter gives no slots while the host drains.
func TestDrainingLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newHouse(t, memstore.New().Open(), startClock())
		x.set("1")
		x.SetDraining(true)
		if v := x.enter("r", "a", "k"); v != run.Queues {
			t.Errorf("verdict %d", v)
		}
		x.want("")
		x.SetDraining(false)
		x.want("a")
	})
}

// TestOtherKeys changes the limits to keys that waiting attempts do not have: they ask again.
func TestOtherKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newHouse(t, memstore.New().Open(), startClock())
		x.set("1")
		x.enter("r", "a", "k")
		x.enter("s", "b", "k")
		x.enter("t", "c", "k")
		x.want("a")
		x.set("1 per input.k")
		x.want("")
		if slices.Sort(x.again); !slices.Equal(x.again, []string{"b", "c"}) {
			t.Errorf("%v ask again", x.again)
		}
		x.enter("s", "b", "k")
		x.enter("t", "c", "k")
		x.want("b") // the first one has no key
		x.leave("a")
		x.want("")
		x.set("2", "9 per input.k") // keys that are known
		x.want("c")
	})
}

// TestSweep begins attempts with ever new keys: the store keeps those within the window, and few others.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New().Open()
		x := newHouse(t, s, startClock())
		x.set("1/1m per input.k")
		const each = 100
		for i := range 20 {
			x.hold = make(chan struct{}, 9)
			for n := range each {
				name := fmt.Sprint(i, "-", n)
				x.enter("r"+name, name, name)
			}
			close(x.hold) // the first has a commit of its own; the others share one
			synctest.Wait()
			x.begun = nil
			x.advance(time.Minute)
		}
		cells, err := s.Cells(handlerCtx, store.CellQuery{Queue: x.queues[charge].queueKey(), Limit: 1 << 14})
		if err != nil {
			t.Fatal(err)
		}
		if len(cells) > 3*each {
			t.Errorf("%d cells are kept", len(cells))
		}
	})
}

// TestRaised raises a concurrency for more attempts than begin at a time: all of them begin, without waiting for
// others to end.
func TestRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newHouse(t, memstore.New().Open(), startClock())
		x.set("1")
		const n = 2*maxBatch + 10
		for i := range n {
			x.enter(fmt.Sprint("run", i), fmt.Sprint("a", i), "")
		}
		x.want("a0")
		x.set("1000")
		if len(x.begun) != n-1 {
			t.Errorf("%d of %d have begun", len(x.begun), n-1)
		}
	})
}

// TestRefusedWhileStopping has the commit of an attempt refused while the host drains: the attempt waits again.
func TestRefusedWhileStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, refused := range []error{store.ErrConflict, errors.New("no room")} {
			x := newHouse(t, memstore.New().Open(), startClock())
			x.set("1/1m")
			hold := make(chan struct{})
			x.hold = hold
			x.enter("run", "a", "")
			x.SetDraining(true)
			x.hold, x.refuse = nil, refused
			hold <- struct{}{}
			x.want("")
			if _, waiting := x.Count(charge); waiting != 1 {
				t.Errorf("%v: %d wait", refused, waiting)
			}
			x.SetDraining(false)
			x.advance(retryMs * time.Millisecond)
			x.want("a")
			x.Close()
		}
	})
}
