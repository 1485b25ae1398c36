package postgres_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/postgres"
	"github.com/wfhost/wfhost/store/postgres/pgtest"
)

// TestDatabaseKilled kills all processes of the server again and again while a run grows, and starts it again. Whatever was
// acknowledged is there; a commit that was not is there or not, and the owner goes on from what it reads.
func TestDatabaseKilled(t *testing.T) {
	server := pgtest.New(t, pgtest.Durable...)
	name := server.Database(t)
	var told atomic.Int32
	s, err := postgres.Open(ctx, server.URL(name), postgres.Options{Shared: true, Away: func(error) { told.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	run := store.RunKey{ID: "r"}
	p := acquire(t, s, run.Partition())
	if err := p.Commit(ctx, grow(run, 0, 1, true)); err != nil {
		t.Fatal(err)
	}
	length := store.Seq(1)
	for round := range 5 {
		killed := make(chan struct{})
		go func() {
			defer close(killed)
			server.Kill()
		}()
		for {
			err := p.Commit(ctx, grow(run, length, 1, false))
			if err == nil {
				length++
				continue
			}
			if !errors.Is(err, store.ErrUnknown) && !errors.Is(err, store.ErrUnavailable) {
				t.Fatalf("round %d: %v", round, err)
			}
			break
		}
		<-killed
		if _, _, err := s.Run(ctx, run); !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("round %d: a read of a server that is down: %v", round, err)
		}
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		p = acquire(t, s, run.Partition())
		st, list, err := s.Run(ctx, run)
		if err != nil || st.Length < length || st.Length > length+1 || int(st.Length) != len(list) {
			t.Fatalf("round %d: length %d, %d entries, %v; %d were acknowledged", round, st.Length, len(list), err, length)
		}
		length = st.Length
	}
	if told.Load() == 0 {
		t.Error("nobody was told that the database could not be reached")
	}
	t.Log(length, "entries")
}
