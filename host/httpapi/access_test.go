package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// local is the local token of the test servers.
const local = "wfh_local"

// api is a test server and what it has recorded.
type api struct {
	*API
	t       *testing.T
	h       *hosttest.Host
	records []Record
}

func newAPI(t *testing.T, access Access) *api {
	a := &api{t: t, h: hosttest.New(t)}
	access.Local = local
	var mu sync.Mutex
	access.Audit = func(r Record) {
		mu.Lock()
		defer mu.Unlock()
		a.records = append(a.records, r)
	}
	a.API = New(a.h.Host, access)
	return a
}

// call makes a request with headers as pairs of name and value; an empty value removes the header.
func (a *api) call(token, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	a.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, method, "http://127.0.0.1:7777"+target, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPut {
		r.Header.Set("Content-Type", "application/wasm")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		switch {
		case headers[i] == "Host":
			r.Host = headers[i+1]
		case headers[i+1] == "":
			r.Header.Del(headers[i])
		default:
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	if r.URL.Path == eventsPath {
		a.ServeHTTP(hangUp{w, cancel}, r)
	} else {
		a.ServeHTTP(w, r)
	}
	a.h.Settle()
	return w
}

// hangUp is a client that disconnects at the first byte of an endless answer.
type hangUp struct {
	*httptest.ResponseRecorder
	cancel context.CancelFunc
}

func (h hangUp) Write(b []byte) (int, error) {
	h.cancel()
	return h.ResponseRecorder.Write(b)
}

func (a *api) token(spec host.TokenSpec) string {
	a.t.Helper()
	text, _, err := a.h.Tokens().Create(context.Background(), spec)
	if err != nil {
		a.t.Fatal(err)
	}
	return text
}

// is checks the status and the code of an answer, and that an error has a sentence.
func (a *api) is(w *httptest.ResponseRecorder, status int, code string) {
	a.t.Helper()
	var p Problem
	_ = json.Unmarshal(w.Body.Bytes(), &p) // other answers have no code
	if w.Code != status || p.Code != code || code != "" && len(strings.Fields(p.Detail)) < 4 {
		a.t.Errorf("%d %s, want %d %s", w.Code, w.Body, status, code)
	}
}

// upload uploads a workflow to a namespace.
func (a *api) upload(namespace, name string, m *wasmgen.Module) {
	a.t.Helper()
	n, err := a.h.Namespace(context.Background(), namespace)
	if err != nil {
		a.t.Fatal(err)
	}
	if _, err := n.Upload(context.Background(), name, m.Export(abi.ExportRun).Bytes()); err != nil {
		a.t.Fatal(err)
	}
}

// TestEveryEndpointHasOneScope calls every endpoint without a token, and with a token of each scope.
func TestEveryEndpointHasOneScope(t *testing.T) {
	a := newAPI(t, Access{})
	tokens := map[host.Scope]string{}
	for _, s := range host.Scopes {
		tokens[s] = a.token(host.TokenSpec{Scopes: []host.Scope{s}})
	}
	var doc struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	w := a.call("", http.MethodGet, "/openapi.json", "")
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || len(doc.Paths) < 20 {
		t.Fatal(err, len(doc.Paths))
	}
	for path, methods := range doc.Paths {
		for method := range methods {
			if _, ok := scopes[strings.ToUpper(method)+" "+path]; !ok {
				t.Errorf("%s %s has no scope", method, path)
			}
		}
	}
	fill := strings.NewReplacer("{workflow}", "w", "{id}", "r", "{name}", "n", "{version}", "1", "{token}", "0123456789ab", "{schema}", "Run.json")
	for pattern, scope := range scopes {
		method, path, _ := strings.Cut(pattern, " ")
		path = fill.Replace(path)
		if w := a.call("", method, path, ""); (w.Code == http.StatusUnauthorized) != (scope != public) {
			t.Errorf("%s without a token: %d %s", pattern, w.Code, w.Body)
		}
		for s, token := range tokens {
			a.denials = newRates(0, 0)
			w := a.call(token, method, path, "")
			want := scope == public || s == scope && also[pattern] == "" || s == host.ScopeAdmin
			if got := w.Code != http.StatusForbidden && w.Code != http.StatusUnauthorized; got != want || w.Code >= http.StatusInternalServerError {
				t.Errorf("%s with the scope %s: %d %s", pattern, s, w.Code, w.Body)
			}
		}
		if second, ok := also[pattern]; ok {
			both := a.token(host.TokenSpec{Scopes: []host.Scope{scope, second}})
			if w := a.call(both, method, path, ""); w.Code == http.StatusForbidden {
				t.Errorf("%s with both of its scopes: %d %s", pattern, w.Code, w.Body)
			}
		}
		if w := a.call(local, method, path, ""); w.Code == http.StatusForbidden || w.Code == http.StatusUnauthorized {
			t.Errorf("%s with the local token: %d %s", pattern, w.Code, w.Body)
		}
	}
}

// TestNoEndpointWithoutScope registers one.
func TestNoEndpointWithoutScope(t *testing.T) {
	a := newAPI(t, Access{})
	defer func() {
		if recover() == nil {
			t.Error("an endpoint without a scope was registered")
		}
	}()
	guarded{a.API}.HandleFunc("GET /v1/new", func(http.ResponseWriter, *http.Request) {})
}

// TestForeignPages makes requests as web pages do, with the local token, so that only the origin decides.
func TestForeignPages(t *testing.T) {
	a := newAPI(t, Access{Hosts: []string{"wf.example.com"}, Origins: []string{"https://app.example.com"}})
	for _, c := range []struct {
		host, origin, site string
		status             int
		code               string
	}{
		{"127.0.0.1:7777", "", "", 200, ""}, {"localhost:7777", "", "", 200, ""}, {"[::1]:7777", "", "", 200, ""},
		{"LOCALHOST", "", "", 200, ""}, {"[::1]", "", "", 200, ""}, {"wf.example.com:7777", "", "", 200, ""}, {"10.1.2.3", "", "", 200, ""},
		{"127.0.0.1:7777", "http://127.0.0.1:7777", "same-origin", 200, ""},
		{"127.0.0.1:7777", "https://app.example.com", "cross-site", 200, ""},
		{"evil.example:7777", "", "", 421, "host"}, {"evil.example:7777", "http://evil.example:7777", "same-origin", 421, "host"},
		{"127.0.0.1.evil.example", "", "", 421, "host"}, {"localhost.evil.example:7777", "", "", 421, "host"}, {"", "", "", 421, "host"},
		{"127.0.0.1:7777", "https://evil.example", "", 403, "origin"}, {"127.0.0.1:7777", "null", "", 403, "origin"},
		{"127.0.0.1:7777", "http://127.0.0.1:8080", "", 403, "origin"}, {"127.0.0.1:7777", "http://localhost:7777", "", 403, "origin"},
		{"127.0.0.1:7777", "", "cross-site", 403, "origin"}, {"127.0.0.1:7777", "https://app.example.com.evil.example", "", 403, "origin"},
	} {
		w := a.call(local, http.MethodGet, "/v1/workflows", "", "Host", c.host, "Origin", c.origin, "Sec-Fetch-Site", c.site)
		if a.is(w, c.status, c.code); t.Failed() {
			t.Fatalf("%+v", c)
		}
	}
	w := a.call("", http.MethodOptions, "/v1/runs", "", "Origin", "https://app.example.com", "Access-Control-Request-Method", "GET")
	if w.Code != http.StatusNoContent || w.Header().Get("Access-Control-Allow-Origin") != "https://app.example.com" ||
		!strings.Contains(w.Header().Get("Access-Control-Allow-Headers"), "Authorization") {
		t.Errorf("preflight: %d %v", w.Code, w.Header())
	}
	w = a.call("", http.MethodOptions, "/v1/runs", "", "Origin", "https://evil.example", "Access-Control-Request-Method", "GET")
	if a.is(w, http.StatusForbidden, "origin"); w.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("preflight of a foreign page: %v", w.Header())
	}
	a = newAPI(t, Access{AnyHost: true})
	a.is(a.call(local, http.MethodGet, "/v1/workflows", "", "Host", "any.example"), http.StatusOK, "")
}

// TestBodiesOfPages sends bodies of the types that a web page can send without a preflight.
func TestBodiesOfPages(t *testing.T) {
	a := newAPI(t, Access{})
	a.upload("", "w", wasmgen.New(0).I32(0))
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "json", "application/wasm"} {
		for _, path := range []string{"/v1/workflows/w/runs", "/v1/runs:bulk", "/v1/runs/r/signals/s", "/v1/runs/r/queries/q", "/v1/tokens"} {
			a.is(a.call(local, http.MethodPost, path, "{}", "Content-Type", kind), http.StatusUnsupportedMediaType, "content_type")
		}
	}
	for _, kind := range []string{"text/plain", "application/json", ""} {
		a.is(a.call(local, http.MethodPut, "/v1/workflows/x/versions", "\x00asm", "Content-Type", kind), http.StatusUnsupportedMediaType, "content_type")
	}
	a.is(a.call(local, http.MethodPost, "/v1/workflows/w/runs", "{}", "Content-Type", "application/json; charset=utf-8"), http.StatusCreated, "")
	a.is(a.call(local, http.MethodPost, "/v1/workflows/w/runs", "", "Content-Type", ""), http.StatusCreated, "") // nothing, of no type
}

