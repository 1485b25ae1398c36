package postgres_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/postgres"
	"github.com/wfhost/wfhost/store/postgres/pgtest"
	"github.com/wfhost/wfhost/store/transfer"
)

// copiedColumns are the columns of the copied tables that Export reads, and after a bar those that Import makes from the records.
var copiedColumns = map[string]string{
	"cell": "key ns queue value |", "chunk": "data first id iteration ns |", "hook": "holder ns token |", "inbox": "command p seq |",
	"inbox_seq": "newest p |", "limits": "data | ns workflow", "log": "data id n ns |", "module": "digest info wasm | unused",
	"namespace": "created id name |", "output": "data id n ns |", "partition": "epoch p | owner token", "quota": "data | ns",
	"retention": "data | ns workflow",
	"run":       "id iteration listed ns state tail tail_first | attributes busy created deleted due ended p rev status timer version wake workflow",
	"schedule":  "data id ns | due p revision wake", "seal_key": "data | id", "token": "data | hash",
	"version": "data | deleted imported module ns number workflow", "wake": "due id kind ns p wake |",
}

// TestEveryTableIsCopied compares the tables of the schema, and their columns, with what a copy knows. If this fails for a new table
// or column, decide whether `wfhost store copy` copies it, makes it anew, or leaves it, and do that in Export and Import.
func TestEveryTableIsCopied(t *testing.T) {
	url := pgtest.Fresh(t)
	ok(t, open(t, url).Close())
	copied, derived, own := postgres.Tables()
	known := slices.Concat(copied, derived, own)
	c, err := pgx.Connect(ctx, url)
	ok(t, err)
	defer func() { _ = c.Close(ctx) }()
	rows, err := c.Query(ctx, `select c.relname, string_agg(a.attname, ' ' order by a.attname collate "C") from pg_class c
		join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
		where c.relnamespace = 'wfhost'::regnamespace and c.relkind in ('r', 'p') group by c.relname`)
	ok(t, err)
	var table, columns string
	n := 0
	_, err = pgx.ForEachRow(rows, []any{&table, &columns}, func() error {
		n++
		if !slices.Contains(known, table) {
			t.Errorf("a copy does not know the table wfhost.%s", table)
		}
		if slices.Contains(copied, table) {
			want := strings.Fields(strings.Replace(copiedColumns[table], "|", "", 1))
			slices.Sort(want)
			if got := strings.Fields(columns); !slices.Equal(got, want) {
				t.Errorf("a copy does not know the columns of wfhost.%s: %v, it knows %v", table, got, want)
			}
		}
		return nil
	})
	ok(t, err)
	if n != len(known) {
		t.Errorf("there are %d tables, a copy knows %d", n, len(known))
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestCopyFencesOwners opens a database for a copy while a process that shares it owns a partition: it can write no more.
func TestCopyFencesOwners(t *testing.T) {
	url := pgtest.Fresh(t)
	shared := open(t, url)
	run := store.RunKey{ID: "r"}
	p := acquire(t, shared, run.Partition())
	ok(t, p.Commit(ctx, grow(run, 0, 1, true)))
	s, err := postgres.OpenTransfer(ctx, url, postgres.TransferOptions{Unsafe: true})
	ok(t, err)
	if err := p.Commit(ctx, grow(run, 1, 1, false)); !errors.Is(err, store.ErrFenced) {
		t.Error("the owner can write:", err)
	}
	ok(t, s.Close())
}

// TestStoppedCopyChangesNothing goes on with a copy into a database that another process has had meanwhile.
func TestStoppedCopyChangesNothing(t *testing.T) {
	url := pgtest.Fresh(t)
	s, err := postgres.OpenTransfer(ctx, url, postgres.TransferOptions{Target: true, Unsafe: true})
	ok(t, err)
	into, err := s.Import(ctx)
	ok(t, err)
	sql(t, url, "update wfhost.holder set token = gen_random_uuid(), name = 'another', until = now() + interval '1 hour'",
		"insert into wfhost.hook values (0, 'token', 'holder')")
	for what, do := range map[string]func() error{
		"Clear": func() error { return s.Clear(ctx) },
		"Add": func() error {
			return into.Add(ctx, &transfer.Record{Kind: transfer.Partition, Epoch: 77})
		},
		"Finish": func() error {
			ok(t, into.Add(ctx, &transfer.Record{Kind: transfer.Hook, ID: "other", Data: []byte("holder")}))
			return into.Finish(ctx)
		},
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), "another") {
			t.Errorf("%s: %v", what, err)
		}
	}
	var hooks, epochs int
	err = connect(t, url).QueryRow(ctx, `select (select count(*) from wfhost.hook), count(*) from wfhost.partition
		where epoch = 77`).Scan(&hooks, &epochs)
	if err != nil || hooks != 1 || epochs != 0 {
		t.Errorf("%d hooks, %d epochs of the copy, %v", hooks, epochs, err)
	}
	_ = s.Close()
}

