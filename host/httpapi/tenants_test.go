package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// A name that one tenant uses, and one that does not exist, of the same length. The marker is in payloads.
const (
	theirs = "its-own-thing"
	nobody = "no-such-thing"
	marker = "MARKER"
)

// newTenants is a server with the namespaces a, which has one of everything, and b.
func newTenants(t *testing.T) *api {
	t.Helper()
	a := newAPI(t, Access{})
	a.misses.SetLimit(1e9)
	m := wasmgen.New(0).Text(theirs).Text(marker).Call(abi.FnEmit).Drop().I32(1).Text(marker).Call(abi.FnLog).Drop()
	m.Text(theirs).Text(theirs).I32(0).I32(0).Call(abi.FnHookStart).Drop()
	a.upload("a", theirs, m.Text("day").I64(86_400_000).Call(abi.FnSleep).Drop().I32(0))
	a.upload("b", "other", nap())
	for _, c := range [][3]string{
		{http.MethodPost, "/v1/workflows/" + theirs + "/runs", `{"id":"` + theirs + `","input":"` + marker + `","attributes":{"k":"` + marker + `"}}`},
		{http.MethodPost, "/v1/schedules", `{"id":"` + theirs + `","workflow":"` + theirs + `","when":"@monthly","input":"` + marker + `"}`},
		{http.MethodPut, "/v1/limits/" + theirs, `{"concurrency":["77777"]}`},
		{http.MethodPut, "/v1/handler-limits/" + theirs, `{"concurrency":["77777"]}`},
		{http.MethodPut, "/v1/start-windows/" + theirs, `{"throttle":"77777s"}`},
		{http.MethodPut, "/v1/retention/" + theirs, `{"keep":77777}`}, {http.MethodPut, "/v1/namespaces/a", `{"max_runs":77777,"requests_per_second":1}`},
	} {
		w := a.call(local, c[0], c[1]+"?namespace=a", c[2], "Content-Type", "application/json")
		if w.Code/100 != 2 {
			t.Fatal(w.Code, w.Body)
		}
	}
	return a
}

// bodyFor returns a body for an endpoint, with its content type.
func bodyFor(pattern, name string) (body, kind string) {
	switch pattern {
	case uploadPattern, checkPattern:
		return string(nap().Export(abi.ExportRun).Bytes()), "application/wasm"
	case importPattern:
		return "no archive", archiveType
	case "POST /v1/tokens":
		return `{"scopes":["read"],"namespace":"b"}`, "application/json"
	case "PUT /v1/retention/{workflow}":
		return `{"keep":3}`, "application/json"
	case "PUT " + startWindowPath:
		return `{"throttle":"1h"}`, "application/json"
	case "PUT " + limitsPath, "PUT " + handlerLimitsPath:
		return `{"rate":["3/1m"]}`, "application/json"
	case "POST /v1/schedules":
		return fmt.Sprintf(`{"id":%q,"workflow":"other","when":"@daily"}`, name), "application/json"
	case "PUT /v1/schedules/{schedule}":
		return `{"workflow":"other","when":"@daily"}`, "application/json"
	case "POST /v1/schedules/{schedule}/backfill":
		return `{"from":"2025-01-01T00:00:00Z","to":"2025-01-02T00:00:00Z"}`, "application/json"
	case "POST /v1/runs:bulk":
		return fmt.Sprintf(`{"action":"terminate","ids":[%q]}`, name), "application/json"
	case "POST /v1/workflows/{workflow}/migrate":
		return `{"to":1}`, "application/json"
	case attemptPattern + "/fail":
		return `{"message":"x"}`, "application/json"
	case quotaPattern:
		return `{"max_runs":3}`, "application/json"
	}
	return "{}", "application/json"
}

// random matches what differs between two equal answers: ids of runs and tokens, and tokens.
var random = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|wfh_[\w-]+|"id":"[^"]*"|tokens/\w+`)

// began matches the time in the first event of a stream.
var began = regexp.MustCompile(`(event: begin\n)data: [^\n]*`)

// TestTenantsOverHTTP calls every endpoint with a tenant's token: in its own namespace with names that another tenant
// uses and with names that do not exist, and in the other tenant's namespace and in one that does not exist. The
// answers differ only in the names, reveal nothing of the other tenant, and change nothing.
func TestTenantsOverHTTP(t *testing.T) {
	for _, pattern := range slices.Sorted(maps.Keys(scopes)) {
		a := newTenants(t)
		token := a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeAdmin}, Namespace: "b"})
		owned := func() (all string) {
			for _, path := range []string{"/v1/runs", "/v1/runs/" + theirs, "/v1/runs/" + theirs + "/journal", "/v1/runs/" + theirs + "/logs",
				"/v1/runs/" + theirs + "/output", "/v1/workflows", "/v1/timers", "/v1/retention", "/v1/schedules", "/v1/limits", "/v1/handler-limits", "/v1/start-windows",
				"/v1/runs:count"} {
				all += a.call(local, http.MethodGet, path+"?namespace=a", "").Body.String()
			}
			return all
		}
		before := owned()
		if !strings.Contains(before, marker) || !strings.Contains(before, "77777") {
			t.Fatal(before)
		}
		ask := func(name, query string) string {
			method, path, _ := strings.Cut(pattern, " ")
			path = strings.NewReplacer("{workflow}", name, "{id}", name, "{schedule}", name, "{name}", name, "{version}", "1", "{token}", name,
				"{handler}", "charge", "{lease}", name, "{schema}", "Run.json").Replace(path)
			body, kind := bodyFor(pattern, name)
			w := a.call(token, method, path+query, body, "Content-Type", kind)
			text := fmt.Sprint(w.Code, " ", w.Body)
			if strings.Contains(text, marker) || strings.Contains(text, "77777") {
				t.Errorf("%s%s says what another tenant has: %s", pattern, query, text)
			}
			return began.ReplaceAllString(random.ReplaceAllString(text, "ID"), "$1")
		}
		same := func(what, with, without string) {
			t.Helper()
			if with != without {
				t.Errorf("%s: %s\n%s\n%s", pattern, what, with, without)
			}
		}
		without, with := ask(nobody, "?namespace=b"), ask(theirs, "?namespace=b")
		same("what nobody has, and what another tenant has", strings.ReplaceAll(without, nobody, theirs), with)
		name := theirs
		if pattern == deliverPattern { // a delivery needs only the hook's token, in any namespace
			name = nobody
		}
		without, with = ask(name, "?namespace=x"), ask(name, "?namespace=a")
		if scopes[pattern] != public && !everywhere[pattern] && !whole[pattern] && !strings.HasPrefix(with, "403") {
			t.Errorf("%s in the namespace of another tenant: %s", pattern, with)
		}
		same("a namespace that does not exist, and that of another tenant", strings.ReplaceAll(without, `\"x\"`, `\"a\"`), with)
		same("what the other tenant has, before and after", before, owned())
	}
}

// TestHookOfAnotherTenant delivers to a token in the namespace of its holder, and in others, where it is unknown.
func TestHookOfAnotherTenant(t *testing.T) {
	a := newTenants(t)
	for _, c := range []struct {
		query  string
		status int
	}{{"?namespace=b", http.StatusNotFound}, {"", http.StatusNotFound}, {"?namespace=x", http.StatusNotFound}, {"?namespace=a", http.StatusAccepted}} {
		if w := a.call("", http.MethodPost, "/v1/hooks/"+theirs+c.query, "{}"); w.Code/100 != c.status/100 {
			t.Errorf("%s: %d %s", c.query, w.Code, w.Body)
		}
	}
}
