package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/postgres/pgtest"
)

// TestFenceWithAnOldSnapshot has the transactions of a role see what was there when they began. An owner that was fenced while it
// waited must not commit.
func TestFenceWithAnOldSnapshot(t *testing.T) {
	url := pgtest.Fresh(t)
	s := open(t, url)
	run := store.RunKey{ID: "r"}
	p := acquire(t, s, run.Partition())
	name := url[strings.LastIndex(url, "/")+1 : strings.Index(url, "?")]
	sql(t, url, "alter database "+name+" set default_transaction_isolation = 'repeatable read'",
		"select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database()")
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "select wfhost.acquire($1, gen_random_uuid(), 'other', false, null)", int16(run.Partition())); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		var err error
		for range 20 { // connections that have ended are noticed first
			if err = p.Commit(ctx, grow(run, 0, 1, true)); !errors.Is(err, store.ErrUnknown) {
				break
			}
		}
		done <- err
	}()
	for waiting, early := 0, false; waiting == 0 && !early; {
		if err := tx.QueryRow(ctx, "select count(*) from pg_locks where locktype = 'advisory' and not granted").Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-done:
			done <- err
			early = true
		default:
		}
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Fatal("an owner that was fenced has committed")
	}
}
