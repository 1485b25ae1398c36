package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/postgres"
	"github.com/wfhost/wfhost/store/postgres/pgtest"
)

var ctx = context.Background()

// sql runs statements in the database of a test.
func sql(t testing.TB, url string, statements ...string) {
	t.Helper()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	for _, s := range statements {
		if _, err := c.Exec(ctx, s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func acquire(t testing.TB, s store.Store, p store.PartitionID) store.Partition {
	t.Helper()
	owned, err := s.Acquire(ctx, p, "test", 0)
	if err != nil {
		t.Fatal(err)
	}
	return owned
}

// grow returns the commit that appends n entries to a run.
func grow(run store.RunKey, from store.Seq, n int, create bool) []store.RunCommit {
	c := store.RunCommit{Run: run, Create: create, Expect: from,
		State: store.RunState{Run: run, Workflow: "w", Version: 1, Status: store.Running, WakeUnixMs: store.NoWake}}
	for i := range n {
		c.Append = append(c.Append, store.Entry{Seq: from + store.Seq(i), Kind: store.KindSleep, Name: fmt.Sprint("s", int(from)+i)})
	}
	return []store.RunCommit{c}
}

// TestCommitAfterTheDatabaseWentBack has a database lose the last commit of a run, as the failover to an asynchronous standby does.
// The owner still believes in it. Its next commit must be refused, since it would leave a gap, and go through after it has read
// the run again.
func TestCommitAfterTheDatabaseWentBack(t *testing.T) {
	url := pgtest.Fresh(t)
	s := open(t, url)
	run := store.RunKey{ID: "r"}
	p := acquire(t, s, run.Partition())
	for i := range 3 {
		if err := p.Commit(ctx, grow(run, store.Seq(i), 1, i == 0)); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			sql(t, url, "create table wfhost.before as select * from wfhost.run")
		}
	}
	sql(t, url, "delete from wfhost.run", "insert into wfhost.run select * from wfhost.before")
	err := p.Commit(ctx, grow(run, 3, 1, false))
	var refused *store.RefusedError
	if !errors.As(err, &refused) || refused.Run != 0 || !errors.Is(err, store.ErrConflict) {
		t.Fatalf("a commit behind an entry that the database has lost: %v", err)
	}
	if st, list, err := s.Run(ctx, run); err != nil || st.Length != 2 || len(list) != 2 {
		t.Fatalf("length %d, %d entries, %v", st.Length, len(list), err)
	}
	if err := p.Commit(ctx, grow(run, 2, 2, false)); err != nil {
		t.Fatal(err)
	}
	if st, list, err := s.Run(ctx, run); err != nil || st.Length != 4 || len(list) != 4 {
		t.Fatalf("length %d, %d entries, %v", st.Length, len(list), err)
	}
}

// TestEpochGivenTwice has a database forget the newest owner of a partition, so that another one gets the same epoch. The token
// tells them apart.
func TestEpochGivenTwice(t *testing.T) {
	url := pgtest.Fresh(t)
	a, b := open(t, url), open(t, url)
	run := store.RunKey{ID: "r"}
	id := run.Partition()
	lost := acquire(t, a, id)
	sql(t, url, "update wfhost.partition set epoch = epoch - 1")
	now := acquire(t, b, id)
	defer func() { // and once more, by a process that has had a greater epoch
		sql(t, url, "update wfhost.partition set epoch = epoch - 1")
		if again := acquire(t, b, id); again.Epoch() > now.Epoch() || again.Renew(ctx) != nil {
			t.Fatalf("epoch %d after %d: %v", again.Epoch(), now.Epoch(), again.Renew(ctx))
		}
	}()
	if lost.Epoch() != now.Epoch() {
		t.Fatalf("epochs %d and %d, the test wants the same", lost.Epoch(), now.Epoch())
	}
	if err := lost.Commit(ctx, grow(run, 0, 1, true)); !errors.Is(err, store.ErrFenced) {
		t.Fatalf("a commit by an owner that the database has forgotten: %v", err)
	}
	if err := now.Commit(ctx, grow(run, 0, 1, true)); err != nil {
		t.Fatal(err)
	}
}

// TestFenceAcrossStores has two processes own a partition in turn, each with its own idea of the run in memory.
func TestFenceAcrossStores(t *testing.T) {
	url := pgtest.Fresh(t)
	stores := []*postgres.Store{open(t, url), open(t, url)}
	run := store.RunKey{ID: "r"}
	var before store.Partition
	for i := range 6 {
		p := acquire(t, stores[i%2], run.Partition())
		if before != nil {
			if err := before.Commit(ctx, grow(run, store.Seq(i), 1, false)); !errors.Is(err, store.ErrFenced) {
				t.Fatalf("the owner before, in turn %d: %v", i, err)
			}
			if err := before.Renew(ctx); !errors.Is(err, store.ErrFenced) {
				t.Fatalf("Renew of the owner before: %v", err)
			}
		}
		if err := p.Commit(ctx, grow(run, store.Seq(i), 1, i == 0)); err != nil {
			t.Fatalf("turn %d: %v", i, err)
		}
		before = p
	}
}

// TestAcquireWaitsForCommits has a commit that is in flight end before the next owner gets its partition.
func TestAcquireWaitsForCommits(t *testing.T) {
	url := pgtest.Fresh(t)
	s := open(t, url)
	run := store.RunKey{ID: "r"}
	acquire(t, s, run.Partition())
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	tx, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// What wfhost.commit does first.
	if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock_shared(7763001, $1)", int(run.Partition())); err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		_, err := s.Acquire(ctx, run.Partition(), "next", 0)
		got <- err
	}()
	waiting := func() (n int) {
		if err := c.QueryRow(ctx, "select count(*) from pg_locks where locktype = 'advisory' and not granted").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for waiting() == 0 {
		select {
		case err := <-got:
			t.Fatal("the partition was acquired while a commit was in flight", err)
		default:
		}
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Fatal(err)
	}
}

// TestInboxNumbersRiseInTheOrderOfCommits has a sender whose commit is in flight, and another one that comes later. A reader goes
// on behind the last command that it has seen, so the later one must not become visible with a greater number before the first.
func TestInboxNumbersRiseInTheOrderOfCommits(t *testing.T) {
	url := pgtest.Fresh(t)
	s := open(t, url)
	cmd := store.Command{ID: store.CommandID{Seq: 1}, Kind: store.CommandSignal, To: store.RunKey{ID: "r"}}
	to := cmd.To.Partition()
	reader, sender := acquire(t, s, to), acquire(t, s, to+1)
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	tx, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	first := [][]byte{store.AppendCommand(nil, &cmd)}
	if _, err := tx.Exec(ctx, "select wfhost.send($1, $2, $3)", []int16{int16(to)}, []int32{1}, first); err != nil {
		t.Fatal(err)
	}
	cmd.ID.Seq = 2
	sent := make(chan error, 1)
	go func() { sent <- sender.Discard(ctx, nil, []store.Command{cmd}) }()
	var list []store.Command
	last := store.CommandSeq(0)
	read := func() {
		cmds, err := reader.Commands(ctx, last, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cmds {
			list, last = append(list, c), c.Seq
		}
	}
	for waiting, done := 0, false; waiting == 0 && !done; {
		if err := tx.QueryRow(ctx, "select count(*) from pg_locks where not granted").Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-sent:
			done = true
			sent <- err
		default:
		}
	}
	read()
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	read()
	if len(list) != 2 || list[0].ID.Seq != 1 || list[1].ID.Seq != 2 {
		t.Fatalf("a reader that goes forward saw %+v", list)
	}
}

// TestOpenRefuses opens databases that must not be used, and looks for the sentence that says why.
func TestOpenRefuses(t *testing.T) {
	server := pgtest.Shared(t)
	as := func(url, role string) string { return strings.Replace(url, "postgres@", role+"@", 1) }
	fresh := func(prepare ...string) string {
		url := pgtest.Fresh(t)
		sql(t, url, prepare...)
		return url
	}
	sql(t, server.URL("postgres"), "create role stranger login", "create database empty",
		"create database latin encoding LATIN1 template template0")
	t.Cleanup(func() {
		server.Drop(t, "empty")
		server.Drop(t, "latin")
		sql(t, server.URL("postgres"), "drop role stranger")
	})
	for name, c := range map[string]struct {
		url  string
		opts postgres.Options
		is   error
		says string
	}{
		"newer schema": {fresh("update wfhost.meta set value = 99 where name = 'oldest'"), postgres.Options{Unsafe: true}, store.ErrVersion,
			"use the newer release"},
		"no schema":           {server.URL("empty"), postgres.Options{Unsafe: true}, postgres.ErrSchema, "wfhost store init"},
		"may not create":      {as(server.URL("empty"), "stranger"), postgres.Options{Unsafe: true, Migrate: true}, postgres.ErrRights, `role "stranger"`},
		"may not read":        {as(fresh(), "stranger"), postgres.Options{Unsafe: true}, postgres.ErrRights, `role "stranger"`},
		"fsync off":           {fresh(), postgres.Options{}, postgres.ErrUnsafe, "fsync is off"},
		"other encoding":      {server.URL("latin"), postgres.Options{Unsafe: true}, nil, "LATIN1"},
		"no such database":    {server.URL("nowhere"), postgres.Options{}, nil, `database "nowhere"`},
		"no such role":        {as(server.URL("empty"), "nobody"), postgres.Options{}, postgres.ErrRights, `"nobody"`},
		"no server":           {"postgres://postgres@127.0.0.1:1/x", postgres.Options{}, nil, "127.0.0.1:1"},
		"no address":          {"postgres://[", postgres.Options{}, nil, "address of the database"},
		"repeatable read":     {fresh() + "&options=-cdefault_transaction_isolation%3Drepeatable%5C%20read", postgres.Options{Unsafe: true}, nil, "needs read committed"},
		"asynchronous commit": {fresh() + "&options=-csynchronous_commit%3Doff", postgres.Options{}, postgres.ErrUnsafe, "off"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := postgres.Open(ctx, c.url, c.opts)
			if err == nil {
				_ = s.Close()
			}
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("error %v, want %v and %q", err, c.is, c.says)
			}
		})
	}
}

