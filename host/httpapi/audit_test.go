package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host"
)

// The parts of a record that a caller controls are bounded as written to the log, after JSON escapes.
func TestAuditRecordIsBounded(t *testing.T) {
	for _, c := range []string{"<", "\x01", "\"", "\u2028", "\x80", "a", "ö", "\x7f"} {
		long := strings.Repeat(c, 20_000)
		r := Record{Path: recorded(long), Query: recorded(long)}
		b, err := json.Marshal(r)
		if err != nil || len(b) > 2*maxAuditBytes+250 || c != "\x80" && len(r.Path) < maxAuditBytes/8 {
			t.Errorf("%q: %d bytes, %d of the path, %v", c, len(b), len(r.Path), err)
		}
	}
	if got := recorded("/v1/runs/r1/cancel"); got != "/v1/runs/r1/cancel" {
		t.Error(got)
	}
}

// A token in the wrong place of a request does not reach the log, escaped or not.
func TestAuditHidesTokens(t *testing.T) {
	a := newAPI(t, Access{})
	text := a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeRead}})
	escaped := "%57fh%5f" + url.QueryEscape(text[len("wfh_"):])
	for _, target := range []string{"/v1/tokens/" + text, "/v1/tokens/" + escaped, "/v1/tokens/x?token=" + text,
		"/v1/tokens/x?token=" + escaped} {
		n := len(a.records)
		a.call(local, http.MethodDelete, target, "")
		if len(a.records) != n+1 {
			t.Fatalf("%s is not recorded", target)
		}
		b, err := json.Marshal(a.records[n])
		if err != nil || strings.Contains(string(b), text[10:20]) {
			t.Errorf("%s: %s", target, b)
		}
	}
}

// A flood of refused requests is counted instead of filling the log; all changes are logged.
func TestAuditFlood(t *testing.T) {
	a := newAPI(t, Access{})
	flood := func(n int) {
		for range n {
			a.call(a.t.Name(), http.MethodPost, "/v1/runs/none/cancel", "", "X", "1")
		}
	}
	text := a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeRead}})
	refused := func() (records, omitted int) {
		for _, r := range a.records {
			if r.Refused {
				records, omitted = records+1, omitted+r.Omitted
			}
		}
		return records, omitted
	}
	for range 500 {
		a.call(text, http.MethodPost, "/v1/runs/none/cancel", "")
	}
	flood(10)
	if records, _ := refused(); records < callerRefusalsAtOnce || records > 100 {
		t.Errorf("%d refused requests are recorded", records)
	}
	if _, omitted := refused(); omitted < 300 { // the first record of another caller has the count
		t.Errorf("%d requests were counted of 500", omitted)
	}
	before := len(a.records)
	for range 100 {
		a.is(a.call(local, http.MethodPost, "/v1/tokens", `{"scopes":["read"]}`), http.StatusCreated, "")
	}
	if n := len(a.records) - before; n != 100 || a.records[before].Refused {
		t.Errorf("%d of 100 changes are recorded", n)
	}
}

// An answer that is cut in the middle leaves a record that says so.
func TestAuditOfACut(t *testing.T) {
	a := newAPI(t, Access{})
	scopes["POST /test/cut"] = host.ScopeAdmin
	defer delete(scopes, "POST /test/cut")
	guarded{a.API}.HandleFunc("POST /test/cut", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("a part"))
		panic(http.ErrAbortHandler)
	})
	func() {
		defer func() {
			if recover() != http.ErrAbortHandler { //nolint:errorlint // a value of panic
				t.Error("the panic was swallowed")
			}
		}()
		a.call(local, http.MethodPost, "/test/cut", "")
	}()
	if len(a.records) != 1 || !a.records[0].Cut || a.records[0].Refused || a.records[0].Endpoint != "POST /test/cut" {
		t.Errorf("%+v", a.records)
	}
	a.call(local, http.MethodPost, "/v1/tokens", `{"scopes":["read"]}`)
	if r := a.records[len(a.records)-1]; r.Cut {
		t.Errorf("%+v", r)
	}
}

// The address is the last entry of the last header line, which the proxy wrote. Earlier entries are claims of the
// caller.
func TestForwardedAddress(t *testing.T) {
	a := newAPI(t, Access{Proxy: true})
	for _, x := range []struct {
		lines []string
		want  string
	}{{[]string{"198.51.100.7"}, "198.51.100.7"}, {[]string{"203.0.113.1, 198.51.100.7"}, "198.51.100.7"},
		{[]string{"203.0.113.1", "198.51.100.7"}, "198.51.100.7"}, {[]string{"203.0.113.1", "203.0.113.2, 198.51.100.7"}, "198.51.100.7"},
		{[]string{"203.0.113.1", "x"}, "192.0.2.1"}, {nil, "192.0.2.1"}} {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "http://127.0.0.1:7777/v1/runs", nil)
		for _, line := range x.lines {
			r.Header.Add("X-Forwarded-For", line)
		}
		if got := a.addressOf(r); got != x.want {
			t.Errorf("%q: %s, want %s", x.lines, got, x.want)
		}
	}
}
