package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/pebblestore"
)

// mutated is a store that returns another journal for one run.
type mutated struct {
	store.Store
	journal *atomic.Pointer[[]store.Entry]
}

// Run implements store.Store.
func (m mutated) Run(ctx context.Context, key store.RunKey) (store.RunState, []store.Entry, error) {
	st, entries, err := m.Store.Run(ctx, key)
	if other := m.journal.Load(); other != nil {
		entries = *other
	}
	return st, entries, err
}

// mutating makes an in-memory host read the given journal.
func mutating(journal *atomic.Pointer[[]store.Entry]) hosttest.Option {
	return func(h *hosttest.Host) {
		hosttest.WithStore(func() store.Store { return mutated{h.Data.Open(), journal} })(h)
	}
}

// mutations change one field of an entry, and return false if the field is not set. A text keeps its length.
var mutations = map[string]func(e *store.Entry) bool{
	"kind": func(e *store.Entry) bool {
		if e.Kind == store.KindSleep {
			e.Kind = store.KindSignalWait
		} else {
			e.Kind = store.KindSleep
		}
		return true
	},
	"handle":   func(e *store.Entry) bool { e.Handle++; return e.Handle > 1 },
	"consumed": func(e *store.Entry) bool { e.Consumed++; return e.Consumed > 1 },
	"name":     func(e *store.Entry) bool { return change(&e.Name) },
	"target":   func(e *store.Entry) bool { return change(&e.Target) },
	"input":    func(e *store.Entry) bool { return changeBytes(&e.Input) },
	"options":  func(e *store.Entry) bool { return changeBytes(&e.Options) },
	"refused":  func(e *store.Entry) bool { e.Refused++; return e.Refused > 1 },
	"code":     func(e *store.Entry) bool { e.Code++; return e.Code > 1 },
	"due":      func(e *store.Entry) bool { e.DueUnixMs += 1000; return e.HasDue },
	"skipped":  func(e *store.Entry) bool { e.Skipped = !e.Skipped; return !e.Skipped },
	"ref":      func(e *store.Entry) bool { e.Ref++; return e.Ref > 1 },
	"data":     func(e *store.Entry) bool { return changeBytes(&e.Data) },
	"attempt":  func(e *store.Entry) bool { e.Attempt++; return e.Attempt > 1 },
	"start":    func(e *store.Entry) bool { e.StartUnixMs++; return e.StartUnixMs > 1 },
	"end 1":    func(e *store.Entry) bool { return otherEnd(e, 1) },
	"end 2":    func(e *store.Entry) bool { return otherEnd(e, 2) },
	"end 3":    func(e *store.Entry) bool { return otherEnd(e, 3) },
}

// otherEnd changes the kind of an end to another one.
func otherEnd(e *store.Entry, by store.Kind) bool {
	if e.Kind < store.KindCompleted || e.Kind > store.KindTerminated {
		return false
	}
	e.Kind = store.KindCompleted + (e.Kind-store.KindCompleted+by)%4
	return true
}

func change(s *string) bool {
	b := []byte(*s)
	ok := changeBytes(&b)
	*s = string(b)
	return ok
}

func changeBytes(b *[]byte) bool {
	if len(*b) == 0 {
		return false
	}
	*b = slices.Clone(*b)
	(*b)[len(*b)/2] ^= 1
	return true
}

