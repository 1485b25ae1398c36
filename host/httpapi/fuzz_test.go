package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store/memstore"
)

// FuzzRequests sends any method, path, query and body. Every answer is one that the API documents, never an internal
// error, and nothing panics. The host does not run, so no run is activated.
func FuzzRequests(f *testing.F) {
	h, err := host.Open(context.Background(), host.Config{Store: memstore.New().Open()})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = h.Close() })
	handler := New(h, Access{Open: true})
	f.Add("POST", "/v1/workflows/w/runs", `{"id":"a","input":{"x":[1,2]},"version":1}`)
	f.Add("POST", "/v1/workflows/w/runs", `{"id":"a"} trailing`)
	f.Add("PUT", "/v1/workflows/w/versions", "\x00asm\x01\x00\x00\x00")
	f.Add("GET", "/v1/runs?limit=0&status=sleeping,nonsense&cursor=%00", "")
	f.Add("GET", "/v1/runs/x/journal?from=-1&wait=5x&limit=-3", "")
	f.Add("POST", "/v1/runs/x/wake?name=%ff", "")
	f.Add("DELETE", "/v1/workflows/w/versions/4294967296", "")
	f.Add("GET", "/v1/timers?within=P1M", "")
	f.Add("POST", "/v1/runs/x/signals/%00", "{")
	f.Add("POST", "/v1/hooks/abcdefghijklmnopqrstuvwxyz.x", "payload")
	f.Add("GET", "/v1/runs/x/queries/y", "")
	f.Add("GET", "/v1/runs/x/output?from=-9223372036854775808&limit=0", "")
	f.Add("POST", "/v1/runs:bulk", `{"action":"cancel","attributes":{"a":"b"},"status":"sleeping","limit":3}`)
	f.Add("POST", "/v1/runs/x/restart?from=%ff&id=a%20b", "")
	f.Add("POST", "/v1/workflows/w/runs", `{"at":"2030-01-01T00:00:00Z","in":"1h","timeout":"x","signal":{"name":""},"on_conflict":"eat"}`)
	f.Add("DELETE", "/v1/runs/%2e%2e", "")
	f.Fuzz(func(t *testing.T, method, target, body string) {
		if !strings.HasPrefix(target, "/") || strings.Contains(target, "wait=") {
			return // an invalid path, or an answer that is delayed on purpose
		}
		r, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1"+target, strings.NewReader(body))
		if err != nil {
			return // no request that a client could send
		}
		for _, kind := range []string{"application/json", "application/wasm"} {
			r.Header.Set("Content-Type", kind)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code >= http.StatusInternalServerError {
				t.Fatalf("%s %q with %q: %d %s", method, target, body, w.Code, w.Body)
			}
		}
	})
}
