package limits

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

var workflowCtx = context.Background()

// fakeHost owns all partitions of a store in memory.
type fakeHost struct {
	t *testing.T
	k *WorkflowLimiter
	s *failingStore

	mu     sync.Mutex // guards what follows
	now    int64
	parts  map[store.PartitionID]store.Partition
	wakeMs int64
	errs   []error
	kicked []store.PartitionID
	failed error
}

// failingStore fails to commit or to read.
type failingStore struct {
	store.Store
	err, readErr error
	before       func() // a commit
}

func (s *failingStore) Commit(ctx context.Context, groups []store.Group) error {
	if s.err != nil {
		return s.err
	}
	if f := s.before; f != nil {
		s.before = nil
		f()
	}
	return s.Store.Commit(ctx, groups)
}

func (s *failingStore) LimitsOf(ctx context.Context, ns store.NamespaceID, workflow string) (store.Limits, error) {
	if s.readErr != nil {
		return store.Limits{}, s.readErr
	}
	return s.Store.LimitsOf(ctx, ns, workflow)
}

var queueKey = store.RunKey{ID: "print"}

func newFake(t *testing.T, rules string) *fakeHost {
	h := &fakeHost{t: t, now: 1000, wakeMs: store.NoWake, parts: map[store.PartitionID]store.Partition{},
		s: &failingStore{Store: memstore.New().Open()}}
	h.k = NewWorkflowLimiter(WorkflowLimiterConfig{Store: h.s, Logger: slog.New(slog.DiscardHandler), Now: func() int64 { return h.now }})
	h.acquire()
	h.k.Begin(h)
	h.ok(h.k.Set(workflowCtx, store.Limits{Workflow: "print", Data: []byte(rules)}, store.Incarnation{9}))
	t.Cleanup(h.k.Close)
	return h
}

func (h *fakeHost) acquire() {
	for p := range store.PartitionID(store.Partitions) {
		part, err := h.s.Acquire(workflowCtx, p, "test", 0)
		h.ok(err)
		h.parts[p] = part
	}
}

func (h *fakeHost) ok(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *fakeHost) is(err, want error) {
	h.t.Helper()
	if !errors.Is(err, want) {
		h.t.Fatalf("got %v, want %v", err, want)
	}
}

func (h *fakeHost) Owned(p store.PartitionID) store.Partition { return h.parts[p] }

func (h *fakeHost) Arm(_ store.RunKey, wakeMs int64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.errs = append(h.errs, err)
		return
	}
	h.wakeMs = wakeMs
}

func (h *fakeHost) Kick(p store.PartitionID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kicked = append(h.kicked, p)
}

func (h *fakeHost) StoreFailed(err error) { h.failed = err }

func gateIncarnation(run string) (i store.Incarnation) {
	copy(i[:], run)
	return i
}

// submit puts a command into an inbox.
func (h *fakeHost) submit(cmd store.Command) {
	h.t.Helper()
	h.ok(h.parts[0].Discard(workflowCtx, nil, []store.Command{cmd}))
}

// send puts a command of a run into the inbox of the queue.
func (h *fakeHost) send(id string, kind store.CommandKind) {
	h.t.Helper()
	j := &journal.Journal{}
	s := journal.Started{RunID: id, Workflow: "print", Limit: &journal.Limit{Keys: map[string]string{"input": id[:1]}}}
	_, err := j.Append(s.Entry(nil), 1)
	h.ok(err)
	by := run.Sender{Run: store.RunKey{ID: id}, Incarnation: gateIncarnation(id)}
	cmd := by.AskSlot(j)
	if kind == store.CommandSlotReturn {
		_, err = j.Append(store.Entry{Kind: store.KindCompleted}, 2)
		h.ok(err)
		cmd = by.Commands(j, &j.Entries()[1])[0]
	}
	if cmd.Kind != kind {
		h.t.Fatalf("%+v", cmd)
	}
	h.submit(cmd)
}

