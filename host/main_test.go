package host_test

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/postgres"
	"github.com/wfhost/wfhost/store/postgres/pgtest"
)

func TestMain(m *testing.M) {
	host.CompilerMain()
	poisonHost()
	mutantsHost()
	if os.Getenv("WFHOST_TEST_STORE") == "postgres" { // see make test-postgres
		hosttest.DefaultStore = inPostgres
	}
	goleak.VerifyTestMain(pgtest.M{M: m})
}

// inPostgres returns the opener of a new store in a database of its own.
func inPostgres(t testing.TB, nowMs func() int64) func() store.Store {
	t.Helper()
	url := pgtest.Fresh(t)
	return func() store.Store {
		s, err := postgres.Open(context.Background(), url, postgres.Options{Unsafe: true, Shared: true, NowMs: nowMs})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}
