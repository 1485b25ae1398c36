package httpapi

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/definition"
	"github.com/wfhost/wfhost/definition/module"
	"github.com/wfhost/wfhost/definition/yamltext"
	"github.com/wfhost/wfhost/host"
)

const (
	definitionsPath = "/v1/definitions"
	definePattern   = "POST " + definitionsPath
	// maxDefinitionBytes bounds the body of a definition to the room in a module.
	maxDefinitionBytes = definition.MaxBytes
	// maxRunsLeft bounds the runs in an answer that a migration left unchanged. Each takes some hundred bytes. A
	// workflow with more runs is migrated by the migration endpoint, whose answer is a stream.
	maxRunsLeft = 100
)

// definitionTypes maps the content types of definitions to whether they are JSON. Before RFC 9512, YAML had several
// names.
var definitionTypes = map[string]bool{"application/json": true, "application/yaml": false, "application/x-yaml": false,
	"text/yaml": false}

// Option is an option of New.
type Option func(*API)

// WithInterpreter sets the function that returns the module of the interpreter of definitions. Default: the
// interpreter that the program was built with, if there is one.
func WithInterpreter(of func(context.Context) ([]byte, error)) Option {
	return func(s *API) { s.interpreter = of }
}

// builtIn returns the interpreter that the program was built with.
func builtIn(context.Context) ([]byte, error) {
	wasm, ok := module.Interpreter()
	if !ok {
		return nil, errors.New("this server was built without an interpreter of definitions; make the module by wfhost define " +
			"--out, and upload that")
	}
	return wasm, nil
}

// ReadDefinition reads a definition in JSON or YAML, and makes all checks of an upload, schemas included. It returns
// the definition and its text as JSON for the module. The error is a definition.Faults.
func ReadDefinition(text []byte, json bool) (*definition.Definition, []byte, error) {
	read := yamltext.Read
	if json {
		read = definition.ReadJSON
	}
	tree, err := read(text)
	if err != nil {
		return nil, nil, definition.AsFaults(err)
	}
	d, err := definition.Parse(tree, definition.CheckSchemas(new(host.SchemaSet).Add))
	if err != nil {
		return nil, nil, err
	}
	return d, tree.JSON(), nil
}

type defineInput struct {
	Grants
	Check   bool   `query:"check" doc:"only check it: nothing is stored"`
	Migrate bool   `query:"migrate" doc:"then have the live runs that fit go on under it; needs the scope operate, too"`
	Type    string `header:"Content-Type" hidden:"true"`
	RawBody []byte `contentType:"application/yaml"`
}

// Defined is the answer to a definition.
type Defined struct {
	Workflow string   `json:"workflow"`
	Version  string   `json:"version,omitempty" doc:"as its author calls it"`
	Steps    int      `json:"steps"`
	Handlers []string `json:"handlers" doc:"that it calls"`
	Warnings []Fault  `json:"warnings"`
	// Missing lists handlers that the workflow calls and its version is not granted: a run fails there.
	Missing   []string       `json:"missing,omitempty" doc:"handlers that it calls, and that its version may not"`
	Versions  []host.Version `json:"versions,omitempty" doc:"of the workflow, the one; none with check"`
	Migration *Migration     `json:"migration,omitempty"`
}

// Migration reports on the live runs of a workflow.
type Migration struct {
	Summary host.CheckSummary `json:"summary"`
	Left    []host.RunCheck   `json:"left,omitempty" doc:"runs that did not go on under the new version, the first 100"`
}

// DescriptionOf summarizes a definition.
func DescriptionOf(d *definition.Definition) *Defined {
	return &Defined{Workflow: d.Name, Version: d.Version, Steps: len(d.Steps), Handlers: d.Handlers(),
		Warnings: faultsOf(d.Warnings)}
}

type defineOutput struct {
	Status int
	Body   *Defined
}

