package retention_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/retention"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

var ctx = context.Background()

const day = 24 * 3600 * 1000

// world is a store, with a writer that deletes at once.
type world struct {
	t       *testing.T
	writer  sync.Mutex
	s       *counting
	sweeper *retention.Sweeper
	owned   []store.PartitionID
	now     int64
	fails   map[string]error
	before  func(key store.RunKey) // a deletion
}

// counting counts the states that are read, and the runs that lists pass, whatever their status. The methods named in
// fails fail.
type counting struct {
	*memstore.Store
	states int
	passed int
	fails  map[string]error
}

func (c *counting) List(ctx context.Context, q store.Query) (store.Page, error) {
	page, err := c.Store.List(ctx, q)
	q.Statuses = nil
	q.Limit = store.MaxPage
	all, err2 := c.Store.List(ctx, q)
	for i := range all.Runs {
		if last := len(page.Runs) - 1; page.Next != nil && all.Runs[i].CreatedUnixMs > page.Runs[last].CreatedUnixMs {
			break
		}
		c.passed++
	}
	return page, errors.Join(err, err2)
}

func (c *counting) Retentions(ctx context.Context) ([]store.Retention, error) {
	if err := c.fails["Retentions"]; err != nil {
		return nil, err
	}
	return c.Store.Retentions(ctx)
}

func (c *counting) Counts(ctx context.Context, ns store.NamespaceID) ([]store.Count, error) {
	if err := c.fails["Counts"]; err != nil {
		return nil, err
	}
	return c.Store.Counts(ctx, ns)
}

func (c *counting) Ended(ctx context.Context, q store.EndedQuery) ([]store.Position, error) {
	if err := c.fails["Ended"]; err != nil {
		return nil, err
	}
	return c.Store.Ended(ctx, q)
}

func (c *counting) Run(ctx context.Context, key store.RunKey) (store.RunState, []store.Entry, error) {
	if err := c.fails["Run of "+key.ID]; err != nil {
		return store.RunState{}, nil, err
	}
	return c.Store.Run(ctx, key)
}

func (c *counting) State(ctx context.Context, key store.RunKey) (store.RunState, error) {
	if err := c.fails["State of "+key.ID]; err != nil {
		return store.RunState{}, err
	}
	c.states++
	return c.Store.State(ctx, key)
}

func newWorld(t *testing.T, byDefault store.Retention) *world {
	w := &world{t: t, s: &counting{Store: memstore.New().Open()}, now: 100 * day, fails: map[string]error{}}
	for p := range store.PartitionID(store.Partitions) {
		w.owned = append(w.owned, p)
	}
	w.again(byDefault)
	return w
}

// again makes another sweeper, as another host would.
func (w *world) again(byDefault store.Retention) {
	w.sweeper = retention.New(retention.Config{Store: w.s, Owned: func() []store.PartitionID { return w.owned }, Delete: w.delete,
		Default: byDefault})
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) commit(c store.RunCommit) {
	w.t.Helper()
	c.Run = c.State.Run
	p, err := w.s.Acquire(ctx, c.Run.Partition(), "test", 0)
	w.ok(err)
	w.ok(p.Commit(ctx, []store.RunCommit{c}))
}

// put creates a run. It ended the given number of days ago, or is live if its status is not final.
func (w *world) put(id, workflow string, status store.Status, days int64, opts ...func(*store.RunState)) store.RunState {
	w.t.Helper()
	st := store.RunState{Run: store.RunKey{ID: id}, Workflow: workflow, Version: 1, Status: status, WakeUnixMs: store.NoWake,
		CreatedUnixMs: w.now - days*day - 1}
	if status.Terminal() {
		st.EndedUnixMs = w.now - days*day
	}
	for _, o := range opts {
		o(&st)
	}
	w.commit(store.RunCommit{State: st, Create: true, Replace: true})
	return st
}

// delete does what the writer of a partition does.
func (w *world) delete(_ context.Context, key store.RunKey, which func(*store.RunState) bool) error {
	if w.before != nil {
		w.before(key)
	}
	if err := w.fails[key.ID]; err != nil {
		return err
	}
	w.writer.Lock()
	defer w.writer.Unlock()
	st, err := w.s.Store.State(ctx, key)
	switch {
	case err != nil:
		return err
	case !st.Deleted && !st.Status.Terminal() || !which(&st):
		return run.ErrLive
	}
	st.Deleted, st.UpdatedUnixMs = !st.Deleted, w.now
	w.commit(store.RunCommit{State: st, Delete: true})
	return nil
}

