package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

var ctx = context.Background()

// fakeHost starts runs in memory.
type fakeHost struct {
	t  *testing.T
	k  *Keeper
	s  *failingStore
	mu sync.Mutex
	// guarded by mu
	now    int64
	live   map[string]bool
	runs   map[string]Found
	starts []string
	ends   []string // runs that were asked to end
	armed  []int64
	errs   []error
	refuse error         // of starts
	never  error         // of Startable
	broken error         // of the other calls
	stuck  error         // of cancels and terminations
	slow   chan struct{} // starts send to it when they begin, and block until they receive again
	parts  map[store.PartitionID]store.Partition
	failed error
}

// failingStore fails to commit.
type failingStore struct {
	store.Store
	err error
}

func (s *failingStore) Commit(ctx context.Context, groups []store.Group) error {
	if s.err != nil {
		return s.err
	}
	return s.Store.Commit(ctx, groups)
}

func newFake(t *testing.T) *fakeHost {
	h := &fakeHost{t: t, live: map[string]bool{}, runs: map[string]Found{}, parts: map[store.PartitionID]store.Partition{},
		s: &failingStore{Store: memstore.New().Open()}}
	h.k = New(Config{Store: h.s, Logger: slog.New(slog.DiscardHandler), Now: func() int64 {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.now
	}})
	for p := range store.PartitionID(store.Partitions) {
		part, err := h.s.Acquire(ctx, p, "test", 0)
		h.ok(err)
		h.parts[p] = part
	}
	t.Cleanup(h.k.Close)
	return h
}

func (h *fakeHost) ok(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *fakeHost) StartRun(ctx context.Context, _ store.RunKey, _ *Definition, run string, in Instant) (bool, error) {
	gone := false // a start goes on without its caller
	if h.slow != nil {
		h.slow <- struct{}{}
		select {
		case h.slow <- struct{}{}:
		case <-ctx.Done():
			gone = true
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refuse != nil {
		return false, h.refuse
	}
	h.starts = append(h.starts, fmt.Sprint(in.AtMs/hour, in.Kind))
	h.live[run], h.runs[run] = true, Found{AtMs: in.AtMs, CreatedMs: h.now}
	if gone {
		return false, context.Cause(ctx)
	}
	return true, nil
}

func (h *fakeHost) Startable(context.Context, store.RunKey, *Definition) error { return h.never }

func (h *fakeHost) Find(_ context.Context, _ store.RunKey, run string) (*Found, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f, ok := h.runs[run]
	if !ok {
		return nil, h.broken
	}
	f.Live = h.live[run]
	return &f, h.broken
}

func (h *fakeHost) Live(_ context.Context, run store.RunKey) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.live[run.ID], h.broken
}

func (h *fakeHost) CancelRun(_ context.Context, run store.RunKey) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stuck != nil {
		return h.stuck
	}
	h.ends = append(h.ends, run.ID)
	h.live[run.ID] = false
	return h.broken
}

func (h *fakeHost) TerminateRun(ctx context.Context, run store.RunKey) error {
	return h.CancelRun(ctx, run)
}

func (h *fakeHost) Owned(p store.PartitionID) store.Partition {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.parts[p]
}

func (h *fakeHost) Arm(_ store.RunKey, wakeMs int64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.errs = append(h.errs, err)
	} else {
		h.armed = append(h.armed, wakeMs)
	}
}

func (h *fakeHost) StoreFailed(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = err
}

// due has the keeper process the schedule at an instant, and waits for that.
func (h *fakeHost) due(at int64) {
	h.mu.Lock()
	h.now = at
	h.mu.Unlock()
	done := make(chan struct{})
	h.k.Due(nightly, func() { close(done) })
	<-done
}

// took returns what was started since the last call, and the deadline of the timer.
func (h *fakeHost) took() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() { h.starts, h.errs = nil, nil }()
	wake := int64(-9)
	if len(h.armed) > 0 {
		wake = h.armed[len(h.armed)-1]
	}
	return fmt.Sprintf("%v, wake %d, errors %d", h.starts, wake, len(h.errs))
}

func (h *fakeHost) want(want string) {
	h.t.Helper()
	if got := h.took(); got != want {
		h.t.Errorf("%s, want %s", got, want)
	}
}

var nightly = store.RunKey{ID: "nightly"}