// TestTransferLocks opens a database that a host has open, and the other way round. A copy that leaves the source as it is works
// while the host writes, and sees one instant.
func TestTransferLocks(t *testing.T) {
	url := pgtest.Fresh(t)
	host := openWith(t, url, postgres.Options{Unsafe: true})
	if _, err := postgres.OpenTransfer(ctx, url, postgres.TransferOptions{Unsafe: true}); !errors.Is(err, store.ErrLocked) {
		t.Error("a host has it open:", err)
	}
	run := store.RunKey{ID: "r"}
	p := acquire(t, host, run.Partition())
	ok(t, p.Commit(ctx, grow(run, 0, 1, true)))
	live, err := postgres.OpenTransfer(ctx, url, postgres.TransferOptions{Live: true})
	ok(t, err)
	entries := 0
	ok(t, live.Export(ctx, func(r *transfer.Record) error {
		if r.Kind == transfer.Partition && r.Partition == 0 {
			ok(t, p.Commit(ctx, grow(run, 1, 1, false)))
		}
		if r.Kind == transfer.Entry {
			entries++
		}
		return nil
	}))
	if entries != 1 {
		t.Errorf("%d entries, want those of the instant at which it began: 1", entries)
	}
	if _, err := live.Import(ctx); err == nil || live.SetMark(ctx, nil) == nil {
		t.Error("a live source was changed")
	}
	ok(t, errors.Join(live.Close(), host.Close()))
	s, err := postgres.OpenTransfer(ctx, url, postgres.TransferOptions{Unsafe: true})
	ok(t, err)
	ok(t, s.SetMark(ctx, &transfer.Mark{State: transfer.Moved, Place: "elsewhere"}))
	if _, err := postgres.Open(ctx, url, postgres.Options{Unsafe: true}); !errors.Is(err, store.ErrLocked) {
		t.Error("a copy has it open:", err)
	}
	ok(t, s.Close())
	for _, shared := range []bool{false, true} {
		_, err := postgres.Open(ctx, url, postgres.Options{Unsafe: true, Shared: shared})
		if !errors.Is(err, transfer.ErrMoved) || !strings.Contains(err.Error(), "elsewhere") {
			t.Errorf("moved data, shared %t: %v", shared, err)
		}
	}
	if r, err := postgres.Check(ctx, url); err != nil || !slices.ContainsFunc(r.Problems, func(p string) bool { return strings.Contains(p, "elsewhere") }) {
		t.Errorf("%+v %v", r, err)
	}
	free, cancel := context.WithTimeout(ctx, time.Second) // an attempt that was refused holds no lease
	defer cancel()
	s, err = postgres.OpenTransfer(free, url, postgres.TransferOptions{Unsafe: true})
	ok(t, err)
	ok(t, s.Close())
}

// TestNewerSchemaIsNotCopied refuses a schema with tables that this release does not know.
func TestNewerSchemaIsNotCopied(t *testing.T) {
	url := pgtest.Fresh(t)
	ok(t, open(t, url).Close())
	sql(t, url, "insert into wfhost.migration (number, name) values (1000, '1000-later.sql')")
	if _, err := postgres.OpenTransfer(ctx, url, postgres.TransferOptions{Unsafe: true}); !errors.Is(err, store.ErrVersion) ||
		!strings.Contains(err.Error(), "copy it with the newer release") {
		t.Error(err)
	}
}

// TestRequestsAreNotLeftBehind refuses to move a database in which a transaction has asked for something that no server has done.
func TestRequestsAreNotLeftBehind(t *testing.T) {
	url := pgtest.Fresh(t)
	ok(t, open(t, url).Close())
	sql(t, url, "select wfhost.start('orders', 'order-1')")
	if s, err := postgres.OpenTransfer(ctx, url, postgres.TransferOptions{Unsafe: true}); err == nil || !strings.Contains(err.Error(),
		"1 are pending and 0 refused") {
		t.Errorf("%v %v", s, err)
	}
	sql(t, url, "delete from wfhost.request")
	s, err := postgres.OpenTransfer(ctx, url, postgres.TransferOptions{Unsafe: true})
	ok(t, err)
	ok(t, s.Close())
}