// notTheWorkflows lists the fields that were decided outside of the workflow: other values could have occurred,
// unless the workflow's later calls depend on them.
var notTheWorkflows = map[string]string{
	"started name":              "by whoever started the run",
	"started options":           "by whoever started the run",
	"started input":             "by whoever started the run; a workflow may not look at it",
	"signal_accepted name":      "by whoever sent it",
	"signal_accepted target":    "by whoever sent it: its idempotency key",
	"signal_accepted data":      "by whoever sent it",
	"attempt_started code":      "by the host: whether the attempt before was lost",
	"attempt_failed data":       "by the handler",
	"attempt_failed due":        "by the host: when it tries again",
	"attempt_failed start":      "by the host's clock",
	"attempt_failed attempt":    "by the host: the first ones may leave no entry",
	"attempt_started attempt":   "by the host: the first ones may leave no entry",
	"step_result data":          "by the handler",
	"step_result attempt":       "by the host: earlier ones may leave no entry",
	"step_result start":         "by the host's clock",
	"step_failure data":         "by the handler",
	"step_failure attempt":      "by the host: earlier ones may leave no entry",
	"step_failure start":        "by the host's clock",
	"child_result data":         "by the child",
	"child_failure data":        "by the child",
	"failed data, its details":  "by the engine: the stack of a trap, in its words",
	"version data, its refusal": "by the host: the text of a refusal whose code is compared",
	"moved target":              "by the host that made the move",
}

// mutator mutates the journals of stores and counts the changes that the replay did not detect.
type mutator struct {
	t      *testing.T
	silent map[string]int
	kinds  map[store.Kind]int // mutations of entries of the kind
	all    int
}

// changes replays a run once per field of each of its entries, with that field changed.
func (m *mutator) changes(h *host.Host, s store.Store, journal *atomic.Pointer[[]store.Entry], id string) {
	m.t.Helper()
	if err := h.Replay(ctx, id); err != nil {
		m.t.Errorf("run %s: %v", id, err)
		return
	}
	_, entries, err := s.Run(ctx, store.RunKey{ID: id})
	do(m.t, err)
	void := voided(m.t, entries)
	defer journal.Store(nil)
	for i := range entries {
		for field, mutate := range mutations {
			other := slices.Clone(entries)
			if void[store.Seq(i)] || !mutate(&other[i]) {
				continue
			}
			journal.Store(&other)
			m.all++
			m.kinds[entries[i].Kind]++
			if err := h.Replay(ctx, id); err == nil {
				m.silent[what(&entries[i], field)]++
			} else if errors.Is(err, context.Canceled) {
				m.t.Fatal(err)
			}
		}
	}
}

// what names a mutation of an entry.
func what(e *store.Entry, field string) string {
	name := fmt.Sprint(e.Kind, " ", field)
	if i := bytes.Index(e.Data, []byte(`,"details":`)); field == "data" && e.Kind == store.KindFailed && i > 0 && i < len(e.Data)/2 {
		return name + ", its details"
	}
	if field == "data" && e.Refused != 0 {
		return name + ", its refusal"
	}
	return name
}

// TestMutatedJournals changes one field of one entry in the journals of stores with runs of all kinds, and replays
// them. The replay must detect every change of a workflow's decision: its calls and its end.
func TestMutatedJournals(t *testing.T) {
	text, err := os.ReadFile(goldenPath(store.FormatVersion))
	do(t, err)
	dir := filepath.Join(t.TempDir(), "store")
	load(t, text, dir)
	s, err := pebblestore.Open(dir, pebblestore.Options{NoSync: true})
	do(t, err)
	m := &mutator{t: t, silent: map[string]int{}, kinds: map[store.Kind]int{}}
	journal := &atomic.Pointer[[]store.Entry]{}
	h := hosttest.New(t, hosttest.WithStore(func() store.Store { return mutated{s, journal} }))
	m.store(h.Host, s, journal)
	m.lab()
	for _, w := range slices.Sorted(maps.Keys(m.silent)) {
		if notTheWorkflows[w] == "" {
			t.Errorf("%s was changed without a word, %d times", w, m.silent[w])
		}
	}
	const atLeast = 1000 // mutations; fewer mean that the stores have changed
	if t.Logf("%d mutations", m.all); m.all < atLeast {
		t.Errorf("%d mutations, want %d", m.all, atLeast)
	}
	for k := range store.Kind(127) {
		if k.Known() && (k.Call() || k.Delivery()) && m.kinds[k] == 0 {
			t.Errorf("no entry of the kind %s was changed", k)
		}
	}
}