// sweep sweeps, and checks which runs are left.
func (w *world) sweep(want string) retention.Report {
	w.t.Helper()
	return w.left(want, false)
}

func (w *world) left(want string, dry bool) retention.Report {
	w.t.Helper()
	report, err := w.sweeper.Sweep(ctx, w.now, nil, dry)
	w.ok(err)
	var ids []string
	for st, err := range store.Runs(ctx, w.s, store.Query{}, 0) {
		w.ok(err)
		ids = append(ids, st.Run.ID)
	}
	slices.Sort(ids)
	if got := strings.Join(ids, " "); got != want {
		w.t.Fatalf("left are %q, want %q", got, want)
	}
	return report
}

func TestAgesByWorkflowAndStatus(t *testing.T) {
	w := newWorld(t, store.Retention{TerminatedMs: 5 * day})
	w.put("a1", "a", store.Completed, 10)
	w.put("a2", "a", store.Failed, 10)
	w.put("a3", "a", store.Sleeping, 10)
	w.put("b1", "b", store.Completed, 10)
	w.put("b2", "b", store.Terminated, 10)
	w.put("c1", "c", store.Cancelled, 10)
	w.sweep("a1 a2 a3 b1 c1") // b2 by the default
	w.ok(w.s.SetRetention(ctx, store.Retention{Workflow: "a", CompletedMs: 10 * day, FailedMs: 20 * day}))
	w.ok(w.s.SetRetention(ctx, store.Retention{CancelledMs: 11 * day}))
	if r := w.left("a1 a2 a3 b1 c1", true); r.Deleted != 1 || len(r.First) != 1 || r.First[0].Run.ID != "a1" {
		t.Errorf("%+v", r)
	}
	if r := w.sweep("a2 a3 b1 c1"); r.Deleted != 1 {
		t.Errorf("%+v", r)
	}
	w.now += day
	w.sweep("a2 a3 b1")
	w.now += 9*day - 1
	w.sweep("a2 a3 b1")
	w.now++
	w.sweep("a3 b1")
}

func TestKeepsTheNewest(t *testing.T) {
	w := newWorld(t, store.Retention{})
	for i := range int64(6) {
		w.put(fmt.Sprint("a", i), "a", store.Completed, 6-i)
		w.put(fmt.Sprint("b", i), "b", store.Failed, 6-i)
	}
	w.put("a9", "a", store.Running, 50) // it lives
	w.ok(w.s.SetRetention(ctx, store.Retention{Workflow: "a", Keep: 2, CompletedMs: 5 * day}))
	if r := w.left("a0 a1 a2 a3 a4 a5 a9 b0 b1 b2 b3 b4 b5", true); r.Deleted != 4 {
		t.Errorf("%+v", r)
	}
	if r := w.sweep("a4 a5 a9 b0 b1 b2 b3 b4 b5"); r.Deleted != 4 {
		t.Errorf("%+v", r)
	}
	w.ok(w.s.SetRetention(ctx, store.Retention{Keep: 3}))
	w.sweep("a4 a5 a9 b3 b4 b5")
	w.sweep("a4 a5 a9 b3 b4 b5")
}

// TestOthersPartitions does not touch runs in partitions that another host owns.
func TestOthersPartitions(t *testing.T) {
	w := newWorld(t, store.Retention{CompletedMs: day, FailedMs: 50 * day, Keep: 1})
	w.put("r1", "w", store.Completed, 9)
	w.put("r2", "w", store.Failed, 9)
	w.put("r3", "w", store.Failed, 8)
	all := w.owned
	w.owned = nil
	w.sweep("r1 r2 r3")
	w.owned = []store.PartitionID{store.RunKey{ID: "r2"}.Partition()}
	w.sweep("r1 r3")
	w.owned = all
	w.sweep("r3")
}

// child is the state of a child of "parent".
func child(st *store.RunState) { st.Parent = "parent" }

