package httpapi

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/wasmgen"
)

var scrape = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "wfhost_up 1\n") })

// TestMetrics answers scrapes only with a token that may read all namespaces. Without the option, the endpoint does
// not exist.
func TestMetrics(t *testing.T) {
	a := newAPI(t, Access{})
	a.is(a.call(local, http.MethodGet, "/metrics", ""), http.StatusNotFound, "not_found")
	a.API = New(a.h.Host, Access{Local: local}, WithMetrics(scrape))
	a.upload("team-a", "w", wasmgen.New(0).I32(0))
	whole := a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeRead}})
	for _, token := range []string{local, whole} {
		if w := a.call(token, http.MethodGet, "/metrics", ""); w.Code != http.StatusOK || w.Body.String() != "wfhost_up 1\n" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	a.is(a.call("", http.MethodGet, "/metrics", ""), http.StatusUnauthorized, "unauthorized")
	a.is(a.call(a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeRun}}), http.MethodGet, "/metrics", ""), http.StatusForbidden, "scope")
	own := a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeRead}, Namespace: "team-a"})
	a.is(a.call(own, http.MethodGet, "/metrics?namespace=team-a", ""), http.StatusForbidden, "scope")
	a.Drain() // it is of interest then above all
	if w := a.call(local, http.MethodGet, "/metrics", ""); w.Code != http.StatusOK {
		t.Errorf("while draining: %d %s", w.Code, w.Body)
	}
}

// TestMetricsOnly answers scrapes without a token if they use a name of the server and do not come from a foreign
// page.
func TestMetricsOnly(t *testing.T) {
	h := MetricsOnly(scrape, Access{Hosts: []string{"wf.example.com"}, Origins: []string{"https://app.example.com"}})
	for _, c := range []struct {
		method, target string
		headers        []string
		status         int
	}{
		{http.MethodGet, "/metrics", nil, http.StatusOK},
		{http.MethodHead, "/metrics", nil, http.StatusOK},
		{http.MethodGet, "/metrics", []string{"Host", "wf.example.com:9"}, http.StatusOK},
		{http.MethodGet, "/metrics", []string{"Host", "evil.example.com"}, http.StatusMisdirectedRequest},
		{http.MethodGet, "/metrics", []string{"Origin", "https://app.example.com"}, http.StatusForbidden},
		{http.MethodPost, "/metrics", nil, http.StatusMethodNotAllowed},
		{http.MethodGet, "/", nil, http.StatusNotFound},
		{http.MethodGet, "/v1/runs", nil, http.StatusNotFound},
		{http.MethodPost, "/v1/hooks/0123456789ab", nil, http.StatusNotFound},
	} {
		r := httptest.NewRequestWithContext(context.Background(), c.method, "http://127.0.0.1:9"+c.target, nil)
		for i := 0; i+1 < len(c.headers); i += 2 {
			if r.Header.Set(c.headers[i], c.headers[i+1]); c.headers[i] == "Host" {
				r.Host = c.headers[i+1]
			}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s %v: %d %s, want %d", c.method, c.target, c.headers, w.Code, w.Body, c.status)
		}
		if c.status == http.StatusMethodNotAllowed && !strings.Contains(w.Header().Get("Allow"), "GET") {
			t.Error(w.Header())
		}
	}
}