func (s *API) registerDefinitions(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: "define", Method: http.MethodPost, Path: definitionsPath,
		MaxBodyBytes: maxDefinitionBytes + 1,
		Summary:      "Upload a definition, in JSON or in YAML, as the next version of its workflow"}, s.define)
	// JSON is in the description only: huma would validate a body of a type that it knows, and its faults have no
	// lines.
	body := api.OpenAPI().Paths[definitionsPath].Post.RequestBody
	body.Description = "a definition as docs/learn/definitions.md has it; wfhost define --schema prints its JSON Schema"
	body.Content["application/json"] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeObject}}
}

// define builds the module of a definition and uploads it.
func (s *API) define(ctx context.Context, in *defineInput) (*defineOutput, error) {
	who := callerOf(ctx)
	if in.Migrate && !who.Allows(host.ScopeOperate, who.in) {
		return nil, problem(http.StatusForbidden, "scope", "migrate: %s", who.refusal(host.ScopeOperate, who.in))
	}
	if err := in.check(who); err != nil {
		return nil, err
	}
	if in.Check && in.Migrate {
		return nil, problem(http.StatusBadRequest, "invalid", "check stores nothing, so that nothing can migrate to it")
	}
	kind, _, _ := mime.ParseMediaType(in.Type) // checked before; an empty body has no type, and is no definition
	d, text, err := ReadDefinition(in.RawBody, definitionTypes[kind])
	if err != nil {
		return nil, faulty(err)
	}
	out := &defineOutput{Status: http.StatusOK, Body: DescriptionOf(d)}
	if in.Check {
		return out, nil
	}
	wasm, err := s.interpreter(ctx)
	if err == nil {
		wasm, err = module.Make(wasm, text)
	}
	if err != nil {
		return nil, problem(http.StatusNotImplemented, "interpreter", "%v", err)
	}
	versions, err := namespaceFrom(ctx).UploadAll(ctx, d.Name, wasm, in.options()...)
	if err != nil {
		return nil, failed(err)
	}
	out.Body.Versions = versions
	for _, v := range versions { // one element
		out.Body.Missing = d.Missing(v.Steps)
		if v.New {
			out.Status = http.StatusCreated
		}
		if in.Migrate {
			out.Body.Migration, err = migrateTo(ctx, v)
			if err != nil {
				return nil, failed(fmt.Errorf("%s@%d is stored, but its runs were not all migrated: %w", v.Workflow, v.Number, err))
			}
		}
	}
	return out, nil
}

// migrateTo moves the live runs that fit a version to it.
func migrateTo(ctx context.Context, v host.Version) (*Migration, error) {
	who := callerOf(ctx)
	m := &Migration{}
	opts := host.MigrateOptions{To: v.Number, Each: func(r host.RunCheck) error {
		if r.Outcome == host.CheckMigrated || r.Outcome == host.CheckUnchanged || len(m.Left) >= maxRunsLeft {
			return nil
		}
		if !who.Allows(host.ScopeRead, who.in) {
			withoutJournal(&r)
		}
		m.Left = append(m.Left, r)
		return nil
	}}
	var err error
	m.Summary, err = namespaceFrom(ctx).Workflows().Migrate(ctx, v.Workflow, opts)
	return m, err
}

// Fault is one error in an input or a definition.
type Fault struct {
	Pointer string `json:"pointer" doc:"JSON Pointer (RFC 6901)"`
	Line    int    `json:"line,omitempty" doc:"of the text of a definition, from 1"`
	Message string `json:"message"`
}

func faultsOf(list definition.Faults) []Fault {
	out := make([]Fault, len(list))
	for i, f := range list {
		out[i] = Fault{f.Pointer, f.Line, f.Message}
	}
	return out
}

// faulty returns the problem of a definition with errors.
func faulty(err error) error {
	all := definition.AsFaults(err)
	return &Problem{Type: "about:blank", Title: http.StatusText(http.StatusBadRequest), Status: http.StatusBadRequest,
		Code: "definition", Detail: strings.ReplaceAll(all.Error(), "\n", "; "), Faults: faultsOf(all)}
}
