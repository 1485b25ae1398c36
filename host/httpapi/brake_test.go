package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/wfhost/wfhost/host"
)

// eachRefusal is the minimum delay of each refusal for too many requests.
const eachRefusal = time.Millisecond

// rare is a rate that allows only the first request of a test.
const rare = 0.001

// refuse makes requests until n were refused for too many requests, after a first refusal. It returns the time from
// the first refusal on.
func (a *api) refuse(n int, request func() *http.Request) time.Duration {
	a.t.Helper()
	a.denials, a.misses = newRates(rare, 1), rate.NewLimiter(rare, 1)
	var begun time.Time
	refused := -1
	for range 2 * n {
		w := httptest.NewRecorder()
		a.ServeHTTP(w, request())
		if w.Code != http.StatusTooManyRequests {
			continue
		}
		refused++
		if refused == 0 {
			begun = time.Now()
		}
		if refused == n {
			return time.Since(begun)
		}
	}
	a.t.Fatalf("%d requests were refused, want %d", refused+1, n+1)
	return 0
}

// asking returns a function that makes the same request each time, with headers as pairs of name and value.
func asking(method, target, body string, headers ...string) func() *http.Request {
	return func() *http.Request {
		r := httptest.NewRequestWithContext(context.Background(), method, "http://127.0.0.1:7777"+target, strings.NewReader(body))
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		return r
	}
}

// TestRefusalsWait has callers retry at once after each refusal, wherever requests are limited. Each refusal is
// delayed longer, so that these callers do not keep a processor busy.
func TestRefusalsWait(t *testing.T) {
	form := []string{"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin",
		"Origin", "http://127.0.0.1:7777"}
	read := host.TokenSpec{Scopes: []host.Scope{host.ScopeRead}}
	program := func(*http.Request) (host.Token, error) {
		return host.Token{ID: "ada", Scopes: []host.Scope{host.ScopeRead}}, nil
	}
	for name, open := range map[string]func(t *testing.T) (*api, func() *http.Request){
		"requests of a token": func(t *testing.T) (*api, func() *http.Request) {
			a := newAPI(t, Access{Rate: rare})
			return a, asking(http.MethodGet, "/v1/runs", "", "Authorization", "Bearer "+a.token(read))
		},
		"requests of a caller whom a program knows": func(t *testing.T) (*api, func() *http.Request) {
			return newAPI(t, Access{Rate: rare, Authenticate: program}), asking(http.MethodGet, "/v1/runs", "")
		},
		"requests of strangers for what is public": func(t *testing.T) (*api, func() *http.Request) {
			return newAPI(t, Access{Rate: rare}), asking(http.MethodGet, "/healthz", "")
		},
		"requests without a token": func(t *testing.T) (*api, func() *http.Request) {
			return newAPI(t, Access{}), asking(http.MethodGet, "/v1/runs", "")
		},
		"requests with a token that is not accepted": func(t *testing.T) (*api, func() *http.Request) {
			return newAPI(t, Access{}), asking(http.MethodGet, "/v1/runs", "", "Authorization", "Bearer wfh_wrong")
		},
		"requests for a namespace": func(t *testing.T) (*api, func() *http.Request) {
			a := newAPI(t, Access{})
			a.upload("a", "w", nap())
			if err := a.h.SetQuota(t.Context(), "a", host.Quota{RequestsPerSecond: 1}); err != nil {
				t.Fatal(err)
			}
			token := a.token(host.TokenSpec{Scopes: read.Scopes, Namespace: "a"})
			return a, asking(http.MethodGet, "/v1/runs?namespace=a", "", "Authorization", "Bearer "+token)
		},
		"deliveries to hooks that nobody has": func(t *testing.T) (*api, func() *http.Request) {
			return newAPI(t, Access{}), asking(http.MethodPost, "/v1/hooks/nobodys", "{}")
		},
		"logins to the page that fail": func(t *testing.T) (*api, func() *http.Request) {
			return newPage(t, Access{}), asking(http.MethodPost, "/login", url.Values{"token": {"wfh_wrong"}}.Encode(), form...)
		},
		"requests of the page": func(t *testing.T) (*api, func() *http.Request) {
			a := newPage(t, Access{Rate: rare})
			return a, asking(http.MethodGet, "/", "", "Cookie", a.login(a.token(read)))
		},
		"requests of the page by a caller whom a program knows": func(t *testing.T) (*api, func() *http.Request) {
			return newPage(t, Access{Rate: rare, Authenticate: program}), asking(http.MethodGet, "/runs", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			const n = 50
			a, request := open(t)
			if took := a.refuse(n, request); took < n*eachRefusal {
				t.Errorf("%d refusals took %v, want %v at least", n, took, n*eachRefusal)
			}
		})
	}
}
