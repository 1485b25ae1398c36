package page

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host"
)

// TestTokens creates a token, uses it, and revokes it.
func TestTokens(t *testing.T) {
	s := newSite(t)
	text, _, err := s.h.Tokens().Create(ctx, host.TokenSpec{Name: "boss", Scopes: []host.Scope{host.ScopeAdmin}})
	if err != nil {
		t.Fatal(err)
	}
	s.cookie = s.sessions.begin(text)
	has(t, s.get("/access"), "boss", "admin", "all namespaces", "never")
	has(t, s.get("/access/tokens"), "read look at everything")
	w := s.post("/access/tokens", url.Values{"name": {"Ada"}, "scope": {"read", "run"}, "space": {""}, "ttl": {"30d"}})
	has(t, w.Body.String(), "The token was made.")
	made := regexp.MustCompile(`wfh_[\w-]+`).FindString(textOf(w.Body.String()))
	tok, err := s.h.Tokens().Authenticate(ctx, made)
	if err != nil || tok.Name != "Ada" || len(tok.Scopes) != 2 {
		t.Fatalf("%q %+v %v", made, tok, err)
	}
	has(t, s.get("/access"), "Ada", "read run all namespaces", "in 30d")
	for _, c := range []struct {
		values url.Values
		status int
		text   string
	}{
		{url.Values{"name": {"x"}}, 400, "a token needs at least one scope"},
		{url.Values{"scope": {"everything"}}, 400, `got "everything"`},
		{url.Values{"scope": {"read"}, "ttl": {"soon"}}, 400, `such as 90d, got "soon"`},
		{url.Values{"scope": {"read"}, "space": {"not a name"}}, 400, "not a name"},
	} {
		w := s.post("/access/tokens", c.values)
		if w.Code != c.status || !strings.Contains(textOf(w.Body.String()), c.text) {
			t.Errorf("%v: %d %s", c.values, w.Code, textOf(w.Body.String()))
		}
	}
	revoke := "/access/tokens/" + tok.ID + "/do/revoke"
	has(t, s.get(revoke), "Revoke "+tok.ID, "No request is accepted with the token any more")
	has(t, s.does(revoke, nil), "The token was revoked.")
	if _, err := s.h.Tokens().Authenticate(ctx, made); err == nil {
		t.Error("it is accepted still")
	}
	if w := s.post(revoke, nil); w.Code != http.StatusNotFound {
		t.Error(w.Code)
	}
	last := s.actions[0]
	if last.Pattern != "POST /access/tokens" || last.Scope != host.ScopeAdmin || !last.Changed || last.Status != http.StatusOK {
		t.Errorf("%+v", last)
	}
}

// TestTokensOfOneNamespace shows a user of one namespace only that namespace's tokens, and lets the user create no
// others.
func TestTokensOfOneNamespace(t *testing.T) {
	s := newSite(t, WithAuditLog(func(bool) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("")), nil }))
	_, other, err := s.h.Tokens().Create(ctx, host.TokenSpec{Name: "boss", Scopes: []host.Scope{host.ScopeAdmin}})
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := s.h.Tokens().Create(ctx, host.TokenSpec{Name: "own", Scopes: []host.Scope{host.ScopeAdmin}, Namespace: "team"})
	if err != nil {
		t.Fatal(err)
	}
	s.cookie = s.sessions.begin(text)
	if page := s.get("/access"); strings.Contains(page, "boss") || !strings.Contains(page, "own") || strings.Contains(page, "/access/audit") {
		t.Error(textOf(page))
	}
	for target, want := range map[string]int{"/access/audit": 403, "/access/tokens/" + other.ID + "/do/revoke": 404} {
		if w := s.request(http.MethodGet, target, "", nil); w.Code != want {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
	if w := s.post("/access/tokens/"+other.ID+"/do/revoke", nil); w.Code != http.StatusNotFound {
		t.Error(w.Code)
	}
	for _, space := range []string{"", "default", "other"} {
		if w := s.post("/access/tokens", url.Values{"scope": {"read"}, "space": {space}}); w.Code != http.StatusForbidden {
			t.Errorf("%q: %d", space, w.Code)
		}
	}
	if list, err := s.h.Tokens().List(ctx); err != nil || len(list) != 2 {
		t.Error(list, err)
	}
	if w := s.post("/access/tokens", url.Values{"scope": {"read"}, "space": {"team"}}); w.Code != http.StatusOK {
		t.Error(w.Code)
	}
	// Others do not see it at all.
	text, _, err = s.h.Tokens().Create(ctx, host.TokenSpec{Scopes: []host.Scope{host.ScopeRead, host.ScopeOperate}})
	if err != nil {
		t.Fatal(err)
	}
	s.cookie = s.sessions.begin(text)
	for _, target := range []string{"/access", "/access/audit", "/access/tokens"} {
		if w := s.request(http.MethodGet, target, "", nil); w.Code != http.StatusForbidden {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
	if page := s.get("/"); strings.Contains(page, "/access") {
		t.Error("the way there is shown")
	}
}

// TestAuditLog shows the newest records, and finds older ones by text.
func TestAuditLog(t *testing.T) {
	var log bytes.Buffer
	for i := range 1000 {
		fmt.Fprintf(&log, `{"time":"2026-01-05T08:00:00Z","caller":"token 3f0c","name":"Ada","address":"127.0.0.1","scope":"operate",`+
			`"endpoint":"POST /v1/runs/{id}/cancel","path":"/v1/runs/r-%d/cancel","status":200}`+"\n", i)
	}
	log.WriteString("half a line {\x00\x00\n" + strings.Repeat("x", 3*maxRecord) + "\n" + `{"time":"2026-01-05T08:00:01Z","caller":"<b>","status":204}`)
	opened := [2]int{}
	s := newSite(t, WithoutLogin(), WithAuditLog(func(refused bool) (io.ReadCloser, error) {
		if refused {
			opened[1]++
			return io.NopCloser(strings.NewReader("")), nil
		}
		opened[0]++
		return io.NopCloser(bytes.NewReader(log.Bytes())), nil
	}))
	page := s.get("/access/audit")
	has(t, page, "<b>", "r-999", "r-802", "These are the newest 199.", "Ada token 3f0c")
	if strings.Contains(page, "r-801/") || strings.Contains(page, "xxxx") || strings.Contains(page, "<b>") {
		t.Error(textOf(page))
	}
	page = s.get("/access/audit?text=R-7/CANCEL")
	if has(t, page, "r-7/"); strings.Count(page, "data-row") != 1 {
		t.Error(textOf(page))
	}
	has(t, s.get("/access/audit?refused=1"), "There is no record.")
	if a := s.actions[0]; len(s.actions) != 3 || a.Pattern != auditPattern || a.Status != http.StatusOK || a.Scope != host.ScopeAdmin {
		t.Errorf("who has read the log is not in it: %+v", s.actions)
	}
	if opened != [2]int{2, 1} {
		t.Error(opened)
	}
	if w := newSite(t, WithoutLogin()).request(http.MethodGet, "/access/audit", "", nil); w.Code != http.StatusNotFound {
		t.Error(w.Code)
	}
}