// take processes all commands in order, as the partition does.
func (h *fakeHost) take() error {
	p := h.parts[queueKey.Partition()]
	cmds, err := p.Commands(workflowCtx, 0, 1000)
	h.ok(err)
	for _, cmd := range cmds {
		if cmd.Kind == store.CommandSignal {
			continue
		}
		if err := h.k.Process(workflowCtx, p, cmd); err != nil {
			return err
		}
	}
	return nil
}

// given checks which runs have a slot in their inbox, and removes these slots.
func (h *fakeHost) given(want ...string) {
	h.t.Helper()
	var got []string
	for _, p := range h.parts {
		cmds, err := p.Commands(workflowCtx, 0, 1000)
		h.ok(err)
		for _, cmd := range cmds {
			if cmd.Kind == store.CommandSlotGive {
				got = append(got, cmd.To.ID)
				if cmd.ToIncarnation != gateIncarnation(cmd.To.ID) {
					h.t.Errorf("%+v", cmd)
				}
				h.ok(p.Discard(workflowCtx, []store.CommandSeq{cmd.Seq}, nil))
			}
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		h.t.Errorf("slots for %v, want %v", got, want)
	}
}

func (h *fakeHost) left(want int) {
	h.t.Helper()
	cmds, err := h.parts[queueKey.Partition()].Commands(workflowCtx, 0, 1000)
	h.ok(err)
	n := 0
	for _, cmd := range cmds {
		if takes(cmd.Kind) {
			n++
		}
	}
	if n != want {
		h.t.Errorf("%d commands are left, want %d", n, want)
	}
}

// Commands are processed together in one commit, and slots are given as they are returned.
func TestTake(t *testing.T) {
	h := newFake(t, `[{"max":2}]`)
	for i := range 5 {
		h.send(fmt.Sprint("a", i), store.CommandSlotAsk)
	}
	h.submit(store.Command{ID: store.CommandID{Seq: 1}, Kind: store.CommandSignal, To: queueKey})
	h.ok(h.take())
	h.left(0)
	h.given("a0", "a1")
	if len(h.kicked) == 0 {
		t.Error("nobody is told that there are slots")
	}
	for _, run := range []string{"a0", "a3"} {
		h.send(run, store.CommandSlotReturn)
	}
	h.ok(h.take())
	h.given("a2")
	p, ok, err := h.k.Position(workflowCtx, &store.RunState{Run: store.RunKey{ID: "a4"}, Workflow: "print", Incarnation: gateIncarnation("a4")})
	if want := (QueuePosition{Position: 1, Same: 1, Waiting: 1, Rule: "2"}); err != nil || !ok || p != want {
		t.Errorf("%+v %v %v", p, ok, err)
	}
	h.acquire() // another host gets the partition, then this host again
	h.send("a1", store.CommandSlotReturn)
	h.ok(h.take())
	h.given("a4")
	n, err := h.k.Count(workflowCtx, 0, "print")
	if err != nil || n != (QueueStats{Waiting: 0, Held: 2}) {
		t.Errorf("%+v, %v", n, err)
	}
}

// All runs are admitted, even if they are more than one commit admits.
func TestMany(t *testing.T) {
	h := newFake(t, `[{"max":1}]`)
	var want []string
	for i := range maxGrants + 50 {
		run := fmt.Sprint("a", 1000+i)
		want = append(want, run)
		h.send(run, store.CommandSlotAsk)
	}
	h.ok(h.take())
	h.given(want[0])
	h.ok(h.k.Set(workflowCtx, store.Limits{Workflow: "print"}, store.Incarnation{8}))
	h.ok(h.take())
	h.given(want[1:]...)
}

// When the window of a rate has moved on, the timer admits the next run.
func TestDue(t *testing.T) {
	h := newFake(t, `[{"max":1,"window":5000,"per":"input"}]`)
	h.send("a0", store.CommandSlotAsk)
	h.send("a1", store.CommandSlotAsk)
	h.ok(h.take())
	h.given("a0")
	if h.wakeMs != 6000 {
		t.Errorf("it wakes at %d", h.wakeMs)
	}
	due := func() {
		done := make(chan struct{})
		h.k.Due(queueKey, func() { close(done) })
		<-done
	}
	h.now = 5999
	due()
	h.given()
	h.now = 6000
	h.s.err = store.ErrUnknown
	due()
	if len(h.errs) != 1 || !errors.Is(h.errs[0], store.ErrUnknown) {
		t.Error(h.errs)
	}
	h.s.err = nil
	due()
	h.given("a1")
	delete(h.parts, queueKey.Partition())
	due() // another host's
	h.k.Close()
	due()
}

// An operation that fails is retried, and has no effect until then.
func TestFailures(t *testing.T) {
	h := newFake(t, `[{"max":1}]`)
	h.ok(h.take())
	h.send("a0", store.CommandSlotAsk)
	for _, err := range []error{store.ErrUnknown, store.ErrFailed, &store.RefusedError{Run: -1, Err: store.ErrFenced}} {
		h.s.err = err
		if got := h.take(); !errors.Is(err, got) {
			t.Errorf("got %v, want %v", got, err)
		}
	}
	h.is(h.failed, store.ErrFailed)
	h.s.err, h.s.readErr = nil, store.ErrCorrupt
	h.is(h.take(), store.ErrCorrupt)
	h.is(h.k.Limit(workflowCtx, &run.NewRun{Workflow: "print"}), store.ErrCorrupt)
	_, _, err := h.k.Position(workflowCtx, &store.RunState{Workflow: "print"})
	h.is(err, store.ErrCorrupt)
	h.s.readErr = nil
	h.left(1)
	another := NewWorkflowLimiter(WorkflowLimiterConfig{Store: h.s, Logger: slog.New(slog.DiscardHandler), Now: func() int64 { return h.now }})
	another.Begin(h)
	defer another.Close()
	p := h.parts[queueKey.Partition()]
	h.s.before = func() { // between this one's reads and its commit
		cmds, err := p.Commands(workflowCtx, 0, 10)
		h.ok(err)
		h.ok(another.Process(workflowCtx, p, cmds[0]))
	}
	h.is(h.take(), store.ErrConflict)
	h.ok(h.take())
	h.given("a0")
	h.left(0)
	bad := store.Command{ID: store.CommandID{Seq: 77}, Kind: store.CommandSlotAsk, To: queueKey, Data: []byte("no JSON")}
	h.submit(bad)
	bad.ID.Seq, bad.Data = 78, []byte("{}") // of a run without keys
	h.submit(bad)
	h.ok(h.take())
	h.left(0)
	h.ok(h.s.Store.SetLimits(workflowCtx, store.Limits{Workflow: "print", Data: []byte("no JSON")}, run.Changed(queueKey, store.Incarnation{})))
	_, err = h.k.Rules(workflowCtx, 0, "print")
	h.is(err, store.ErrCorrupt)
}

func TestLimit(t *testing.T) {
	h := newFake(t, `[{"max":1,"per":"input.customer"}]`)
	n := &run.NewRun{Workflow: "print", Input: []byte(`{"customer":"a"}`), Priority: 4}
	h.ok(h.k.Limit(workflowCtx, n))
	if n.Limit == nil || n.Limit.Priority != 4 || n.Limit.Keys["input.customer"] != `"a"` {
		t.Errorf("%+v", n.Limit)
	}
	n.Workflow = "other"
	h.ok(h.k.Limit(workflowCtx, n))
	if n.Limit != nil {
		t.Errorf("%+v", n.Limit)
	}
}

// Callers of a keeper that has not begun wait.
func TestBegin(t *testing.T) {
	s := memstore.New().Open()
	k := NewWorkflowLimiter(WorkflowLimiterConfig{Store: s, Logger: slog.New(slog.DiscardHandler), Now: func() int64 { return 0 }})
	ended, cancel := context.WithCancel(workflowCtx)
	cancel()
	if err := k.Process(ended, nil, store.Command{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := k.Set(ended, store.Limits{}, store.Incarnation{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	done := make(chan struct{})
	k.Due(queueKey, func() { close(done) })
	k.Close()
	<-done
	if err := k.Process(workflowCtx, nil, store.Command{}); !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
}
