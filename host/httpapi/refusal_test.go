package httpapi_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/httpapi"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// listens is a module with a workflow that lists the signals that it receives, and waits for one.
func listens(description string) []byte {
	m := wasmgen.New(0)
	if description != "" {
		m.Text(description).Call(abi.FnComplete).Drop().Export(abi.ExportDescribe)
	}
	return m.Text("go").I64(-1).I32(0).I32(0).Call(abi.FnSignalWait).Drop().I32(0).Export(abi.ExportRun).Bytes()
}

// TestRefusals makes requests that are refused. Each answer is a problem document with a code.
func TestRefusals(t *testing.T) {
	ctx := context.Background()
	h := hosttest.New(t)
	_, err := h.Upload(ctx, "listens", listens(`{"workflows":[{"name":"listens","signals":["go","stop"]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.Upload(ctx, "takes", listens(""))
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.Upload(ctx, "typed", listens(`{"workflows":[{"name":"typed","input_schema":{"properties":{"n":{"type":"integer"}}},`+
		`"output_schema":{"$ref":"#/$defs/r","$defs":{"r":{"type":"string"}}},"signals":["go"],"signal_schemas":{"go":{"type":"string"}}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Start(ctx, "typed", nil, host.WithRunID("typed")); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"declared", "open", ".."} {
		workflow := map[string]string{"declared": "listens"}[id]
		if workflow == "" {
			workflow = "takes"
		}
		if _, err := h.Start(ctx, workflow, nil, host.WithRunID(id)); err != nil {
			t.Fatal(err)
		}
	}
	h.Settle()
	s := httptest.NewServer(httpapi.New(h.Host, httpapi.Access{Open: true}))
	defer s.Close()
	for _, c := range []struct {
		method, path, body string
		status             int
		code, detail       string
	}{
		{"GET", "/v1/nothing", "", 404, "not_found", "there is nothing at"},
		{"GET", "/", "", 404, "not_found", "there is nothing at"},
		{"DELETE", "/v1/workflows", "", 405, "method_not_allowed", "only GET"},
		{"PUT", "/v1/runs/open/cancel", "", 405, "method_not_allowed", "only POST"},
		{"GET", "/v1/runs?limit=abc", "", 422, "invalid", "query.limit: invalid integer"},
		{"GET", "/v1/runs?limit=", "", 200, "", ""},
		{"POST", "/v1/runs:bulk", `{"action":"explode"}`, 422, "invalid", "body.action"},
		{"POST", "/v1/runs:bulk", `{`, 400, "invalid", ""},
		{"DELETE", "/v1/workflows/takes/versions/4294967297", "", 422, "invalid", "path.version"},
		{"POST", "/v1/runs/open/retry?version=4294967297", "", 422, "invalid", "query.version"},
		{"POST", "/v1/runs/open/retry?version=x", "", 422, "invalid", "query.version"},
		{"POST", "/v1/workflows/takes/runs", "null", 400, "invalid", `must be a start request, a JSON object, got "null"`},
		{"POST", "/v1/workflows/takes/runs", "[]", 400, "invalid", "JSON object"},
		{"POST", "/v1/workflows/takes/runs", " \n{}", 201, "", ""},
		{"POST", "/v1/workflows/takes/runs", "", 201, "", ""},
		{"GET", "/v1/runs?attr.k=a&attr.k=b", "", 400, "invalid", `"k" is given 2 times`},
		{"GET", "/v1/runs?attr.k=a&attr.l=b", "", 200, "", ""},
		{"GET", "/v1/runs/%2E%2E", "", 200, "", ""},
		{"POST", "/v1/runs/%2E%2E/pause", "", 200, "", ""},
		{"POST", "/v1/runs/declared/signals/nobody", `1`, 422, "invalid", `receives the signals ["go" "stop"], got "nobody"`},
		{"POST", "/v1/runs/declared/signals/go", `{"a":`, 422, "invalid", `payload of signal "go" must be JSON`},
		{"POST", "/v1/workflows/listens/runs", `{"signal":{"name":"nobody"}}`, 422, "invalid", `got "nobody"`},
		{"POST", "/v1/workflows/listens/runs", `{"signal":{"name":"go","payload":1}}`, 201, "", ""},
		{"POST", "/v1/runs/declared/signals/stop", ``, 202, "", ""},
		{"POST", "/v1/runs/declared/signals/go", `{"a":1}`, 202, "", ""},
		{"POST", "/v1/runs/open/signals/whatever", `{"a":`, 202, "", ""},
		{"POST", "/v1/workflows/typed/runs", `{"input":{"n":"x"}}`, 422, "schema", `input of workflow "typed": /n: must be integer, got string`},
		{"POST", "/v1/workflows/typed/runs", `{"signal":{"name":"go","payload":1}}`, 422, "schema", `payload of signal "go": must be string`},
		{"POST", "/v1/workflows/typed/runs", `{"input":{"n":1}}`, 201, "", ""},
		{"POST", "/v1/runs/typed/signals/go", `1`, 422, "schema", `payload of signal "go": must be string, got number`},
		{"GET", "/v1/workflows/typed/schemas", "", 200, "", ""},
		{"GET", "/v1/workflows/typed/schemas?version=2", "", 404, "not_found", ""},
		{"GET", "/v1/workflows/nobody/schemas", "", 404, "not_found", ""},
		{"GET", "/v1/workflows/typed/openapi.json", "", 200, "", ""},
		{"GET", "/v1/workflows/nobody/openapi.json", "", 404, "not_found", ""},
		{"POST", "/v1/runs/nobody/signals/go", `1`, 404, "not_found", ""},
		{"POST", "/v1/workflows/nobody/runs", `{"signal":{"name":"go"}}`, 404, "not_found", ""},
	} {
		req, err := http.NewRequestWithContext(ctx, c.method, s.URL+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		var p httpapi.Problem
		_ = json.Unmarshal(b, &p) // some answers have no body, or not a problem
		if err != nil || res.StatusCode != c.status {
			t.Errorf("%s %s %s: %d %s, want %d", c.method, c.path, c.body, res.StatusCode, b, c.status)
			continue
		}
		if c.status < 400 {
			continue
		}
		if p.Code != c.code || p.Status != c.status || p.Title != http.StatusText(c.status) || !strings.Contains(p.Detail, c.detail) || p.Detail == "" ||
			res.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s %s: %s %s, want %s and %q", c.method, c.path, c.body, res.Header.Get("Content-Type"), b, c.code, c.detail)
		}
		if (c.status == http.StatusMethodNotAllowed) != (res.Header.Get("Allow") != "") {
			t.Errorf("%s %s: Allow is %q", c.method, c.path, res.Header.Get("Allow"))
		}
	}
	versions, err := h.Workflows().LiveVersions(ctx, "listens")
	if err != nil || len(versions) != 1 || strings.Join(versions[0].Signals, " ") != "go stop" {
		t.Error(versions, err)
	}
}
