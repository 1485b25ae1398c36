package page

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// BenchmarkViews renders the views of a host with -runs runs. Most of them have not begun, which makes them cheap to
// create.
func BenchmarkViews(b *testing.B) {
	s := openSite(b)
	s.start("order", "one", map[string]any{"item": "book"})
	s.later(*runsShown)
	for name, target := range map[string]string{"overview": "/", "runs": "/runs", "filtered": "/runs?where=half%3D1&workflow=forever",
		"text": "/runs?q=er-0000", "bulk": "/bulk/cancel?workflow=forever", "workflows": "/workflows", "run": "/runs/one", "limits": "/limits"} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				w := httptest.NewRecorder()
				if s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, target, nil)); w.Code != http.StatusOK {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
	}
}
