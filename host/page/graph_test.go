package page

import (
	"net/http"
	"strings"
	"testing"
	"time"

	defining "github.com/wfhost/wfhost/definition/module"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// drawing is a definition with a loop, a branch, and a name that would be markup elsewhere.
const drawing = `{"name":"parcel","version":"1","steps":[
	{"name":"charge","handler":"charge","retry":{"attempts":1},"on_failure":"tell"},
	{"name":"a long name <b>that</b> has no room in its box","type":"wait","duration":"1h"},
	{"name":"ask","type":"approval","prompt":"ship it?"},
	{"name":"tell","type":"set","values":{"told":true}}]}`

// define uploads a definition.
func (s *site) define(text string) {
	s.t.Helper()
	wasm, err := defining.Make(hosttest.Build(s.t, "../../definition/interpreter"), []byte(text))
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.h.UploadAll(ctx, "", wasm, host.AllowStep("*")); err != nil {
		s.t.Fatal(err)
	}
}

// TestGraph draws the run of a definition, before and after a wait; the run of a program has no graph.
func TestGraph(t *testing.T) {
	s := openSite(t)
	s.define(drawing)
	s.start("parcel", "p", map[string]any{})
	s.h.Settle()
	if page := s.get("/runs/p"); !strings.Contains(page, `href="/runs/p/graph"`) {
		t.Error("no tab leads to the graph")
	}
	page := s.get("/runs/p/graph")
	for _, want := range []string{`class="node n-completed"><title>charge: completed`, `class="node n-running"><title>a long name &lt;b&gt;that`,
		"a long name &lt;b&gt;that&lt;/b&gt;…</text>", `n-none"><title>ask: not begun`, `class="edge aside"`, ">fails</text>", "approval</text>"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in %s", want, page)
		}
	}
	if strings.Contains(page, "<b>that") {
		t.Error("a name is markup")
	}
	s.h.Advance(time.Hour)
	s.h.Settle()
	page = s.get("/runs/p/graph")
	if !strings.Contains(page, `n-running"><title>ask: running`) {
		t.Error(page)
	}
	s.start("order", "o", map[string]any{"item": "lamp"})
	if page := s.get("/runs/o"); strings.Contains(page, "/graph") {
		t.Error("a program has a graph")
	}
	if w := s.request(http.MethodGet, "/runs/o/graph", "", nil); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "no graph") {
		t.Error(w.Code, w.Body)
	}
}
