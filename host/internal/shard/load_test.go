package shard

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

var errDisk = errors.New("a sector cannot be read")

// If a run that is due cannot be read, its wake is kept, and the run is read again after a second.
func TestLoadFailureKeepsTheWake(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.sleeper(a, time.Hour)
	w.unread[a] = errDisk
	w.later(time.Hour)
	if len(w.reported(ReportUnreadable)) != 1 {
		t.Fatalf("reports %v", w.reports)
	}
	w.later(time.Second)
	if len(w.reported(ReportUnreadable)) != 2 {
		t.Fatalf("reports %v", w.reports)
	}
	delete(w.unread, a)
	w.later(time.Second)
	w.complete(w.ready(a))
	w.pump()
	if st := w.state(a); st.Status != store.Completed {
		t.Errorf("the run is %s", st.Status)
	}
}

// Callers of a run that cannot be read get an error, and so do later ones.
func TestLoadFailureIsTold(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.sleeper(a, time.Hour)
	w.unread[a] = errDisk
	r1, r2 := w.deliver(a, run.Signal{Name: "x"}), w.deliver(a, run.Pause{})
	w.pump()
	w.want(r1, errDisk)
	w.want(r2, errDisk)
	delete(w.unread, a)
	r3 := w.deliver(a, run.Signal{Name: "x"})
	w.pump()
	w.want(r3, nil)
}

// If the stuck status of a corrupt run cannot be written, callers get an error.
func TestCorruptRunCannotBeWritten(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.sleeper(a, time.Hour)
	w.unread[a] = store.ErrCorrupt
	w.deliver(a, run.Signal{Name: "x"})
	w.serveLoads()
	batch := w.begin()
	r := w.deliver(a, run.Signal{Name: "x"})
	w.end(batch, &store.RefusedError{Group: 0, Run: 0, Err: store.ErrConflict})
	w.want(r, ErrLost)
	w.pump()
}

// A run written by a newer release is not touched, and its wake is not retried over and over.
func TestNewerRunIsNotTouched(t *testing.T) {
	w := newWorld(t, limits, 1)
	a, b := keyIn(1, 0), keyIn(1, 1)
	w.sleeper(a, 10*time.Second)
	w.sleeper(b, time.Hour)
	before := w.data.Commits()
	w.unread[a], w.unread[b] = store.ErrVersion, store.ErrVersion
	w.forget(a)
	w.later(time.Minute)
	r := w.deliver(b, run.Signal{Name: "x"})
	w.pump()
	w.want(r, store.ErrVersion)
	w.later(2 * time.Hour)
	if n := len(w.reported(ReportUnreadable)); n != 2 {
		t.Errorf("runs are read %d times", n)
	}
	if n := w.data.Commits() - before; n != 0 {
		t.Errorf("%d commits", n)
	}
}

// A closing host does not report runs that it can no longer read.
func TestClosedStoreIsNotNoted(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.sleeper(a, time.Hour)
	w.unread[a] = store.ErrClosed
	r := w.deliver(a, run.Signal{Name: "x"})
	w.pump()
	w.want(r, store.ErrClosed)
	if len(w.reported(ReportUnreadable)) != 0 {
		t.Errorf("reports %v", w.reports)
	}
}

// Lose answers every caller exactly once: callers that wait for a run to be read, for a commit, or for a guest to
// yield.
func TestLoseAnswersEverybodyOnce(t *testing.T) {
	w := newWorld(t, limits, 1)
	a, b, c, d := keyIn(1, 0), keyIn(1, 1), keyIn(1, 2), keyIn(1, 3)
	w.waiter(a)
	w.sleeper(b, time.Hour)
	w.start(c)
	w.pump()
	lc := w.ready(c)
	var rs []*reply
	rs = append(rs, w.deliver(a, run.Signal{Name: "x"}))
	batch := w.begin()
	rs = append(rs, w.deliver(a, run.Signal{Name: "y"}), w.deliver(b, run.Signal{Name: "x"}), w.deliver(c, run.Pause{}))
	n := newRun(a)
	n.Conflict = run.ConflictTerminate
	rs = append(rs, w.deliver(a, run.Start{New: n}), w.start(d))
	p := w.s.Partition(1)
	w.s.Lose(p, errDisk)
	for _, r := range rs {
		w.want(r, ErrLost)
		w.want(r, errDisk)
	}
	w.s.Lose(p, errDisk) // it is lost already
	w.end(batch, nil)
	w.serveLoads()
	if w.halts[lc] == nil || len(w.reported(ReportLost)) != 1 {
		t.Errorf("halts %v, reports %v", w.halts, w.reports)
	}
	w.guest(lc, run.GuestWaits{Lease: lc}) // it has not noticed yet
	if got := w.orders[lc]; got[len(got)-1] != run.OrderSuspend {
		t.Errorf("orders %v", got)
	}
	w.inside(a, run.Evict{Lease: lc})
	w.want(w.deliver(a, run.Pause{}), ErrNotOwned)
	w.s.Deliver(w.now, a, run.Due{}, nil)
	if w.s.Running(a) {
		t.Error("a run that is not here runs")
	}
	if s := w.s.Stats(w.now); s.Runs != 0 || s.Timers != 0 || s.Queued != 0 {
		t.Errorf("stats %+v", s)
	}
}

