package postgres_test

import (
	"context"
	"os"
	"testing"

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
