package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/postgres"
	"github.com/wfhost/wfhost/store/postgres/pgtest"
)

// TestOpenAlone opens a store twice: only the first has it, until it is closed, or until it has shown no life for a while.
func TestOpenAlone(t *testing.T) {
	url := pgtest.Fresh(t)
	alone := func() (*postgres.Store, error) { return postgres.Open(ctx, url, postgres.Options{Unsafe: true}) }
	first, err := alone()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := alone(); !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), "process") {
		t.Fatalf("opened a second time: %v", err)
	}
	if _, err := postgres.Open(ctx, url, postgres.Options{Unsafe: true, Shared: true}); !errors.Is(err, store.ErrLocked) {
		t.Fatalf("opened by one of several: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := alone()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Close() }()
	sql(t, url, "update wfhost.holder set until = now() - interval '1 second', token = gen_random_uuid(), name = 'another'",
		"update wfhost.holder set until = now() + interval '1 hour'") // another process has found that the lease has ended
	<-second.Failed()
	if err := second.Failure(); !errors.Is(err, store.ErrFailed) || !strings.Contains(err.Error(), "another") {
		t.Fatal(err)
	}
	if _, err := second.State(ctx, store.RunKey{ID: "r"}); !errors.Is(err, store.ErrFailed) {
		t.Fatalf("a store that another process has opened: %v", err)
	}
}

// TestCloseDuringBeat closes a store while it prolongs its lease: the next process need not wait until the lease ends.
func TestCloseDuringBeat(t *testing.T) {
	url := pgtest.Fresh(t)
	s := openWith(t, url, postgres.Options{Unsafe: true})
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	tx, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	waiting := func(want int) {
		for n := 0; n < want; {
			if err := tx.QueryRow(ctx, "select count(*) from pg_locks where not granted").Scan(&n); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := tx.Exec(ctx, "select from wfhost.holder for update"); err != nil {
		t.Fatal(err)
	}
	waiting(1) // the beat
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	waiting(2) // the end of the lease, behind the beat whose connection is closed
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	openWith(t, url, postgres.Options{Unsafe: true})
}

// TestLeaseLost has another process have the store meanwhile, or none after the lease was taken away: the first one must end, since
// what it remembers of settings may be out of date.
func TestLeaseLost(t *testing.T) {
	alone := postgres.Options{Unsafe: true}
	for name, meanwhile := range map[string]func(url string){
		"opened and closed": func(url string) {
			sql(t, url, "update wfhost.holder set until = now() - interval '1 second'")
			if err := openWith(t, url, alone).Close(); err != nil {
				t.Fatal(err)
			}
		},
		"opened and killed": func(url string) {
			sql(t, url, "update wfhost.holder set token = gen_random_uuid(), until = now() - interval '1 second'")
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := pgtest.Fresh(t)
			s := openWith(t, url, alone)
			meanwhile(url)
			<-s.Failed()
			if err := s.Failure(); !errors.Is(err, store.ErrFailed) {
				t.Fatal(err)
			}
		})
	}
}

// TestLeaseOfAnotherClock opens a store whose lease lasts for a year: the clock of the server has gone back.
func TestLeaseOfAnotherClock(t *testing.T) {
	url := pgtest.Fresh(t)
	sql(t, url, "update wfhost.holder set token = gen_random_uuid(), until = now() + interval '1 year'")
	openWith(t, url, postgres.Options{Unsafe: true})
}

// TestLeaseOfABusyStore uses the only connection of the pool for longer than a lease lasts: nobody else may open the store.
func TestLeaseOfABusyStore(t *testing.T) {
	url := pgtest.Fresh(t)
	s := openWith(t, url+"&pool_max_conns=1", postgres.Options{Unsafe: true})
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	tx, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock_shared(7763001, 0)"); err != nil {
		t.Fatal(err)
	}
	acquired := make(chan error, 1)
	go func() {
		_, err := s.Acquire(ctx, 0, "test", 0)
		acquired <- err
	}()
	if _, err := tx.Exec(ctx, "select pg_sleep(5)"); err != nil {
		t.Fatal(err)
	}
	if other, err := postgres.Open(ctx, url, postgres.Options{Unsafe: true}); !errors.Is(err, store.ErrLocked) {
		if err == nil {
			_ = other.Close()
		}
		t.Fatalf("opened a store that is busy: %v", err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-acquired; err != nil {
		t.Fatal(err)
	}
}