// TestRoleOfAServer has a role own a partition and commit that has the rights of the manual, and no others.
func TestRoleOfAServer(t *testing.T) {
	url := pgtest.Fresh(t)
	sql(t, url, "create role server login", "grant usage on schema wfhost to server",
		"grant select, insert, update, delete on all tables in schema wfhost to server")
	t.Cleanup(func() { sql(t, url, "drop owned by server", "drop role server") })
	s := openWith(t, strings.Replace(url, "postgres@", "server@", 1), postgres.Options{Unsafe: true, Migrate: true})
	run := store.RunKey{ID: "r"}
	p := acquire(t, s, run.Partition())
	for i := range 2 {
		if err := p.Commit(ctx, grow(run, store.Seq(i), 1, i == 0)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSchemaFromNothing has several processes create the schema at the same time.
func TestSchemaFromNothing(t *testing.T) {
	server := pgtest.Shared(t)
	sql(t, server.URL("postgres"), "create database several")
	t.Cleanup(func() { server.Drop(t, "several") })
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			s, err := postgres.Open(ctx, server.URL("several"), postgres.Options{Migrate: true, Unsafe: true, Shared: true})
			if err != nil {
				t.Error(err)
				return
			}
			_ = s.Close()
		})
	}
	wg.Wait()
	s := open(t, server.URL("several"))
	if err := acquire(t, s, 5).Renew(ctx); err != nil {
		t.Fatal(err)
	}
}
