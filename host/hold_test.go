package host_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// slowStore has commits wait.
type slowStore struct {
	store.Store
	commits, goOn chan struct{} // nil: they do not wait
}

func (s *slowStore) Commit(ctx context.Context, groups []store.Group) error {
	if s.commits != nil {
		select {
		case s.commits <- struct{}{}:
		default: // one was waited for
		}
		<-s.goOn
	}
	return s.Store.Commit(ctx, groups)
}

// A version is not deleted while a run of it is being started, even if no caller waits for the start any more.
func TestVersionOfAbandonedStart(t *testing.T) {
	s := &slowStore{Store: memstore.New().Open()}
	h := hosttest.New(t, hosttest.WithStore(func() store.Store { return s }))
	v, err := h.Upload(ctx, "s01", hosttest.Build(t, "testdata/s01"))
	if err != nil {
		t.Fatal(err)
	}
	s.commits, s.goOn = make(chan struct{}, 1), make(chan struct{})
	gone, cancel := context.WithCancel(ctx)
	started := make(chan error)
	go func() {
		_, err := h.Start(gone, "s01", 1000, host.WithRunID("r"))
		started <- err
	}()
	<-s.commits
	cancel()
	if err := <-started; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	deleted := make(chan error)
	go func() { deleted <- h.Workflows().DeleteVersion(ctx, "s01", v.Number) }()
	for range 1000 { // time enough for it
		runtime.Gosched()
	}
	close(s.goOn)
	if err := <-deleted; !errors.Is(err, host.ErrConflict) {
		t.Errorf("the version of a run that is being started was deleted: %v", err)
	}
	h.Settle()
	if r, err := h.Get(ctx, "r"); r.Status != host.Sleeping || err != nil {
		t.Errorf("the run is %s, %v", r.Status, err)
	}
}
