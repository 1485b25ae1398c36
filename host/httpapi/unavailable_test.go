package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/httpapi"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// awayStore is a store whose reads fail while it is away.
type awayStore struct {
	store.Store
	away *atomic.Bool
}

func (s awayStore) check() error {
	if s.away.Load() {
		return fmt.Errorf("%w: database: connect to database.internal: refused", store.ErrUnavailable)
	}
	return nil
}

func (s awayStore) State(ctx context.Context, run store.RunKey) (store.RunState, error) {
	if err := s.check(); err != nil {
		return store.RunState{}, err
	}
	return s.Store.State(ctx, run)
}

func (s awayStore) List(ctx context.Context, q store.Query) (store.Page, error) {
	if err := s.check(); err != nil {
		return store.Page{}, err
	}
	return s.Store.List(ctx, q)
}

// TestStoreThatCannotBeReached asks for runs while the store is away: callers may try again, and do not learn where it is.
func TestStoreThatCannotBeReached(t *testing.T) {
	var away atomic.Bool
	data := memstore.New()
	h := hosttest.New(t, hosttest.WithStore(func() store.Store { return awayStore{data.Open(), &away} }))
	if _, err := h.Upload(t.Context(), "listens", listens("")); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Start(t.Context(), "listens", nil, host.WithRunID("r")); err != nil {
		t.Fatal(err)
	}
	h.Settle()
	s := httptest.NewServer(httpapi.New(h.Host, httpapi.Access{Open: true}))
	defer s.Close()
	get := func(path string) (int, string) {
		t.Helper()
		res, err := http.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(b)
	}
	for _, path := range []string{"/v1/runs/r", "/v1/runs"} {
		away.Store(false)
		if status, text := get(path); status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, status, text)
		}
		away.Store(true)
		status, text := get(path)
		if status != http.StatusServiceUnavailable || !strings.Contains(text, "cannot be reached") || !strings.Contains(text, `"unavailable"`) ||
			strings.Contains(text, "database.internal") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if _, err := h.Get(t.Context(), "r"); !errors.Is(err, host.ErrUnavailable) {
		t.Errorf("Get: %v", err)
	}
}
