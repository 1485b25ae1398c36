package httpapi

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// browse makes a request for the page with a session; form is the body of a POST.
func (a *api) browse(session, method, target string, form url.Values, headers ...string) *httptest.ResponseRecorder {
	a.t.Helper()
	headers = append([]string{"Content-Type", "application/x-www-form-urlencoded", "Cookie", session}, headers...)
	if method == http.MethodPost {
		headers = append([]string{"Sec-Fetch-Site", "same-origin", "Origin", "http://127.0.0.1:7777"}, headers...)
	}
	return a.call("", method, target, form.Encode(), headers...)
}

func (a *api) login(token string) (session string) {
	a.t.Helper()
	w := a.browse("", http.MethodPost, "/login", url.Values{"token": {token}})
	if w.Code != http.StatusSeeOther {
		a.t.Fatal(w.Code, w.Body)
	}
	return strings.Split(w.Header().Get("Set-Cookie"), ";")[0]
}

func newPage(t *testing.T, access Access) *api {
	a := &api{t: t, h: hosttest.New(t)}
	access.Local = local
	access.Audit = func(r Record) { a.records = append(a.records, r) }
	a.API = New(a.h.Host, access, WithPage())
	return a
}

// TestPage logs in with API tokens, and finds each action in the audit log.
func TestPage(t *testing.T) {
	a := newPage(t, Access{})
	a.upload("", "w", wasmgen.New(0).I32(0))
	if _, err := a.h.Start(t.Context(), "w", nil, host.WithRunID("r")); err != nil {
		t.Fatal(err)
	}
	a.h.Settle()
	if w := a.call("", http.MethodGet, "/", ""); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/login" {
		t.Error(w.Code, w.Header())
	}
	if w := a.call("", http.MethodGet, "/runs/r", "", "Sec-Fetch-Site", "cross-site"); w.Code != http.StatusOK || w.Header().Get("Refresh") == "" {
		t.Error("a link from elsewhere:", w.Code)
	}
	a.is(a.call("", http.MethodGet, "/", "", "Host", "evil.example"), http.StatusMisdirectedRequest, "host")
	a.is(a.call("", http.MethodGet, "/v1/nothing", ""), http.StatusNotFound, "not_found")
	a.is(a.call("", http.MethodGet, "/v1/runs", ""), http.StatusUnauthorized, "unauthorized")
	text := a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeRead, host.ScopeOperate}, Name: "ci"})
	session := a.login(text)
	if w := a.browse(session, http.MethodGet, "/runs/r", nil); w.Code != http.StatusOK {
		t.Error(w.Code, w.Body)
	}
	form := a.browse(session, http.MethodGet, "/runs/r/do/restart", nil).Body.String()
	csrf := regexp.MustCompile(`name="csrf" value="([^"]+)"`).FindStringSubmatch(form)
	if csrf == nil {
		t.Fatal(form)
	}
	w := a.browse(session, http.MethodPost, "/runs/r/do/restart", url.Values{"csrf": {csrf[1]}, "new": {"again"}})
	if w.Code != http.StatusSeeOther {
		t.Error(w.Code, w.Body)
	}
	w = a.browse(session, http.MethodPost, "/runs/r/do/restart", url.Values{"csrf": {"wrong"}})
	if w.Code != http.StatusForbidden {
		t.Error(w.Code)
	}
	if len(a.records) != 4 {
		t.Fatalf("%+v", a.records)
	}
	for i, want := range []Record{{Endpoint: "POST /login", Status: 303}, {}, {Endpoint: "POST /runs/{id}/do/{action}", Status: 303},
		{Endpoint: "POST /runs/{id}/do/{action}", Status: 403, Refused: true}} {
		if i < 2 {
			continue // the refused API request and the login are checked below
		}
		r := a.records[i]
		if r.Endpoint != want.Endpoint || r.Status != want.Status || r.Refused != want.Refused || r.Scope != host.ScopeOperate ||
			r.Name != "ci" || !strings.HasPrefix(r.Caller, "token ") || r.Path != "/runs/r/do/restart" || r.Address == "" {
			t.Errorf("%+v", r)
		}
	}
	for _, r := range a.records {
		if strings.Contains(r.Path+r.Query, "wfh_") {
			t.Errorf("a token is recorded: %+v", r)
		}
	}
	if w := a.browse(a.login(local), http.MethodGet, "/upload", nil); w.Code != http.StatusOK {
		t.Error("the local token does not do everything:", w.Code)
	}
}