// TestHookReplies has a workflow return a web page to callers of its hooks.
func TestHookReplies(t *testing.T) {
	for wanted, want := range map[string]string{"text/html": "text/plain; charset=utf-8", "": "text/plain; charset=utf-8",
		"text/html; charset=utf-7": "text/plain; charset=utf-8", "image/svg+xml": "text/plain; charset=utf-8", "application/json": "application/json",
		"application/json; charset=utf-8": "application/json", "text/csv; charset=utf-16": "text/csv; charset=utf-8", "x": "text/plain; charset=utf-8",
		"application/octet-stream": "application/octet-stream", "text/plain; charset=utf-7": "text/plain; charset=utf-8"} {
		if got := replyType(wanted); got != want {
			t.Errorf("%q: %q, want %q", wanted, got, want)
		}
	}
	a := newAPI(t, Access{})
	a.upload("", "w", wasmgen.New(0).Text("hook").Text("chosen-token").
		Text(`{"status":200,"content_type":"text/html","body":"<script>alert(1)</script>"}`).Call(abi.FnHookStart).Drop().
		Text("nap").I64(1000).Call(abi.FnSleep).Drop().I32(0))
	a.is(a.call(local, http.MethodPost, "/v1/workflows/w/runs", `{"id":"r"}`), http.StatusCreated, "")
	// An unknown caller delivers from a web page, under another host name.
	w := a.call("", http.MethodPost, "/v1/hooks/chosen-token", "a=b", "Host", "hooks.example.com", "Origin", "https://evil.example",
		"Content-Type", "application/x-www-form-urlencoded")
	h := w.Header()
	if w.Code != http.StatusOK || h.Get("Content-Type") != "text/plain; charset=utf-8" || h.Get("X-Content-Type-Options") != "nosniff" ||
		!strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") || !strings.Contains(w.Body.String(), "<script>") {
		t.Errorf("%d %v %s", w.Code, h, w.Body)
	}
	if r := a.records[len(a.records)-1]; r.Endpoint != deliverPattern || r.Path != "" || r.Caller != "192.0.2.1" || r.Status != http.StatusOK {
		t.Errorf("%+v", r)
	}
}

