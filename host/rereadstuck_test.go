package host_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// newerStore pretends that a newer release wrote the data: while newer is true, runs have rules that this release
// does not know.
type newerStore struct {
	store.Store
	newer *atomic.Bool
}

func (s newerStore) Run(ctx context.Context, run store.RunKey) (store.RunState, []store.Entry, error) {
	st, entries, err := s.Store.Run(ctx, run)
	if err == nil && s.newer.Load() && len(entries) > 0 {
		entries = slices.Clone(entries)
		entries[0].Options = []byte(strings.TrimSuffix(string(entries[0].Options), "}") + `,"rules":1000}`)
	}
	return st, entries, err
}

// TestRollback reads runs that a newer release has written: their status is unchanged, with the reason why they do
// not continue, and nothing is written to the store, also after a signal. The newer release continues them.
func TestRollback(t *testing.T) {
	data, newer := memstore.New(), &atomic.Bool{}
	said := &heard{}
	l := newLab(t, hosttest.WithConfig(said.events), hosttest.WithStore(func() store.Store { return newerStore{data.Open(), newer} }))
	id := l.begin("until", 60_000)
	l.Settle()
	before, err := l.Get(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	newer.Store(true)
	l.Reopen()
	l.Advance(time.Hour)
	_ = l.Signal(ctx, id, "go", 1)
	l.Settle()
	r, err := l.Get(ctx, id)
	if err != nil || r.Status != before.Status || !strings.Contains(r.Reason, "written by a newer version of wfhost") ||
		r.Entries != before.Entries || !r.Wake.Equal(before.Wake) {
		t.Errorf("%+v %v, before %+v", r, err, before)
	}
	if said.has("stuck " + id + " stuck") {
		t.Error(said.lines)
	}
	newer.Store(false)
	l.Reopen()
	want(t, l.Finish(id).Status, host.Completed)
}

// TestRollbackOfEarlierRelease opens runs that an earlier release made stuck because a newer release had written
// them. They continue by themselves. Runs that are stuck for another reason, or still cannot be read, stay stuck.
func TestRollbackOfEarlierRelease(t *testing.T) {
	data, newer := memstore.New(), &atomic.Bool{}
	l := newLab(t, hosttest.WithStore(func() store.Store { return newerStore{data.Open(), newer} }))
	id, damaged := l.begin("until", 60_000), l.begin("until", 90_000)
	l.Settle()
	l.Stop()
	s := data.Open()
	for run, reason := range map[string]string{id: `run "r": corrupt record: entry 0 (started): written by a newer version of wfhost: …`,
		damaged: "corrupt record: checksum of entry 3"} {
		key := store.RunKey{ID: run}
		st, err := s.State(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		p, err := s.Acquire(ctx, key.Partition(), "earlier", 0)
		if err != nil {
			t.Fatal(err)
		}
		st.Status, st.Reason, st.WakeUnixMs = store.Stuck, reason, store.NoWake
		if err := p.Commit(ctx, []store.RunCommit{{Run: key, Expect: st.Length, State: st}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	newer.Store(true)
	l.Reopen()
	l.Settle()
	want(t, statusIn(t, l, id), host.Stuck)
	newer.Store(false)
	l.Reopen()
	l.Settle()
	r, err := l.Get(ctx, id)
	if err != nil || r.Status != host.Sleeping || r.Reason != "" {
		t.Errorf("%+v %v", r, err)
	}
	want(t, statusIn(t, l, damaged), host.Stuck)
	want(t, l.Finish(id).Status, host.Completed)
	for e, err := range l.Journal(ctx, id, 0) {
		if err != nil || e.Kind == store.KindRetried {
			t.Error(e, err)
		}
	}
}

func statusIn(t *testing.T, l *lab, id string) host.Status {
	t.Helper()
	r, err := l.Get(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return r.Status
}