// TestKeeper creates, fires, changes and deletes a schedule.
func TestKeeper(t *testing.T) {
	h := newFake(t)
	created := make(chan error)
	go func() { // waits for Begin
		_, err := h.k.Create(ctx, nightly, Definition{Workflow: "w", When: "@every 1h"}, "", false)
		created <- err
	}()
	h.k.Begin(h)
	h.ok(<-created)
	h.want(fmt.Sprintf("[], wake %d, errors 0", hour))
	if _, err := h.k.Create(ctx, nightly, Definition{Workflow: "w", When: "@daily"}, "", false); !errors.Is(err, store.ErrExists) {
		t.Error(err)
	}
	h.due(hour / 2) // too early
	h.want(fmt.Sprintf("[], wake %d, errors 0", hour))
	h.due(hour)
	h.want(fmt.Sprintf("[1], wake %d, errors 0", 2*hour))
	h.due(2 * hour) // skipped
	h.want(fmt.Sprintf("[], wake %d, errors 0", 3*hour))
	x, err := h.k.Get(ctx, nightly)
	h.ok(err)
	run := x.Running[0]
	h.live[run] = false
	for range 2 { // the second one says nothing new
		h.ok(h.k.Changed(ctx, nightly, run))
	}
	h.ok(h.k.Changed(ctx, store.RunKey{ID: "gone"}, run))
	x, err = h.k.Get(ctx, nightly)
	if err != nil || len(x.Running) != 0 || x.Skipped != 1 {
		t.Errorf("%+v %v", x, err)
	}
	_, err = h.k.Update(ctx, nightly, 0, func(d *Definition) error {
		d.When, d.Overlap = "@every 2h", BufferOne
		return nil
	})
	h.ok(err)
	h.want(fmt.Sprintf("[], wake %d, errors 0", 4*hour))
	_, err = h.k.Update(ctx, nightly, 0, func(*Definition) error { return errNotOwned })
	if !errors.Is(err, errNotOwned) {
		t.Error(err)
	}
	_, err = h.k.Update(ctx, nightly, 0, func(d *Definition) error {
		d.UntilMs = 1
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "never due after") {
		t.Error(err)
	}
	list, err := h.k.List(ctx, 0, "", 10)
	h.ok(err)
	if len(list) != 1 || list[0].Key != nightly || list[0].When != "@every 2h" {
		t.Errorf("%+v", list)
	}
	h.ok(h.k.Delete(ctx, nightly))
	h.want("[], wake -1, errors 0")
	h.due(8 * hour)
	h.want("[], wake -1, errors 0")
	if err := h.k.Delete(ctx, nightly); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}

// TestKeeperFaults has starts, the store, and partitions fail: nothing is lost.
func TestKeeperFaults(t *testing.T) {
	h := newFake(t)
	h.k.Begin(h)
	_, err := h.k.Create(ctx, nightly, Definition{Workflow: "w", When: "@every 1h", Overlap: AllowAll}, "", false)
	h.ok(err)
	fail := errors.New("nobody knows")
	for _, set := range []func(error){func(err error) { h.refuse = err }, func(err error) { h.s.err = err }, func(err error) { h.s.err = err }} {
		set(fail)
		h.due(hour)
		if len(h.errs) != 1 || !errors.Is(h.errs[0], fail) {
			t.Errorf("%v", h.errs)
		}
		h.errs = nil
		set(nil)
		if x, err := h.k.Get(ctx, nightly); err != nil || x.Started != 0 {
			t.Errorf("%+v %v", x, err)
		}
	}
	h.want("[1], wake 3600000, errors 0") // if the commit after a start fails, the next attempt finds the run
	h.s.err = &store.RefusedError{Run: -1, Err: fmt.Errorf("%w: %w", store.ErrUnknown, store.ErrFailed)}
	h.due(hour)
	if h.failed == nil {
		t.Error("nobody says that the store has failed")
	}
	h.s.err = nil
	h.took()
	h.due(hour) // the run is there
	h.want(fmt.Sprintf("[], wake %d, errors 0", 2*hour))
	if x, err := h.k.Get(ctx, nightly); err != nil || x.Started != 1 || len(x.Running) != 1 {
		t.Errorf("%+v %v", x, err)
	}
	h.refuse = fmt.Errorf("%w: no such workflow", ErrNever)
	h.due(2 * hour)
	h.refuse = fmt.Errorf("%w: full", ErrLater)
	h.due(3 * hour)
	h.want(fmt.Sprintf("[], wake %d, errors 0", 3*hour+1000))
	h.refuse = nil
	x, err := h.k.Get(ctx, nightly)
	h.ok(err)
	if x.Lost != 1 || x.Error != "refused for now: full" {
		t.Errorf("%+v", x)
	}
	h.broken = fail
	h.due(4 * hour)
	if len(h.errs) != 1 {
		t.Errorf("%v", h.errs)
	}
	h.broken = nil
	part := h.parts[nightly.Partition()]
	delete(h.parts, nightly.Partition())
	if err := h.k.Delete(ctx, nightly); !errors.Is(err, store.ErrFenced) {
		t.Error(err)
	}
	if _, err := h.k.Pause(ctx, nightly, ""); !errors.Is(err, store.ErrFenced) {
		t.Error(err)
	}
	h.parts[nightly.Partition()] = part
	// A record that cannot be read.
	rec, err := h.s.Schedule(ctx, nightly)
	h.ok(err)
	rec.Revision, rec.Data = rec.Revision+1, []byte("?")
	h.ok(h.s.Commit(ctx, []store.Group{{Partition: part, Schedules: []store.ScheduleSet{{Schedule: rec}}}}))
	if err := h.k.Changed(ctx, nightly, "r"); err == nil {
		t.Error("a record that cannot be read is read")
	}
	if _, err := h.k.List(ctx, 0, "", 10); err == nil || !strings.Contains(err.Error(), `"nightly"`) {
		t.Error(err)
	}
}

// TestManyStarts starts more runs than are started before a commit.
func TestManyStarts(t *testing.T) {
	h := newFake(t)
	h.k.Begin(h)
	_, err := h.k.Create(ctx, nightly, Definition{Workflow: "w", When: "@every 1h", Overlap: AllowAll, CatchUpMs: 1000 * hour}, "", false)
	h.ok(err)
	h.due(100 * hour)
	if n := len(h.starts); n != maxStarts || h.armed[len(h.armed)-1] > 100*hour {
		t.Errorf("%d starts, wakes at %d", n, h.armed[len(h.armed)-1])
	}
	for range 3 {
		h.due(100 * hour)
	}
	if n := len(h.starts); n != 100 || h.armed[len(h.armed)-1] != 101*hour {
		t.Errorf("%d starts", n)
	}
}

// TestCalls triggers, fills, pauses and resumes.
func TestCalls(t *testing.T) {
	h := newFake(t)
	h.k.Begin(h)
	_, err := h.k.Create(ctx, nightly, Definition{Workflow: "w", When: "@every 1h"}, "", false)
	h.ok(err)
	h.due(5*hour + 1)
	h.took()
	refused := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %q", err, what)
		}
	}
	_, err = h.k.Trigger(ctx, nightly, "")
	refused("starts no run: run nightly~", err)
	_, err = h.k.Trigger(ctx, nightly, "x")
	refused("must be one of", err)
	run, err := h.k.Trigger(ctx, nightly, CancelOther) // the other one has ended by then
	h.ok(err)
	if run != "" {
		t.Errorf("%q is started before the other one has ended", run)
	}
	run, err = h.k.Trigger(ctx, nightly, TerminateOther)
	h.ok(err)
	if h.live[run] != true {
		t.Errorf("%q does not live: %v", run, h.live)
	}
	h.refuse = ErrLater
	_, err = h.k.Trigger(ctx, nightly, AllowAll)
	refused("refused for now", err)
	h.refuse = nil
	_, err = h.k.Pause(ctx, nightly, strings.Repeat("x", MaxNoteBytes+1))
	refused("the limit is 1024", err)
	_, err = h.k.Resume(ctx, nightly, strings.Repeat("x", MaxNoteBytes+1))
	refused("the limit is 1024", err)
	_, err = h.k.Pause(ctx, nightly, "why")
	h.ok(err)
	h.now = 9*hour + 1
	_, err = h.k.Resume(ctx, nightly, "")
	h.ok(err)
	_, err = h.k.Backfill(ctx, nightly, 2, 1, false)
	refused("that has passed", err)
	h.took()
	for i := range MaxBackfills {
		_, err = h.k.Backfill(ctx, nightly, int64(i)*hour-1, int64(i)*hour, false)
		h.ok(err)
	}
	_, err = h.k.Backfill(ctx, nightly, 0, hour, false)
	refused("already", err)
	h.live = map[string]bool{}
	for range 20 {
		h.live = map[string]bool{}
		h.due(9*hour + 2)
	}
	if want := "[0backfill 2backfill 3backfill"; !strings.HasPrefix(fmt.Sprint(h.starts), want) || // 1 has a run
		len(h.starts) != MaxBackfills-1 || !slices.Contains(h.starts, "9backfill") {
		t.Errorf("%v, want %s…", h.starts, want)
	}
	h.live = map[string]bool{}
	_, err = h.k.Backfill(ctx, nightly, -1, 3*hour, true)
	h.ok(err)
}

// TestClosed refuses calls after Close, and before Begin.
func TestClosed(t *testing.T) {
	h := newFake(t)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := h.k.Create(gone, nightly, Definition{Workflow: "w", When: "@daily"}, "", false); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	done := make(chan struct{}, 2)
	h.k.Due(nightly, func() { done <- struct{}{} }) // waits for Begin
	h.k.Close()
	h.k.Due(nightly, func() { done <- struct{}{} })
	<-done
	<-done
	for _, err := range []error{h.k.Changed(ctx, nightly, "r"), h.k.Delete(ctx, nightly)} {
		if !errors.Is(err, store.ErrClosed) {
			t.Error(err)
		}
	}
	if _, err := h.k.Pause(ctx, nightly, ""); !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
}
