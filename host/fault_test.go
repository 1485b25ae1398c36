package host_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// faultyStore answers some reads with errors.
type faultyStore struct {
	store.Store
	modules *atomic.Int64 // number of reads of modules and versions that fail
	corrupt *atomic.Bool  // journals cannot be read
}

func (s faultyStore) Modules() store.ModuleStore { return faultyModules{s.Store.Modules(), s.modules} }

func (s faultyStore) Run(ctx context.Context, run store.RunKey) (store.RunState, []store.Entry, error) {
	if s.corrupt.Load() {
		return store.RunState{}, nil, fmt.Errorf("%w: checksum of entry 3", store.ErrCorrupt)
	}
	return s.Store.Run(ctx, run)
}

type faultyModules struct {
	store.ModuleStore
	left *atomic.Int64
}

func (m faultyModules) Get(ctx context.Context, d store.Digest) ([]byte, error) {
	if m.left.Add(-1) >= 0 {
		return nil, errors.New("the disk did not answer")
	}
	return m.ModuleStore.Get(ctx, d)
}

func (m faultyModules) Version(ctx context.Context, ns store.NamespaceID, workflow string, n uint32) (store.Version, error) {
	if n != 0 && m.left.Add(-1) >= 0 { // 0 is asked by starts
		return store.Version{}, errors.New("the disk did not answer")
	}
	return m.ModuleStore.Version(ctx, ns, workflow, n)
}

func newFaulty(t *testing.T, opts ...hosttest.Option) (l *lab, modules *atomic.Int64, corrupt *atomic.Bool) {
	data := memstore.New()
	modules, corrupt = &atomic.Int64{}, &atomic.Bool{}
	open := func() store.Store { return faultyStore{data.Open(), modules, corrupt} }
	l = newLab(t, append(opts, hosttest.WithStore(open))...)
	return l, modules, corrupt
}

// TestHostFault repeats an activation that failed in the host after 1 s and after another 8 s. After the third
// failure in a row the run is stuck, but it never fails.
func TestHostFault(t *testing.T) {
	said := &heard{}
	l, modules, _ := newFaulty(t, hosttest.WithConfig(said.events))
	id := l.begin("until", 3_600_000)
	l.Settle()
	modules.Store(2)
	l.Reopen() // which forgets the compiled module
	l.Advance(time.Hour)
	r, err := l.Get(ctx, id)
	if err != nil || r.Status != host.Queued || !strings.Contains(r.Reason, "the disk did not answer") {
		t.Fatalf("%+v %v", r, err)
	}
	want(t, r.Wake.Sub(l.Clock.Now()), time.Second)
	l.Advance(time.Second)
	r, err = l.Get(ctx, id)
	want(t, r.Wake.Sub(l.Clock.Now()), 8*time.Second)
	l.Reopen() // which does not shorten the wait
	if again, _ := l.Get(ctx, id); err != nil || again.Wake != r.Wake {
		t.Fatalf("%+v %+v %v", again, r, err)
	}
	want(t, l.Finish(id).Status, host.Completed)

	modules.Store(3)
	l.Reopen()
	id = l.begin("until", 0)
	r = l.Finish(id)
	if r.Status != host.Stuck || !strings.Contains(r.Reason, "the host failed 3 times: ") {
		t.Fatalf("%+v", r)
	}
	if !said.has("stuck "+id+" stuck") || !said.has("fault "+id) {
		t.Error(said.lines)
	}
}

// TestGrantsUnreadable repeats an activation when the grants of its version cannot be read: no step is refused
// permanently.
func TestGrantsUnreadable(t *testing.T) {
	l, modules, _ := newFaulty(t)
	l.Finish(l.begin("until", 0)) // the module is compiled
	r, err := l.Start(ctx, "count", 1, host.WithStartIn(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	l.Settle()
	l.Reopen() // which forgets module and grants
	if err := l.Replay(ctx, r.ID); err != nil {
		t.Fatal(err)
	}
	modules.Store(2) // the module, then the grants
	l.Advance(time.Hour)
	for range 2 {
		got, err := l.Get(ctx, r.ID)
		if err != nil || got.Status != host.Queued || !strings.Contains(got.Reason, "the disk did not answer") {
			t.Fatalf("%+v %v", got, err)
		}
		l.Clock.Set(got.Wake)
		l.Settle()
	}
	want(t, l.Finish(r.ID).Status, host.Completed)
}

// TestUnreadable: a run with a damaged journal becomes stuck, and other runs continue.
func TestUnreadable(t *testing.T) {
	said := &heard{}
	l, _, corrupt := newFaulty(t, hosttest.WithConfig(said.events))
	id := l.begin("until", 60_000)
	other := l.begin("until", 120_000)
	l.Settle()
	corrupt.Store(true)
	l.Advance(time.Minute)
	corrupt.Store(false)
	r, err := l.Get(ctx, id)
	if err != nil || r.Status != host.Stuck || !strings.Contains(r.Reason, "checksum of entry 3") {
		t.Fatalf("%+v %v", r, err)
	}
	if !said.has("stuck " + id + " stuck") {
		t.Error(said.lines)
	}
	want(t, l.Finish(other).Status, host.Completed)
}