// nap is a workflow that sleeps for a second.
func nap() *wasmgen.Module {
	return wasmgen.New(0).Text("nap").I64(1000).Call(abi.FnSleep).Drop().I32(0)
}

// TestTokenOfANamespace uses tokens of one namespace in another namespace.
func TestTokenOfANamespace(t *testing.T) {
	a := newAPI(t, Access{})
	a.upload("", "w", nap())
	a.upload("team-a", "w", nap())
	all := a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeAdmin}})
	own := a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeAdmin}, Namespace: "team-a"})
	def := a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeRead}, Namespace: "default"})
	a.is(a.call(all, http.MethodPost, "/v1/workflows/w/runs", `{"id":"r"}`), http.StatusCreated, "")
	a.is(a.call(own, http.MethodPost, "/v1/workflows/w/runs?namespace=team-a", `{"id":"r"}`), http.StatusCreated, "")
	a.is(a.call(own, http.MethodGet, "/v1/runs/r", ""), http.StatusForbidden, "scope")
	a.is(a.call(own, http.MethodGet, "/v1/runs/r?namespace=default", ""), http.StatusForbidden, "scope")
	a.is(a.call(own, http.MethodGet, "/v1/runs/r?namespace=nope", ""), http.StatusForbidden, "scope") // whether it exists is not said
	a.is(a.call(own, http.MethodGet, "/v1/runs/r?namespace=team-a&namespace=default", ""), http.StatusBadRequest, "invalid")
	a.is(a.call(own, http.MethodGet, "/v1/runs?namespace=team-a&status=failed&status=stuck", ""), http.StatusBadRequest, "invalid")
	a.is(a.call(def, http.MethodGet, "/v1/runs/r", ""), http.StatusOK, "")
	a.is(a.call(def, http.MethodGet, "/v1/runs/r?namespace=team-a", ""), http.StatusForbidden, "scope")
	for token, want := range map[string]string{all: "default team-a", own: "team-a", def: "default"} {
		var list []host.NamespaceInfo
		if err := json.Unmarshal(a.call(token, http.MethodGet, "/v1/namespaces", "").Body.Bytes(), ItemsOf(&list)); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, n := range list {
			names = append(names, n.Name)
		}
		if strings.Join(names, " ") != want {
			t.Errorf("namespaces %v, want %s", names, want)
		}
	}
	a.is(a.call(own, http.MethodPost, "/v1/tokens", `{"scopes":["read"]}`), http.StatusForbidden, "scope")
	a.is(a.call(own, http.MethodPost, "/v1/tokens", `{"scopes":["read"],"namespace":"default"}`), http.StatusForbidden, "scope")
	a.is(a.call(own, http.MethodPost, "/v1/tokens", `{"scopes":["admin"],"namespace":"team-a"}`), http.StatusCreated, "")
	var list []host.Token
	if err := json.Unmarshal(a.call(own, http.MethodGet, "/v1/tokens", "").Body.Bytes(), ItemsOf(&list)); err != nil || len(list) != 2 ||
		list[0].Namespace != "team-a" || list[1].Namespace != "team-a" {
		t.Errorf("tokens %+v %v", list, err)
	}
	allID := idOf(t, a, func(tok host.Token) bool { return tok.Namespace == "" })
	a.is(a.call(own, http.MethodDelete, "/v1/tokens/"+allID, ""), http.StatusNotFound, "not_found")
	a.is(a.call(local, http.MethodDelete, "/v1/tokens/"+allID, ""), http.StatusNoContent, "")
	a.is(a.call(all, http.MethodGet, "/v1/runs/r", ""), http.StatusUnauthorized, "unauthorized")
}

