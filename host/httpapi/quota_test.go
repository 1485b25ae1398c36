package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host"
)

// TestQuota sets quotas over HTTP, and reaches the quotas of runs and requests.
func TestQuota(t *testing.T) {
	a := newAPI(t, Access{})
	own := a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeAdmin}, Namespace: "a"})
	all := a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeAdmin}})
	put := func(token, path, body string) (n host.NamespaceInfo) {
		t.Helper()
		w := a.call(token, http.MethodPut, path, body, "Content-Type", "application/json")
		a.is(w, http.StatusOK, "")
		if err := json.Unmarshal(w.Body.Bytes(), &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	n := put(all, "/v1/namespaces/a", `{"max_runs":1,"requests_per_second":5,"wakes_per_second":7}`)
	if n.Name != "a" || n.Quota != (host.Quota{MaxRuns: 1, RequestsPerSecond: 5, WakesPerSecond: 7}) || n.Usage != (host.Usage{}) {
		t.Errorf("%+v", n)
	}
	for body, status := range map[string]int{`{"max_runs":-1}`: http.StatusBadRequest, `{"max_turtles":1}`: http.StatusUnprocessableEntity} {
		a.is(a.call(all, http.MethodPut, "/v1/namespaces/a", body, "Content-Type", "application/json"), status, "invalid")
	}
	a.is(a.call(all, http.MethodPut, "/v1/namespaces/No", "{}", "Content-Type", "application/json"), http.StatusBadRequest, "invalid")
	// A tenant may not change its own quota.
	a.is(a.call(own, http.MethodPut, "/v1/namespaces/a?namespace=a", "{}", "Content-Type", "application/json"), http.StatusForbidden, "scope")

	a.upload("a", "w", nap())
	a.is(a.call(own, http.MethodPost, "/v1/workflows/w/runs?namespace=a", `{"id":"r"}`), http.StatusCreated, "")
	w := a.call(own, http.MethodPost, "/v1/workflows/w/runs?namespace=a", `{"id":"s"}`)
	if a.is(w, http.StatusTooManyRequests, "busy"); !strings.Contains(w.Body.String(), "1 runs of the namespace have not ended, its quota is 1") {
		t.Error(w.Body)
	}
	refused := 0
	for range 20 {
		if w := a.call(own, http.MethodGet, "/v1/runs?namespace=a", ""); w.Code == http.StatusTooManyRequests {
			refused++
			if !strings.Contains(w.Body.String(), "more than 5 requests a second for the namespace") || w.Header().Get("Retry-After") != "1" {
				t.Errorf("%v %s", w.Header(), w.Body)
			}
		}
		a.is(a.call(local, http.MethodGet, "/v1/runs?namespace=a", ""), http.StatusOK, "")
		a.is(a.call(all, http.MethodGet, "/v1/runs", ""), http.StatusOK, "")
	}
	if refused == 0 {
		t.Error("twenty requests were answered, the quota is five a second")
	}
	if n := put(all, "/v1/namespaces/a", "{}"); n.Quota.MaxRuns != host.DefaultMaxRuns || n.Usage.Runs != 1 || n.Usage.Bytes != 4096 {
		t.Errorf("%+v", n)
	}
	if err := a.h.Terminate(context.Background(), "r"); err == nil {
		t.Error("the run of the default namespace")
	}
	a.is(a.call(all, http.MethodPut, "/v1/namespaces/nobody", "{}", "Content-Type", "application/json"), http.StatusNotFound, "not_found")
}
