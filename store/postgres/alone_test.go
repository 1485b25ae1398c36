package postgres_test

import (
	"errors"
	"strings"
	"testing"

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