func idOf(t *testing.T, a *api, of func(host.Token) bool) string {
	t.Helper()
	list, err := a.h.Tokens().List(context.Background())
	i := slices.IndexFunc(list, of)
	if err != nil || i < 0 {
		t.Fatal(list, err)
	}
	return list[i].ID
}

// TestCreateToken creates tokens over HTTP, including one that expires.
func TestCreateToken(t *testing.T) {
	a := newAPI(t, Access{})
	for body, want := range map[string]string{`{"scopes":[]}`: "at least one scope", `{"scopes":["x"]}`: "a scope is one of",
		`{"scopes":["read"],"expires":"x"}`: "expires: ", `{"scopes":["read"],"expires":"1ms"}`: "at least 1s", `{}`: "scopes"} {
		w := a.call(local, http.MethodPost, "/v1/tokens", body)
		if w.Code/100 != 4 || !strings.Contains(w.Body.String(), want) || !strings.Contains(w.Body.String(), `"code":"invalid"`) {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	w := a.call(local, http.MethodPost, "/v1/tokens", `{"scopes":["read"],"expires":"30d","name":"ci"}`)
	var made NewToken
	if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || !made.Expires.Equal(hosttest.Epoch.AddDate(0, 0, 30)) {
		t.Fatal(w.Body, err)
	}
	if r := a.records[len(a.records)-1]; r.Caller != "local" || r.Endpoint != "POST /v1/tokens" || r.Status != http.StatusCreated {
		t.Errorf("%+v", r)
	}
	a.is(a.call(made.Text, http.MethodGet, "/v1/runs", ""), http.StatusOK, "")
	n := len(a.records)
	a.is(a.call(made.Text, http.MethodPost, "/v1/runs/r/cancel", ""), http.StatusForbidden, "scope")
	if r := a.records[n]; len(a.records) != n+1 || r.Caller != "token "+made.ID || r.Name != "ci" || r.Status != http.StatusForbidden ||
		r.Path != "/v1/runs/r/cancel" || strings.Contains(w.Header().Get("X"), made.Text) {
		t.Errorf("%+v", a.records[n:])
	}
	a.h.Advance(30 * 24 * 3600 * 1e9)
	if w := a.call(made.Text, http.MethodGet, "/v1/runs", ""); w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "has expired") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestWithoutAToken says how to get a token, and limits how often it answers.
func TestWithoutAToken(t *testing.T) {
	a := newAPI(t, Access{})
	for _, header := range []string{"", "Bearer", "Bearer ", "Bearer wfh_wrong", "Basic " + local, local} {
		w := a.call("", http.MethodGet, "/v1/runs", "", "Authorization", header)
		if a.is(w, http.StatusUnauthorized, "unauthorized"); !strings.Contains(w.Body.String(), "`wfhost token` prints one") ||
			!strings.Contains(w.Header().Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%q: %v %s", header, w.Header(), w.Body)
		}
	}
	for range denialsAtOnce {
		a.call("", http.MethodGet, "/v1/runs", "")
	}
	n := len(a.records)
	w := a.call("", http.MethodGet, "/v1/runs", "")
	if a.is(w, http.StatusTooManyRequests, "busy"); w.Header().Get("Retry-After") == "" || len(a.records) != n {
		t.Errorf("%v, %d records", w.Header(), len(a.records)-n)
	}
	a.is(a.call(local, http.MethodGet, "/v1/runs", ""), http.StatusOK, "") // the right one is not hindered
}

// TestRates makes requests faster than allowed.
func TestRates(t *testing.T) {
	a := newAPI(t, Access{Rate: 0.001, Proxy: true})
	one, two := a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeRead}}), a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeRead}})
	a.is(a.call(one, http.MethodGet, "/v1/runs", ""), http.StatusOK, "")
	w := a.call(one, http.MethodGet, "/v1/runs", "")
	if a.is(w, http.StatusTooManyRequests, "busy"); w.Header().Get("Retry-After") != "1" {
		t.Error(w.Header())
	}
	a.is(a.call(two, http.MethodGet, "/v1/runs", ""), http.StatusOK, "")
	for range 3 {
		a.is(a.call(local, http.MethodGet, "/v1/runs", ""), http.StatusOK, "")
	}
	for _, from := range []string{"10.0.0.1", "evil, 10.0.0.2"} { // callers of hooks are identified by address
		a.is(a.call("", http.MethodPost, "/v1/hooks/abcdefgh", "", "X-Forwarded-For", from), http.StatusNotFound, "not_found")
		a.is(a.call("", http.MethodPost, "/v1/hooks/abcdefgh", "", "X-Forwarded-For", from), http.StatusTooManyRequests, "busy")
	}
	r := newRates(1, 2)
	for i := range maxCallers + 10 {
		r.allow(string(rune(i)) + "x")
	}
	if len(r.by) > maxCallers {
		t.Errorf("%d callers are remembered", len(r.by))
	}
}

