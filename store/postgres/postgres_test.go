package postgres_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/postgres"
	"github.com/wfhost/wfhost/store/postgres/pgtest"
	"github.com/wfhost/wfhost/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.M{M: m}.Run()) }

// open opens the store of an address, which several may have open.
func open(t testing.TB, url string) *postgres.Store {
	t.Helper()
	return openWith(t, url, postgres.Options{Unsafe: true, Shared: true})
}

func openWith(t testing.TB, url string, opts postgres.Options) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(context.Background(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestStore runs the suite of all stores.
func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Open {
		url := pgtest.Fresh(t)
		return func(t *testing.T) store.Store { return openWith(t, url, postgres.Options{Unsafe: true}) }
	})
}

// TestShared runs the suite of stores that several hosts use.
func TestShared(t *testing.T) {
	storetest.Shared(t, func(t *testing.T) (storetest.Open, func(string)) {
		url := pgtest.Fresh(t)
		return func(t *testing.T) store.Store { return open(t, url) }, func(name string) {
			sql(t, url, "update wfhost.member set until = clock_timestamp() where name = '"+name+"'")
		}
	})
}

// TestMemberOrAlone opens a store alone while members share it, and the other way round.
func TestMemberOrAlone(t *testing.T) {
	url := pgtest.Fresh(t)
	s := open(t, url)
	m, _, err := s.Join(ctx, store.Member{Name: "a"}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.Open(ctx, url, postgres.Options{Unsafe: true}); !errors.Is(err, store.ErrLocked) ||
		!strings.Contains(err.Error(), "hosts that share it: a") {
		t.Fatal(err)
	}
	if err := m.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	alone := openWith(t, url, postgres.Options{Unsafe: true})
	if _, _, err := s.Join(ctx, store.Member{Name: "a"}, time.Minute); !errors.Is(err, store.ErrLocked) {
		t.Fatal(err)
	}
	if _, _, err := alone.Join(ctx, store.Member{Name: "a"}, time.Minute); !errors.Is(err, store.ErrLocked) {
		t.Fatal(err)
	}
	if err := alone.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Join(ctx, store.Member{Name: "a"}, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := s.SetQuota(ctx, store.Quota{Runs: 1}); err != nil { // at once: the lease was given up
		t.Fatal(err)
	}
}
