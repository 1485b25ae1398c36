package postgres_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/postgres"
	"github.com/wfhost/wfhost/store/postgres/pgtest"
)

// settings are changes of settings, each by its name.
func settings(s store.Store) map[string]func() error {
	return map[string]func() error{
		"SetLimits": func() error {
			l := store.Limits{Workflow: "w", Data: []byte("x")}
			return s.SetLimits(ctx, l, store.Command{ID: store.CommandID{Seq: 1}, Kind: store.CommandSignal, To: store.RunKey{ID: "r"}})
		},
		"SetRetention": func() error { return s.SetRetention(ctx, store.Retention{Workflow: "w"}) },
		"Namespace":    func() error { _, err := s.Namespace(ctx, "n", true); return err },
		"Put":          func() error { _, err := s.Modules().Put(ctx, []byte("m"), store.ModuleInfo{}); return err },
		"Add":          func() error { return s.Tokens().Add(ctx, store.Token{Hash: store.Digest{1}}) },
		"AddSealKey":   func() error { return s.AddSealKey(ctx, store.SealKey{ID: "k"}) },
	}
}

// TestStoppedClient stops a client in the middle of a change of a setting. Others wait for it, but not for long.
func TestStoppedClient(t *testing.T) {
	url := pgtest.Fresh(t)
	s := open(t, url)
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	tx, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "select wfhost.settle(null)"); err != nil {
		t.Fatal(err)
	}
	for name, set := range settings(s) {
		if err := set(); err != nil && name != "AddSealKey" {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// TestSettingsOfAnother changes settings after another process has opened the store, before the lease is looked at again.
func TestSettingsOfAnother(t *testing.T) {
	for name := range settings(nil) {
		t.Run(name, func(t *testing.T) {
			url := pgtest.Fresh(t)
			shared := open(t, url)
			alone := openWith(t, url, postgres.Options{Unsafe: true})
			if err := settings(shared)[name](); !errors.Is(err, store.ErrLocked) {
				t.Fatalf("by one of several processes: %v", err)
			}
			sql(t, url, "update wfhost.holder set token = gen_random_uuid(), name = 'another', until = now()")
			if err := settings(alone)[name](); !errors.Is(err, store.ErrFailed) {
				t.Fatalf("by the process before: %v", err)
			}
			if err := settings(shared)[name](); err != nil {
				t.Fatalf("while no process has it alone: %v", err)
			}
		})
	}
}

// TestReadOfAnother has one of several processes read a run that another one has changed since: memory must not answer.
func TestReadOfAnother(t *testing.T) {
	url := pgtest.Fresh(t)
	a, b := open(t, url), open(t, url)
	run := store.RunKey{ID: "r"}
	if err := acquire(t, a, run.Partition()).Commit(ctx, grow(run, 0, 1, true)); err != nil {
		t.Fatal(err)
	}
	if err := acquire(t, b, run.Partition()).Commit(ctx, grow(run, 1, 1, false)); err != nil {
		t.Fatal(err)
	}
	if st, err := a.State(ctx, run); err != nil || st.Length != 2 {
		t.Fatalf("length %d, want 2: %v", st.Length, err)
	}
}