// TestPageLimits limits login attempts and requests of the page like those of the API.
func TestPageLimits(t *testing.T) {
	a := newPage(t, Access{Rate: 0.001})
	codes := map[int]int{}
	for range denialsAtOnce + 10 {
		codes[a.browse("", http.MethodPost, "/login", url.Values{"token": {"wfh_wrong"}}).Code]++
	}
	if codes[http.StatusTooManyRequests] < 5 || codes[http.StatusUnauthorized] < denialsAtOnce {
		t.Error(codes)
	}
	session := a.login(a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeRead}})) // uses up its only request
	if w := a.browse(session, http.MethodGet, "/", nil); w.Code != http.StatusTooManyRequests {
		t.Error(w.Code)
	}
	a.Drain()
	a.is(a.browse("", http.MethodPost, "/login", nil), http.StatusServiceUnavailable, "draining")
}

// TestOpenPage needs no login, and records addresses.
func TestOpenPage(t *testing.T) {
	a := newPage(t, Access{Open: true})
	if w := a.browse("", http.MethodGet, "/", nil); w.Code != http.StatusOK {
		t.Error(w.Code)
	}
	if w := a.browse("", http.MethodPost, "/upload", nil, "Origin", "https://evil.example"); w.Code != http.StatusForbidden {
		t.Error(w.Code)
	}
	if len(a.records) != 1 || a.records[0].Caller != "192.0.2.1" || a.records[0].Endpoint != "POST /upload" {
		t.Errorf("%+v", a.records)
	}
}

// TestPageOfAProgram serves the page below a prefix, for users that a program authenticates: there is no login.
func TestPageOfAProgram(t *testing.T) {
	a := &api{t: t, h: hosttest.New(t)}
	a.API = New(a.h.Host, Access{Authenticate: func(r *http.Request) (host.Token, error) {
		if r.Header.Get("X-User") == "" {
			return host.Token{}, errors.New("who are you?")
		}
		return host.Token{ID: "ada", Scopes: []host.Scope{host.ScopeRead}}, nil
	}}, WithPage(), WithPrefix("/wf/"))
	for target, want := range map[string]int{"/wf/": 200, "/wf/runs": 200, "/wf/static/page.js": 200, "/wf/upload": 403, "/wf/v1/runs": 200,
		"/runs": 404, "/wf/nowhere": 404} {
		w := a.call("", http.MethodGet, target, "", "X-User", "ada")
		if w.Code != want || strings.Contains(w.Body.String(), `href="/runs`) {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	if w := a.call("", http.MethodGet, "/wf/runs", ""); w.Code != http.StatusUnauthorized {
		t.Error(w.Code, w.Header())
	}
}

// TestPageAuditLog shows the audit log on the page to users who may read it, and records that access.
func TestPageAuditLog(t *testing.T) {
	a := newPage(t, Access{Records: func(bool) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(`{"time":"2026-01-05T08:00:00Z","caller":"local","endpoint":"POST /v1/tokens","status":201}`)), nil
	}})
	w := a.browse(a.login(a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeAdmin}})), http.MethodGet, "/access/audit", nil)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "POST /v1/tokens") {
		t.Error(w.Code, w.Body)
	}
	if r := a.records[len(a.records)-1]; r.Endpoint != "GET /access/audit" || r.Scope != host.ScopeAdmin || r.Status != http.StatusOK {
		t.Errorf("%+v", r)
	}
	w = a.browse(a.login(a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeOperate, host.ScopeRead}})), http.MethodGet, "/access/audit", nil)
	if w.Code != http.StatusForbidden {
		t.Error(w.Code)
	}
	if r := a.records[len(a.records)-1]; r.Endpoint != "GET /access/audit" || !r.Refused {
		t.Errorf("%+v", r)
	}
}