// store mutates the journals of all runs of the default namespace.
func (m *mutator) store(h *host.Host, s store.Store, journal *atomic.Pointer[[]store.Entry]) {
	m.t.Helper()
	for r, err := range h.Runs(ctx, host.Query{}) {
		do(m.t, err)
		m.changes(h, s, journal, r.ID)
	}
}

// voided returns the entries that a retry has voided. Replays do not depend on them.
func voided(t *testing.T, entries []store.Entry) map[store.Seq]bool {
	t.Helper()
	void := map[store.Seq]bool{}
	for _, e := range entries {
		if e.Kind != store.KindRetried {
			continue
		}
		var o struct{ Void []store.Seq }
		do(t, json.Unmarshal(e.Options, &o))
		for _, seq := range o.Void {
			void[seq] = true
		}
	}
	return void
}

// lab runs workflows that make each call and receive each delivery, and mutates their journals.
func (m *mutator) lab() {
	journal := &atomic.Pointer[[]store.Entry]{}
	p := newUpdates(m.t, mutating(journal))
	to := p.begin("receive", 3)
	p.signal(to, "go", "a", host.WithIdempotencyKey("once"))
	p.begin("sender", to)
	p.begin("sender", "nobody")
	p.begin("patient", 60)
	p.signal(p.begin("selects", 0), "go", "x")
	give := p.begin("withdraws", 0)
	asked := p.begin("approval", "the-token")
	p.begin("approval", "the-token") // which is taken
	p.begin("hooked", "")
	p.begin("beside", 3)
	p.begin("parent", childPlan{Child: "child", Sleep: 5, OnEnd: "cancel"})
	p.begin("parent", childPlan{Child: "child", Sleep: 13, OnEnd: "cancel"})
	p.begin("parent", childPlan{Child: "child", Sleep: 5, ID: to, OnEnd: "cancel"})
	p.begin("output", 3)
	p.begin("markers", 0)
	cooperative, stubborn := p.begin("cooperative", 0), p.begin("stubborn", 0)
	p.begin("saga", true)
	p.begin("futures", 0)
	p.fails = 3
	again := p.begin("retryable", 0)
	p.begin("attributes", 0)
	p.begin("typed", 5)
	p.begin("counter", 2)
	p.begin("overfull", 1<<20)
	cart := p.begin("cart", nil)
	want(m.t, p.update(cart, "add", item{"pen", 3}, host.WithUpdateID("first")), "3")
	if _, err := p.Update(ctx, cart, "fail", "x"); err == nil {
		m.t.Error("the update did not fail")
	}
	p.signal(cart, "done", "patiently")
	p.begin("panics", nil)
	p.Advance(time.Minute)
	for _, id := range []string{cooperative, stubborn} {
		_, err := p.Cancel(ctx, id)
		do(m.t, err)
	}
	do(m.t, p.Terminate(ctx, p.begin("receive", 1)))
	p.signal(give, "go", "late")
	p.Advance(time.Hour)
	do(m.t, p.Signal(ctx, asked, "decision", map[string]string{"By": "ada"}))
	do(m.t, p.Retry(ctx, again, 0))
	p.Advance(8 * 24 * time.Hour)
	m.store(p.Host.Host, p.Data.Open(), journal)
}

// TestMutatedResult changes the result of a run on disk.
func TestMutatedResult(t *testing.T) {
	journal := &atomic.Pointer[[]store.Entry]{}
	p := newPrims(t, mutating(journal))
	id := p.begin("patient", 1)
	want(t, result[string](p, id), "timeout")
	_, entries, err := p.Data.Open().Run(ctx, store.RunKey{ID: id})
	do(t, err)
	changed := slices.Clone(entries)
	changeBytes(&changed[len(changed)-1].Data)
	journal.Store(&changed)
	if err := p.Replay(ctx, id); !errors.Is(err, host.ErrMismatch) || !strings.Contains(err.Error(), "the journal has completed with 9 bytes") {
		t.Errorf("the result was changed: %v", err)
	}
}
