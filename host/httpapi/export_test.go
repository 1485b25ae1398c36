package httpapi

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/wfhost/wfhost/host"
)

// TestExport exports a run for callers with the scopes operate and read, and records that in the audit log.
func TestExport(t *testing.T) {
	a := newNaps(t)
	a.is(a.call(local, http.MethodPost, "/v1/workflows/nap/runs", `{"id":"r","input":1}`), http.StatusCreated, "")
	token := func(scopes ...host.Scope) string { return a.token(host.TokenSpec{Scopes: scopes}) }
	both := token(host.ScopeRead, host.ScopeOperate)
	for _, scope := range []host.Scope{host.ScopeRead, host.ScopeOperate, host.ScopeRun, host.ScopeUpload} {
		a.is(a.call(token(scope), http.MethodGet, "/v1/runs/r/export", ""), http.StatusForbidden, "scope")
	}
	a.is(a.call(both, http.MethodGet, "/v1/runs/q/export", ""), http.StatusNotFound, "not_found")
	a.is(a.call(both, http.MethodGet, "/v1/runs/r/export?modul=false", ""), http.StatusBadRequest, "invalid")
	before := len(a.records)
	for query, module := range map[string]bool{"": true, "?module=true": true, "?module=false": false} {
		w := a.call(both, http.MethodGet, "/v1/runs/r/export"+query, "")
		a.is(w, http.StatusOK, "")
		file, err := host.ReadArchive(bytes.NewReader(w.Body.Bytes()))
		if err != nil || file.Run().ID != "r" || (file.Module() != nil) != module || w.Header().Get("Content-Type") != archiveType {
			t.Errorf("%q: %v, %v", query, err, w.Header())
		}
	}
	if n := len(a.records) - before; n != 3 || a.records[before].Endpoint != exportPattern || a.records[before].Path != "/v1/runs/r/export" {
		t.Errorf("%d records: %+v", n, a.records[before:])
	}
}
