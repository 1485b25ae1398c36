package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// mounted is the API under /flows in a program that identifies its users by a header.
func mounted(t *testing.T) (a *api, call func(user, method, target, body string) *httptest.ResponseRecorder) {
	a = &api{t: t, h: hosttest.New(t)}
	a.API = New(a.h.Host, Access{
		Audit: func(r Record) { a.records = append(a.records, r) },
		Authenticate: func(r *http.Request) (host.Token, error) {
			switch user := r.Header.Get("X-User"); user {
			case "ada":
				return host.Token{Name: user, Scopes: []host.Scope{host.ScopeAdmin}}, nil
			case "bob":
				return host.Token{Name: user, Namespace: "default", Scopes: []host.Scope{host.ScopeRead}}, nil
			}
			return host.Token{}, errors.New("log in first")
		}}, WithPrefix("/flows/"))
	return a, func(user, method, target, body string) *httptest.ResponseRecorder {
		return a.call("", method, target, body, "X-User", user)
	}
}

// TestMounted serves the API under a prefix, for users that the program authenticates.
func TestMounted(t *testing.T) {
	a, call := mounted(t)
	if w := a.call("", http.MethodPut, "/flows/v1/workflows/w/versions", string(wasmgen.New(0).I32(0).Export("workflow_run").Bytes()), "X-User", "ada"); w.Code != http.StatusCreated {
		t.Fatal(w.Code, w.Body)
	}
	if w := call("", http.MethodGet, "/flows/v1/runs", ""); w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "log in first") {
		t.Error(w.Body)
	}
	a.is(call("bob", http.MethodGet, "/flows/v1/runs", ""), http.StatusOK, "")
	a.is(call("bob", http.MethodPost, "/flows/v1/workflows/w/runs", `{"id":"r"}`), http.StatusForbidden, "scope")
	a.is(call("bob", http.MethodGet, "/flows/v1/runs?namespace=other", ""), http.StatusForbidden, "scope")
	a.is(call("ada", http.MethodPost, "/flows/v1/workflows/w/runs", `{"id":"r"}`), http.StatusCreated, "")
	a.is(call("ada", http.MethodGet, "/flows/v1/runs/%72", ""), http.StatusOK, "")
	a.is(call("", http.MethodGet, "/flows/healthz", ""), http.StatusOK, "")
	for _, path := range []string{"/v1/runs", "/flowsv1/runs", "/flows", "/", "/fl%6Fws/v1/runs/%72"} {
		a.is(call("ada", http.MethodGet, path, ""), http.StatusNotFound, "not_found")
	}
	var doc struct{ Servers []struct{ URL string } }
	if err := json.Unmarshal(call("", http.MethodGet, "/flows/openapi.json", "").Body.Bytes(), &doc); err != nil || len(doc.Servers) != 1 || doc.Servers[0].URL != "/flows" {
		t.Errorf("the description is for %+v %v", doc, err)
	}
	// A page of a foreign origin sends the browser's cookies, but is refused.
	w := a.call("", http.MethodPost, "/flows/v1/workflows/w/runs", `{}`, "X-User", "ada", "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example")
	a.is(w, http.StatusForbidden, "origin")
	if last := a.records[len(a.records)-1]; last.Status != http.StatusCreated || last.Caller != "caller ada" {
		t.Errorf("%+v", last)
	}
}