// Attempts of a lost partition are dropped, and attempts that were about to start do not start.
func TestLoseDropsAttempts(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.start(a)
	w.pump()
	l := w.ready(a)
	w.call(l, stepCall(1))
	w.waits(l, 1)
	w.pump()
	w.s.Lose(w.s.Partition(1), errDisk)
	if len(w.drops) != 1 || w.halts[l] == nil {
		t.Errorf("%d attempts are dropped", len(w.drops))
	}
	w.inside(a, run.AttemptEnds{Attempt: w.starts[0]})
}

// A partition is lost between the refusal of another run and the commit of the rest.
func TestLoseBetweenRefusalAndCommit(t *testing.T) {
	w := newWorld(t, limits, 1, 2)
	a, b, c := keyIn(1, 0), keyIn(1, 1), keyIn(2, 0)
	for _, k := range []store.RunKey{a, b, c} {
		w.waiter(k)
	}
	w.deliver(a, run.Signal{Name: "x"})
	rb, rc := w.deliver(b, run.Signal{Name: "x"}), w.deliver(c, run.Signal{Name: "x"})
	w.end(w.begin(), &store.RefusedError{Group: 0, Run: 0, Err: store.ErrConflict})
	w.s.Lose(w.s.Partition(1), errDisk)
	w.want(rb, errDisk)
	w.pump()
	w.want(rc, nil)
	if n := w.state(b).Length; n != 3 {
		t.Errorf("%d entries of a lost run", n)
	}
}

func TestPartitions(t *testing.T) {
	w := newWorld(t, limits, 2, 1)
	if got := w.s.Partitions(); len(got) != 2 || got[0].ID != 1 || w.s.Partition(3) != nil {
		t.Errorf("partitions %v", got)
	}
	old := w.s.Partition(1)
	w.acquire(1)
	w.s.DueRead(w.now, old, nil, false, Never, nil) // results for the previous ownership are ignored
	w.s.InboxRead(w.now, old, nil, nil)
	freed := false
	w.s.Carried(w.now, old, keyIn(1, 0), nil, func() { freed = true }, nil)
	if !freed {
		t.Error("the version of a child that is not started is held")
	}
	w.s.Kicked(9)
	if _, err := w.store.State(context.Background(), keyIn(1, 0)); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}

// A wake comes near while the run is being read for a caller, and the read fails: the wake is not lost.
func TestWakeThatComesWhileARunIsRead(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.sleeper(a, time.Hour)
	w.now += time.Hour.Milliseconds()
	r := w.deliver(a, run.Signal{Name: "x"})
	w.s.Tick(w.now)
	w.serveDues()
	w.unread[a] = errDisk
	w.serveLoads()
	w.want(r, errDisk)
	delete(w.unread, a)
	w.later(2 * time.Second)
	if got := w.lastLease(a); got == nil || !w.s.Running(a) {
		t.Error("the run does not wake")
	}
}

// A run whose journal cannot be read becomes stuck, with the reason in its status. Its journal stays unchanged.
func TestCorruptRunIsStuck(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.sleeper(a, time.Hour)
	w.unread[a] = store.ErrCorrupt
	r1 := w.deliver(a, run.Signal{Name: "x"})
	w.serveLoads()
	w.want(r1, store.ErrCorrupt)
	batch := w.begin()
	r2 := w.deliver(a, run.Signal{Name: "x"}) // while the stuck status is in flight
	w.end(batch, nil)
	w.pump()
	w.want(r2, store.ErrCorrupt)
	st := w.state(a)
	if st.Status != store.Stuck || st.Reason == "" || st.Length != 3 || st.WakeUnixMs != store.NoWake {
		t.Errorf("state %+v", st)
	}
	w.later(2 * time.Hour)
	if n := len(w.reported(ReportUnreadable)); n != 2 {
		t.Errorf("it is read %d times", n)
	}
}

// Only its wake touches a corrupt run: it becomes stuck, and leaves memory.
func TestCorruptRunThatIsDue(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.sleeper(a, time.Hour)
	w.unread[a] = store.ErrCorrupt
	w.later(time.Hour)
	if st := w.state(a); st.Status != store.Stuck || len(w.s.Partition(1).residents) != 0 {
		t.Errorf("the run is %s, %d runs are in memory", st.Status, len(w.s.Partition(1).residents))
	}
}
