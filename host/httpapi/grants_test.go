package httpapi

import (
	"net/http"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// TestWhoGrants uploads with grants: the scope upload is not enough, and a namespace's token cannot grant secrets and
// addresses.
func TestWhoGrants(t *testing.T) {
	a := newAPI(t, Access{})
	a.upload("team-a", "w", wasmgen.New(0).I32(0)) // so that there is the namespace
	wasm := string(wasmgen.New(0).I32(0).Export(abi.ExportRun).Bytes())
	token := func(namespace string, scopes ...host.Scope) string {
		return a.token(host.TokenSpec{Namespace: namespace, Scopes: scopes})
	}
	uploader, all := token("", host.ScopeUpload), token("", host.ScopeAdmin)
	own := token("team-a", host.ScopeAdmin)
	for _, c := range []struct {
		token, query string
		status       int
	}{
		{uploader, "", 200}, {uploader, "&allow_http=api.example.com", 403}, {uploader, "&allow_step=charge", 403},
		{uploader, "&allow_secret=PAY%3Dapi.example.com,Authorization", 403},
		{own, "&allow_http=api.example.com", 201}, {own, "&allow_http=*.example.com", 201}, {own, "&allow_step=charge", 201},
		{own, "&allow_secret=PAY%3Dapi.example.com,Authorization", 403},
		{own, "&allow_http=http://127.0.0.1:8080", 403}, {own, "&allow_http=http://localhost:8080", 403},
		{own, "&allow_http=http://[::1]:8080", 403}, {own, "&allow_http=http://10.0.0.1", 403},
		{all, "&allow_http=http://127.0.0.1:8080", 201}, {all, "&allow_secret=PAY%3Dapi.example.com,Authorization", 201},
	} {
		w := a.call(c.token, http.MethodPut, "/v1/workflows/w/versions?namespace=team-a"+c.query, wasm)
		code := ""
		if c.status == 403 {
			code = "scope"
		}
		t.Log(c.query)
		a.is(w, c.status, code)
	}
	for name, want := range map[string]bool{"127.1": true, "http://0x7f000001:80": true, "https://2130706433": true, "x.localhost": true,
		"cafe.de": false, "*.example.com": false, "https://api.example.com:8443": false, "[::ffff:127.0.0.1]:80": true} {
		if ownAddress(name) != want {
			t.Errorf("%q names an address: %v", name, !want)
		}
	}
}
