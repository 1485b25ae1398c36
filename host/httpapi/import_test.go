package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host"
)

// TestImport moves a run to another namespace: export and import each need two scopes and are recorded in the audit
// log.
func TestImport(t *testing.T) {
	a := newNaps(t)
	a.is(a.call(local, http.MethodPost, "/v1/workflows/nap/runs", `{"id":"r","input":1}`), http.StatusCreated, "")
	token := func(scopes ...host.Scope) string { return a.token(host.TokenSpec{Scopes: scopes}) }
	for _, scope := range []host.Scope{host.ScopeRead, host.ScopeOperate, host.ScopeRun, host.ScopeUpload} {
		a.is(a.call(token(scope), http.MethodPost, "/v1/runs/r/move", ""), http.StatusForbidden, "scope")
		a.is(a.call(token(scope), http.MethodPost, "/v1/runs:import", "x", "Content-Type", archiveType), http.StatusForbidden, "scope")
	}
	before := len(a.records)
	w := a.call(token(host.ScopeRead, host.ScopeOperate), http.MethodPost, "/v1/runs/r/move", "")
	a.is(w, http.StatusOK, "")
	file := bytes.Clone(w.Body.Bytes())
	if of, err := host.ReadArchive(bytes.NewReader(file)); err != nil || of.Run().Aside != "moved" {
		t.Fatalf("%+v, %v", of, err)
	}
	both := token(host.ScopeUpload, host.ScopeOperate)
	send := func(query, body string, kind string) (status int, code string) {
		t.Helper()
		w := a.call(both, http.MethodPost, "/v1/runs:import?"+query, body, "Content-Type", kind)
		var p Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		return w.Code, p.Code
	}
	if status, code := send("adopt=true", string(file), archiveType); status != http.StatusConflict || code != "conflict" {
		t.Error(status, code, "it is adopted where it was moved from")
	}
	a.is(a.call(local, http.MethodPost, "/v1/runs/r/terminate", ""), http.StatusOK, "")
	a.is(a.call(local, http.MethodPut, "/v1/namespaces/team?", `{"max_runs":10}`, "Content-Type", "application/json"), http.StatusOK, "")
	for i, want := range []int{http.StatusCreated, http.StatusOK} {
		w := a.call(local, http.MethodPost, "/v1/runs:import?adopt=true&namespace=team", string(file), "Content-Type", archiveType)
		var r host.Run
		if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil || w.Code != want || r.ID != "r" || r.Existed != (i > 0) || r.Aside != "" {
			t.Errorf("%d %+v, %v", w.Code, r, err)
		}
	}
	for _, c := range []struct{ query, body, kind, code string }{
		{"", "no tar", archiveType, "invalid"}, {"", string(file[:len(file)/2]), archiveType, "invalid"},
		{"adopt=yes", "x", archiveType, "invalid"}, {"adopted=true", "x", archiveType, "invalid"}, {"paused=true", "x", archiveType, "invalid"},
		{"", "x", "application/json", "content_type"},
	} {
		if status, code := send(c.query, c.body, c.kind); status/100 != 4 || code != c.code {
			t.Errorf("%q: %d %s", c.query, status, code)
		}
	}
	seen := map[string]int{}
	for _, r := range a.records[before:] {
		seen[r.Endpoint]++
	}
	if seen[movePattern] != 1 || seen[importPattern] < 3 {
		t.Errorf("the audit log has %v", seen)
	}
	w = a.call("", http.MethodGet, "/openapi.json", "")
	if !strings.Contains(w.Body.String(), `"import-run"`) || !strings.Contains(w.Body.String(), `"take-back"`) {
		t.Error("the import is not described")
	}
}

// TestTakeBack resumes a run that was exported to be moved, but never imported.
func TestTakeBack(t *testing.T) {
	a := newNaps(t)
	a.is(a.call(local, http.MethodPost, "/v1/workflows/nap/runs", `{"id":"r","input":1}`), http.StatusCreated, "")
	a.is(a.call(local, http.MethodPost, "/v1/runs/r/move?module=false", ""), http.StatusOK, "")
	a.is(a.call(local, http.MethodPost, "/v1/runs/r/unpause", ""), http.StatusConflict, "conflict")
	for _, count := range []int{1, 0} {
		w := a.call(local, http.MethodPost, "/v1/runs/r/take-back", "")
		var c Changed
		if err := json.Unmarshal(w.Body.Bytes(), &c); err != nil || c.Count != count || c.Run.Aside != "" {
			t.Errorf("%+v, %v", c, err)
		}
	}
}

// TestImportHidesNamespaces adopts and takes back a run that another namespace of the server has. Only callers who
// may read that namespace learn its name.
func TestImportHidesNamespaces(t *testing.T) {
	const theirs = "secret-customer"
	a := newNaps(t)
	for _, name := range []string{theirs, "b"} {
		a.is(a.call(local, http.MethodPut, "/v1/namespaces/"+name, `{"max_runs":10}`, "Content-Type", "application/json"), http.StatusOK, "")
	}
	w := a.call(local, http.MethodPost, "/v1/workflows/nap/runs", `{"id":"r","input":1}`)
	a.is(w, http.StatusCreated, "")
	send := func(token, query, file string) *httptest.ResponseRecorder {
		return a.call(token, http.MethodPost, "/v1/runs:import?adopt=true"+query, file, "Content-Type", archiveType)
	}
	first := a.call(local, http.MethodPost, "/v1/runs/r/move", "").Body.String()
	a.is(send(local, "&namespace="+theirs, first), http.StatusCreated, "")
	lives := a.call(local, http.MethodGet, "/v1/runs/r/export?namespace="+theirs, "").Body.String()
	own := []host.Scope{host.ScopeRead, host.ScopeOperate, host.ScopeUpload}
	for _, c := range []struct {
		who   string
		spec  host.TokenSpec
		named bool
	}{
		{"one of b", host.TokenSpec{Scopes: []host.Scope{host.ScopeAdmin}, Namespace: "b"}, false},
		{"one of all who may not read", host.TokenSpec{Scopes: own[1:]}, false},
		{"one of all", host.TokenSpec{Scopes: own}, true},
	} {
		token := a.token(c.spec)
		for what, w := range map[string]*httptest.ResponseRecorder{
			"lives":   send(token, "&force=true&namespace=b", lives),
			"adopted": send(token, "&namespace=b", first),
		} {
			a.is(w, http.StatusConflict, "conflict")
			if strings.Contains(w.Body.String(), theirs) != c.named || !strings.Contains(w.Body.String(), what) {
				t.Errorf("%s is told: %s", c.who, w.Body)
			}
		}
	}
	for token, named := range map[string]bool{
		a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeAdmin}, Namespace: "default"}): false, local: true,
	} {
		w := a.call(token, http.MethodPost, "/v1/runs/r/take-back", "")
		a.is(w, http.StatusConflict, "conflict")
		if strings.Contains(w.Body.String(), theirs) != named {
			t.Errorf("who takes it back is told: %s", w.Body)
		}
	}
}
