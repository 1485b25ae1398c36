package httpapi

import (
	"errors"
	"net/http"
	"os"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/host"
)

// Endpoints that move runs between installations. A move changes the run, so it is a POST: a page could make a browser
// send a GET.
const (
	importPattern = "POST /v1/runs:import"
	movePattern   = "POST /v1/runs/{id}/move"
)

// importSwitches are the parameters of an import.
var importSwitches = []struct {
	name, doc string
	of        func(*host.ImportOptions) *bool
}{
	{"adopt", "the run goes on here; without it, it is a copy to look at", func(o *host.ImportOptions) *bool { return &o.Adopt }},
	{"paused", "with adopt: it is paused at first", func(o *host.ImportOptions) *bool { return &o.Paused }},
	{"force", "with adopt: also a live run that was not moved", func(o *host.ImportOptions) *bool { return &o.Force }},
}

// describeImport documents the import, which is not an operation of huma, since its body is streamed.
func describeImport(api huma.API) {
	op := &huma.Operation{OperationID: "import-run", Method: http.MethodPost, Path: "/v1/runs:import",
		Summary: "Store an exported run, as a copy or to go on here",
		RequestBody: &huma.RequestBody{Required: true, Description: "what the export of a run has written",
			Content: map[string]*huma.MediaType{archiveType: {Schema: &huma.Schema{Type: "string", Format: "binary"}}}}}
	run := &huma.MediaType{Schema: api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[host.Run](), true, "")}
	op.Responses = map[string]*huma.Response{
		"201": {Description: "the run was stored", Content: map[string]*huma.MediaType{"application/json": run}},
		"200": {Description: "the same run came before", Content: map[string]*huma.MediaType{"application/json": run}}}
	for _, s := range importSwitches {
		op.Parameters = append(op.Parameters, &huma.Param{Name: s.name, In: "query", Description: s.doc,
			Schema: &huma.Schema{Type: "boolean"}})
	}
	api.OpenAPI().AddOperation(op)
}

// importRun stores a run. It streams the body, and never holds it in memory as a whole.
func (s *API) importRun(w http.ResponseWriter, r *http.Request) {
	var opts host.ImportOptions
	for _, x := range importSwitches {
		text := r.URL.Query().Get(x.name)
		if text == "" {
			continue
		}
		on, err := strconv.ParseBool(text)
		if err != nil {
			writeProblem(w, problem(http.StatusBadRequest, "invalid", "%s must be true or false, got %.80q", x.name, text))
			return
		}
		*x.of(&opts) = on
	}
	run, err := namespaceFrom(r.Context()).Import(r.Context(), http.MaxBytesReader(w, r.Body, host.MaxArchiveBytes), opts)
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case large, errors.Is(err, os.ErrDeadlineExceeded):
		writeProblem(w, badBody(err, host.MaxArchiveBytes))
		return
	case err != nil:
		writeProblem(w, failedFor(r.Context(), err))
		return
	}
	b, err := marshal(run)
	if err != nil {
		writeProblem(w, failed(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if !run.Existed {
		w.WriteHeader(http.StatusCreated)
	}
	_, _ = w.Write(append(b, '\n')) // the client may be gone
}
