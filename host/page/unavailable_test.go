package page

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

type awayStore struct {
	store.Store
	away *atomic.Bool
}

func (s awayStore) List(ctx context.Context, q store.Query) (store.Page, error) {
	if s.away.Load() {
		return store.Page{}, fmt.Errorf("%w: database: connect to database.internal: refused", store.ErrUnavailable)
	}
	return s.Store.List(ctx, q)
}

// TestStoreThatCannotBeReached: the page says so, and not where the store is.
func TestStoreThatCannotBeReached(t *testing.T) {
	var away atomic.Bool
	data := memstore.New()
	h := hosttest.New(t, hosttest.WithStore(func() store.Store { return awayStore{data.Open(), &away} }))
	p := New(h.Host, WithClock(h.Clock), WithoutLogin())
	for _, now := range []bool{false, true} {
		away.Store(now)
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:7777/runs", nil))
		text := w.Body.String()
		if want := map[bool]int{false: http.StatusOK, true: http.StatusServiceUnavailable}[now]; w.Code != want ||
			strings.Contains(text, "cannot be reached") != now || strings.Contains(text, "database.internal") {
			t.Errorf("away: %v, status %d: %s", now, w.Code, text)
		}
	}
}