// TestWrongHookTokens delivers to unknown tokens: all get the same answer, until there are too many. A caller with
// the right token is not affected.
func TestWrongHookTokens(t *testing.T) {
	a := newAPI(t, Access{})
	a.upload("", "w", wasmgen.New(0).Text("hook").Text("chosen-token").Text(`{"status":200}`).Call(abi.FnHookStart).Drop().
		Text("nap").I64(1000).Call(abi.FnSleep).Drop().I32(0))
	a.is(a.call(local, http.MethodPost, "/v1/workflows/w/runs", `{"id":"r"}`), http.StatusCreated, "")
	hook := func(token string) *httptest.ResponseRecorder {
		return a.call("", http.MethodPost, "/v1/hooks/"+token, "{}")
	}
	a.is(hook("chosen-token"), http.StatusOK, "")
	wrong := []string{"chosen-tokem", "x", strings.Repeat("a", 26) + ".r", strings.Repeat("a", 26) + ".nobody"}
	first := hook(wrong[0])
	for i := range missesAtOnce - 1 {
		w := hook(wrong[i%len(wrong)])
		if a.is(w, http.StatusNotFound, "not_found"); w.Body.String() != first.Body.String() {
			t.Fatalf("%s, and %s", w.Body, first.Body)
		}
	}
	busy := 0
	for range missesAtOnce {
		if w := hook("chosen-tokem"); w.Code == http.StatusTooManyRequests && w.Header().Get("Retry-After") != "" {
			busy++
		}
	}
	if busy < missesAtOnce/2 { // some have come back meanwhile
		t.Errorf("%d of %d more were refused", busy, missesAtOnce)
	}
	a.is(hook("chosen-token"), http.StatusOK, "")
}

// TestDescription says which scope each request needs.
func TestDescription(t *testing.T) {
	w := newAPI(t, Access{}).call("", http.MethodGet, "/openapi.json", "")
	b, _ := io.ReadAll(w.Body)
	for _, want := range []string{`"Scope: admin"`, `"securitySchemes":{"token":{`, `"/v1/tokens/{token}"`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("the description has no %s", want)
		}
	}
}
