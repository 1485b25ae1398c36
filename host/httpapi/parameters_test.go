package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/wasmgen"
)

func newNaps(t *testing.T) *api {
	a := newAPI(t, Access{})
	a.upload("", "nap", wasmgen.New(0).Text("nap").I64(1000).Call(abi.FnSleep).Drop().I32(0))
	a.upload("", "quick", wasmgen.New(0).I32(0))
	return a
}

// TestStartsThatEndRuns makes starts that replace another run, with a token that may not end runs.
func TestStartsThatEndRuns(t *testing.T) {
	a := newNaps(t)
	token := a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeRun}})
	a.is(a.call(local, http.MethodPost, "/v1/workflows/nap/runs", `{"id":"r","input":1}`), http.StatusCreated, "")
	for _, policy := range []string{"terminate", "replace"} {
		body := `{"id":"r","on_conflict":"` + policy + `"}`
		a.is(a.call(token, http.MethodPost, "/v1/workflows/quick/runs", body), http.StatusForbidden, "scope")
	}
	w := a.call(token, http.MethodPost, "/v1/workflows/nap/runs", `{"id":"r","input":1}`)
	if a.is(w, http.StatusOK, ""); strings.Contains(w.Body.String(), "sleeping") || !strings.Contains(w.Body.String(), `"id":"r"`) {
		t.Errorf("who may not read is told of a run: %s", w.Body)
	}
	both := a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeRun, host.ScopeOperate}})
	a.is(a.call(both, http.MethodPost, "/v1/workflows/quick/runs", `{"id":"r","on_conflict":"terminate"}`), http.StatusCreated, "")
}

// TestTokenOfWhichNamespace creates tokens without naming a namespace: none of them applies to all namespaces.
func TestTokenOfWhichNamespace(t *testing.T) {
	a := newAPI(t, Access{})
	for _, c := range []struct{ query, body, want string }{
		{"", `{"scopes":["admin"]}`, "default"},
		{"?namespace=team-a", `{"scopes":["admin"]}`, "team-a"},
		{"", `{"scopes":["admin"],"namespace":"team-a"}`, "team-a"},
		{"", `{"scopes":["admin"],"all_namespaces":true}`, ""},
	} {
		w := a.call(local, http.MethodPost, "/v1/tokens"+c.query, c.body)
		var made NewToken
		if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || w.Code != http.StatusCreated || made.Namespace != c.want {
			t.Errorf("%+v: %d %s", c, w.Code, w.Body)
		}
	}
	for _, c := range [][2]string{{"?namespace=a", `{"scopes":["read"],"namespace":"b"}`}, {"", `{"scopes":["read"],"namespace":"b","all_namespaces":true}`},
		{"?namespace=a", `{"scopes":["read"],"all_namespaces":true}`}} {
		a.is(a.call(local, http.MethodPost, "/v1/tokens"+c[0], c[1]), http.StatusBadRequest, "invalid")
	}
}

// TestParameters sends queries with unknown or malformed parameters, which would otherwise act on more than was
// meant.
func TestParameters(t *testing.T) {
	a := newNaps(t)
	a.is(a.call(local, http.MethodPost, "/v1/workflows/quick/runs", `{"id":"r"}`), http.StatusCreated, "")
	for method, targets := range map[string][]string{
		http.MethodDelete: {"/v1/runs/r?namespace=team-a;x=1", "/v1/runs/r?namespace=%zz", "/v1/runs/r?namspace=team-a"},
		http.MethodPost:   {"/v1/retention:sweep?dryrun=true", "/v1/runs/r/cancel?name=x"},
		http.MethodGet:    {"/v1/runs?unknown=1", "/v1/runs/r?attr.k=v", "/v1/runs?limit=1&limit2=2"},
	} {
		for _, target := range targets {
			a.is(a.call(local, method, target, ""), http.StatusBadRequest, "invalid")
		}
	}
	for _, target := range []string{"/v1/runs?attr.k=v&limit=3", "/v1/runs/r?namespace=default", "/v1/namespaces?namespace=default",
		"/v1/runs/r/journal?from=0", "/v1/timers?within=1h"} {
		if w := a.call(local, http.MethodGet, target, ""); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
}