// parent makes a live run that waits for the first of two children.
func (w *world) parent(status store.Status) {
	j := &journal.Journal{}
	add := func(e store.Entry) {
		w.t.Helper()
		_, err := j.Append(e, w.now)
		w.ok(err)
	}
	add(journal.Started{Workflow: "p", RunID: "parent"}.Entry(nil))
	add(store.Entry{Kind: store.KindActivated})
	add(store.Entry{Kind: store.KindChild, Handle: 1, Name: "one", Target: "w"})
	add(store.Entry{Kind: store.KindChild, Handle: 2, Name: "two", Target: "w"})
	add(store.Entry{Kind: store.KindChildResult, Handle: 2, Data: []byte("1")})
	st := store.RunState{Run: store.RunKey{ID: "parent"}, Workflow: "p", Status: status, WakeUnixMs: store.NoWake,
		Length: store.Seq(j.Len()), EndedUnixMs: w.now}
	w.commit(store.RunCommit{State: st, Create: true, Replace: true, Append: j.All()})
}

// TestChildrenForWhichAParentWaits: they are kept until their parent no longer waits, and the rest of a deleted child
// stays as long as the parent exists.
func TestChildrenForWhichAParentWaits(t *testing.T) {
	w := newWorld(t, store.Retention{CompletedMs: day, FailedMs: 100 * day})
	w.parent(store.Waiting)
	w.put("parent.2", "w", store.Completed, 5, child)
	w.put("parent.3", "w", store.Completed, 5, child)
	if r := w.sweep("parent parent.2"); r.Held != 1 || r.Deleted != 1 {
		t.Errorf("%+v", r)
	}
	w.parent(store.Failed) // if it is retried, it asks for its children
	w.sweep("parent parent.2")
	w.now += day // it is looked at once a day
	w.sweep("parent")
	w.now += 40 * day
	if r := w.sweep("parent"); r.Forgotten != 0 {
		t.Errorf("%+v", r)
	}
	w.now += 60 * day
	forgotten := w.sweep("").Forgotten
	w.now += 30 * day
	forgotten += w.sweep("").Forgotten
	if forgotten != 3 { // the parent, too
		t.Errorf("%d are forgotten", forgotten)
	}
	for _, id := range []string{"parent", "parent.2", "parent.3"} {
		if _, err := w.s.State(ctx, store.RunKey{ID: id}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// TestWhoIsFaster does not delete a run that was retried or replaced after it was read.
func TestWhoIsFaster(t *testing.T) {
	w := newWorld(t, store.Retention{FailedMs: day})
	w.put("retried", "w", store.Failed, 5)
	w.put("replaced", "w", store.Failed, 5)
	w.put("deleted", "w", store.Failed, 5)
	w.before = func(key store.RunKey) {
		st, err := w.s.Store.State(ctx, key)
		w.ok(err)
		switch key.ID {
		case "retried":
			st.Status, st.EndedUnixMs = store.Running, 0
			w.commit(store.RunCommit{State: st})
		case "replaced":
			w.put("replaced", "w", store.Failed, 4, func(st *store.RunState) { st.Incarnation[0] = 1 })
		case "deleted":
			w.commit(store.RunCommit{State: st, Delete: true})
		}
	}
	if r := w.sweep("replaced retried"); r.Failed != 0 || r.Err != nil {
		t.Errorf("%+v", r)
	}
	w.before = nil
	w.again(store.Retention{FailedMs: day})
	w.sweep("retried")
}

// TestSweepGoesOn: a sweep continues after an error for one run, and the next one continues after an interruption.
// Runs that stay are not read again.
func TestSweepGoesOn(t *testing.T) {
	w := newWorld(t, store.Retention{CompletedMs: day})
	for i := range 600 {
		w.put(fmt.Sprintf("f%03d", i), "w", store.Failed, 5) // kept forever
	}
	w.put("bad", "w", store.Completed, 5)
	for i := range 9 {
		w.put(fmt.Sprint("r", i), "w", store.Completed, 5)
	}
	w.fails["bad"] = errors.New("cannot be deleted")
	report, err := w.sweeper.Sweep(ctx, w.now, nil, false)
	w.ok(err)
	if report.Failed != 1 || report.Err == nil || report.Deleted != 9 {
		t.Fatalf("%+v", report)
	}
	delete(w.fails, "bad")
	before := w.s.states
	report, err = w.sweeper.Sweep(ctx, w.now, nil, false)
	w.ok(err)
	if n := w.s.states - before; n != 0 || report.Deleted != 0 {
		t.Errorf("%d states were read again, %+v", n, report)
	}
	w.now += day
	report, err = w.sweeper.Sweep(ctx, w.now, nil, false)
	if err != nil || report.Deleted != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	cut, cancel := context.WithCancel(ctx)
	cancel()
	w.put("r1", "w", store.Completed, 5)
	w.again(store.Retention{CompletedMs: day})
	if _, err := w.sweeper.Sweep(cut, w.now, nil, false); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestClockSetBack deletes runs whose end is earlier than what was already swept.
func TestClockSetBack(t *testing.T) {
	w := newWorld(t, store.Retention{CompletedMs: day})
	w.put("a", "w", store.Completed, 1)
	w.sweep("")
	w.now -= 50 * day
	w.put("a", "w", store.Completed, 1)
	w.sweep("")
}

// TestSweepThatWaits cancels a sweep that waits for another one.
func TestSweepThatWaits(t *testing.T) {
	w := newWorld(t, store.Retention{CompletedMs: day})
	w.put("a", "w", store.Completed, 5)
	tried := 0
	w.before = func(store.RunKey) {
		short, cancel := context.WithCancel(ctx)
		cancel()
		_, err := w.sweeper.Sweep(short, w.now, nil, true)
		tried++
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a sweep that waits for another one: %v", err)
		}
	}
	if report, err := w.sweeper.Sweep(ctx, w.now, nil, false); err != nil || report.Deleted != 1 || tried != 1 {
		t.Errorf("%+v, %v, %d", report, err, tried)
	}
}

// TestRetentionsOfOthers: changing the retentions of one namespace does not restart the sweeps of others.
func TestRetentionsOfOthers(t *testing.T) {
	w := newWorld(t, store.Retention{CompletedMs: day})
	sweep := func() (states int) {
		before := w.s.states
		_, err := w.sweeper.Sweep(ctx, w.now, nil, false)
		w.ok(err)
		return w.s.states - before
	}
	for i := range 50 {
		w.put(fmt.Sprint("f", i), "w", store.Failed, 5) // kept forever
	}
	sweep()
	for i := range 5 {
		w.ok(w.s.SetRetention(ctx, store.Retention{Namespace: 1, Workflow: "w", FailedMs: int64(i+1) * day}))
		if n := sweep(); n != 0 {
			t.Errorf("%d states were read again", n)
		}
	}
	w.ok(w.s.SetRetention(ctx, store.Retention{Workflow: "x", FailedMs: day}))
	if n := sweep(); n < 50 {
		t.Errorf("what has stayed was not looked at again: %d states were read", n)
	}
}

// TestStoreThatFails ends a sweep with the store's error.
func TestStoreThatFails(t *testing.T) {
	w := newWorld(t, store.Retention{Keep: 1})
	w.put("a", "w", store.Completed, 1)
	w.put("b", "w", store.Completed, 2)
	for _, method := range []string{"Retentions", "Counts", "Ended"} {
		w.s.fails = map[string]error{method: errors.New(method + " cannot be read")}
		if _, err := w.sweeper.Sweep(ctx, w.now, nil, false); !errors.Is(err, w.s.fails[method]) {
			t.Errorf("%s: %v", method, err)
		}
	}
	w.s.fails = nil
	w.sweep("a")
}

// TestRunsThatCannotBeRead: a run that cannot be read stays, and so does a child whose parent cannot be read; others
// are deleted.
func TestRunsThatCannotBeRead(t *testing.T) {
	for _, what := range []string{"State of a", "State of parent", "Run of parent"} {
		w := newWorld(t, store.Retention{CompletedMs: day})
		w.parent(store.Running)
		w.put("a", "w", store.Completed, 5)
		w.put("b", "w", store.Completed, 5)
		w.put("c", "w", store.Completed, 5, child)
		stays := map[bool]string{true: "a", false: "c"}[what == "State of a"]
		w.s.fails = map[string]error{what: errors.New(what + " cannot be read")}
		report, err := w.sweeper.Sweep(ctx, w.now, nil, false)
		if err != nil || report.Failed != 1 || !errors.Is(report.Err, w.s.fails[what]) {
			t.Errorf("%s: %+v, %v", what, report, err)
		}
		w.s.fails = nil
		for id, deleted := range map[string]bool{stays: false, "b": true} {
			if st, err := w.s.State(ctx, store.RunKey{ID: id}); err != nil || st.Deleted != deleted {
				t.Errorf("%s: %s is deleted: %t, %v", what, id, st.Deleted, err)
			}
		}
	}
}
