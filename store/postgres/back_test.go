package postgres_test

import (
	"errors"
	"testing"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/postgres"
	"github.com/wfhost/wfhost/store/postgres/pgtest"
)

// TestDatabaseRestored restores a backup under processes that have the store open. They know of a namespace, a run and a command
// that the database has lost, so they must not go on: the id of the namespace would be given to another one, and the next command
// would get a number that was read already.
func TestDatabaseRestored(t *testing.T) {
	server := pgtest.New(t, "restore_command=false")
	url := server.URL(server.Database(t))
	for _, shared := range []bool{false, true} {
		s := openWith(t, url, postgres.Options{Unsafe: true, Shared: shared})
		if err := server.Save(); err != nil {
			t.Fatal(err)
		}
		run := store.RunKey{ID: "r"}
		var p store.Partition
		for p == nil { // connections that have ended are noticed first
			p, _ = s.Acquire(ctx, run.Partition(), "test", 0)
		}
		if _, err := s.Namespace(ctx, "lost", true); err != nil {
			t.Fatal(err)
		}
		if err := p.Commit(ctx, grow(run, 0, 1, true)); err != nil {
			t.Fatal(err)
		}
		if err := server.Restore(); err != nil {
			t.Fatal(err)
		}
		for shared && s.Failure() == nil { // it has no lease, so it notices when it connects
			_, _ = s.Limits(ctx, 0)
		}
		<-s.Failed()
		_, named := s.Namespace(ctx, "lost", true)
		_, read := s.State(ctx, run)
		_, listed := p.Commands(ctx, 0, 1)
		for _, err := range []error{named, read, listed, p.Commit(ctx, grow(run, 1, 1, false))} {
			if !errors.Is(err, store.ErrFailed) {
				t.Fatalf("shared %v: a call after the database went back: %v", shared, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDatabaseLoaded loads a dump under a process that has the store open: the server has the timeline that it had.
func TestDatabaseLoaded(t *testing.T) {
	url := pgtest.Fresh(t)
	s := openWith(t, url, postgres.Options{Unsafe: true})
	sql(t, url, "update wfhost.holder set beats = 0")
	<-s.Failed()
	if err := s.Failure(); !errors.Is(err, store.ErrFailed) {
		t.Fatal(err)
	}
}
