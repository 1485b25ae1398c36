package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/definition"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

const napText = `name: nap
version: '1.2'
steps:
  - {name: nap, type: wait, duration: 3d}
  - {name: hello, handler: sendEmail, config: {to: "${input.email}"}}
`

// newDefining returns an API with the interpreter.
func newDefining(t *testing.T) *api {
	a := newAPI(t, Access{})
	WithInterpreter(func(context.Context) ([]byte, error) {
		return hosttest.Build(t, "../../definition/interpreter"), nil
	})(a.API)
	return a
}

// define posts a definition, and decodes the answer.
func (a *api) define(token, query, text, kind string, status int) (out Defined) {
	a.t.Helper()
	w := a.call(token, http.MethodPost, "/v1/definitions"+query, text, "Content-Type", kind)
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != status {
		a.t.Fatalf("%s: %d %s, want %d", query, w.Code, w.Body, status)
	}
	return out
}

// TestDefine checks a definition, uploads it, and migrates its runs.
func TestDefine(t *testing.T) {
	if testing.Short() {
		t.Skip("each upload compiles a module")
	}
	a := newDefining(t)
	out := a.define(local, "?check=true", napText, "application/yaml; charset=utf-8", http.StatusOK)
	if out.Workflow != "nap" || out.Version != "1.2" || out.Steps != 2 || strings.Join(out.Handlers, " ") != "sendEmail" || out.Versions != nil {
		t.Fatalf("%+v", out)
	}
	a.is(a.call(local, http.MethodGet, "/v1/workflows/nap", ""), http.StatusNotFound, "not_found")
	out = a.define(local, "", napText, "application/yaml", http.StatusCreated)
	if len(out.Versions) != 1 || out.Versions[0].Number != 1 || strings.Join(out.Missing, " ") != "sendEmail" {
		t.Fatalf("%+v", out)
	}
	out = a.define(local, "?allow_step=sendEmail", napText, "text/yaml", http.StatusCreated)
	if out.Versions[0].Number != 2 || out.Missing != nil {
		t.Fatalf("%+v", out)
	}
	if w := a.call(local, http.MethodPost, "/v1/workflows/nap/runs", `{"id":"r","input":{"email":"a@example.com"}}`); w.Code/100 != 2 {
		t.Fatal(w.Code, w.Body)
	}
	// Another text, as JSON, keeps the grants. The sleeping run continues under it.
	text := `{"name":"nap","steps":[{"name":"nap","type":"wait","duration":"3d"},{"name":"bye","handler":"sendEmail"}]}`
	out = a.define(local, "?migrate=true", text, "application/json", http.StatusCreated)
	if m := out.Migration; out.Versions[0].Number != 3 || out.Missing != nil || m == nil || m.Summary.Migrated != 1 || m.Left != nil {
		t.Fatalf("%+v %+v", out, out.Migration)
	}
	out = a.define(local, "?migrate=true", strings.Replace(text, "3d", "4d", 1), "application/json", http.StatusCreated)
	if m := out.Migration; m == nil || m.Summary.Migrated+int64(len(m.Left)) != 1 {
		t.Fatalf("%+v %+v", out, out.Migration)
	}
	out = a.define(local, "", strings.Replace(text, "3d", "4d", 1), "application/json", http.StatusOK) // the same again
	if out.Versions[0].New || out.Versions[0].Number != 4 {
		t.Fatalf("%+v", out)
	}
}

// TestDefineRefused refuses bad definitions with the position of each fault, and callers without the scope.
func TestDefineRefused(t *testing.T) {
	a := newDefining(t)
	post := func(token, query, text, kind string) (p Problem) {
		t.Helper()
		w := a.call(token, http.MethodPost, "/v1/definitions"+query, text, "Content-Type", kind)
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != p.Status {
			t.Fatal(w.Code, w.Body, err)
		}
		return p
	}
	bad := "name: bad\ninput_schema: {type: nothing}\nsteps:\n  - name: a\n    type: wait\n    durationms: 010\n"
	p := post(local, "", strings.Replace(bad, "010", "8", 1), "application/yaml")
	if p.Status != http.StatusBadRequest || p.Code != "definition" || len(p.Faults) != 3 || p.Faults[0].Line != 2 || p.Faults[0].Pointer != "/input_schema" ||
		p.Faults[2] != (Fault{"/steps/0/durationms", 6, p.Faults[2].Message}) || !strings.Contains(p.Detail, "line 2: /input_schema: the schema is none") {
		t.Errorf("%+v", p)
	}
	uploader := a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeUpload}})
	reader := a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeRead, host.ScopeOperate, host.ScopeRun}})
	for _, c := range []struct {
		token, query, text, kind string
		status                   int
		code                     string
	}{
		{local, "", bad, "application/yaml", 400, "definition"},
		{local, "", napText, "application/json", 400, "definition"},
		{local, "", " ", "application/json", 400, "definition"},
		{local, "", napText, "application/wasm", 415, "content_type"},
		{local, "", napText, "text/plain", 415, "content_type"},
		{local, "", strings.Repeat(" ", definition.MaxBytes) + "{}", "application/json", 413, "limit"},
		{local, "", strings.Repeat(" ", definition.MaxBytes-1) + "{}", "application/json", 413, "limit"},
		{local, "?check=true&migrate=true", napText, "application/yaml", 400, "invalid"},
		{local, "?checks=true", napText, "application/yaml", 400, "invalid"},
		{uploader, "?migrate=true", napText, "application/yaml", 403, "scope"},
		{uploader, "?allow_step=sendEmail", napText, "application/yaml", 403, "scope"},
		{uploader, "?check=true&allow_http=example.com", napText, "application/yaml", 403, "scope"},
		{reader, "?check=true", napText, "application/yaml", 403, "scope"},
		{"", "?check=true", napText, "application/yaml", 401, "unauthorized"},
	} {
		if p := post(c.token, c.query, c.text, c.kind); p.Status != c.status || p.Code != c.code {
			t.Errorf("%s %s %.20q: %+v", c.query, c.kind, c.text, p)
		}
	}
	WithInterpreter(func(context.Context) ([]byte, error) { return nil, errors.New("there is no interpreter here") })(a.API)
	if p := post(local, "", napText, "application/yaml"); p.Status != http.StatusNotImplemented || p.Code != "interpreter" {
		t.Errorf("%+v", p)
	}
	a.define(uploader, "?check=true", napText, "application/yaml", http.StatusOK) // which needs none
}
