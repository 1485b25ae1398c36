package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/client"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
)

type uploadCmd struct {
	Path      string   `arg:"" help:"${program}"`
	Name      string   `help:"Name of the workflow; default: the names in the module, else that of the file." type:"workflow"`
	Workflow  []string `help:"Make versions of these workflows of the module only; repeatable." type:"workflow"`
	AllowStep []string `help:"Handler of the host that the workflow may call; repeatable, * for all."`
	AllowHTTP []string `name:"allow-http" help:"Host it may request, [scheme://]host[:port]." placeholder:"HOST" type:"http"`

	Migrate     bool     `help:"Then have the live runs that fit the new version go on under it, and list the others."`
	AllowSecret []string `sep:"none" help:"Secret that it may send there; repeatable." placeholder:"NAME=HOST,HEADER" type:"secret"`
}

func (c *uploadCmd) Run(g *globals) error {
	wasm, fileName, err := module(g.ctx, c.Path)
	if err != nil {
		return err
	}
	_, err = c.put(g, wasm, fileName)
	return err
}

// put uploads a module and prints the versions.
func (c *uploadCmd) put(g *globals, wasm []byte, fileName string) ([]host.Version, error) {
	q := url.Values{"workflow": c.Workflow, "allow_step": c.AllowStep, "allow_http": c.AllowHTTP, "allow_secret": c.AllowSecret}
	name := c.Name
	if name == "" {
		name = "-"
	}
	var versions []host.Version
	put := func(name string) error {
		_, _, err := g.call(http.MethodPut, "/v1/workflows/"+segment(name)+"/versions", q, wasm, httpapi.ItemsOf(&versions))
		return err
	}
	err := put(name)
	if err != nil && c.Name == "" && len(c.Workflow) == 0 {
		if unnamed := isUnnamed(err); unnamed || codeOf(g.ctx, err) == exitConflict { // retry with the name from the path
			if again := put(fileName); unnamed || again == nil {
				err = again
			}
		}
	}
	if err != nil {
		return nil, err
	}
	if g.Format == "json" {
		err = g.json(versions)
	} else {
		for _, v := range versions {
			note := ""
			if !v.New {
				note = " (the same as before)"
			}
			_, _ = fmt.Fprintf(g.io.out, "%s@%d %s%s\n", v.Workflow, v.Number, v.Digest, note)
		}
	}
	if err != nil || !c.Migrate {
		return versions, err
	}
	for _, v := range versions { // all of them, even if one fails
		err = errors.Join(err, g.migrateRuns(v.Workflow, httpapi.MigrateRequest{To: v.Number}))
	}
	return versions, err
}

// isUnnamed reports whether an upload failed because the module names no workflow.
func isUnnamed(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && e.Detail == unnamed
}

// unnamed is the server's answer if neither the upload nor the module names a workflow.
const unnamed = "INVALID_ARGUMENT: workflow name must have 1 to 128 bytes, got 0"

type workflowsCmd struct{}

func (c *workflowsCmd) Run(g *globals) error {
	var versions []host.Version
	if _, _, err := g.call(http.MethodGet, "/v1/workflows", nil, nil, httpapi.ItemsOf(&versions)); err != nil {
		return err
	}
	if g.Format == "json" {
		return g.json(versions)
	}
	rows := make([][]string, len(versions))
	for i, v := range versions {
		rows[i] = []string{fmt.Sprintf("%s@%d", v.Workflow, v.Number), v.Digest[:12], instant(v.Created), fmt.Sprint(v.Steps)}
	}
	return g.table("workflow\tmodule\tcreated\tmay call", rows)
}

type workflowCmd struct {
	Workflow string `arg:"" help:"Name of the workflow."`
	Delete   uint32 `help:"Delete this version; refused while any run has it." placeholder:"N" xor:"what"`
	Schema   bool   `help:"Show the JSON Schemas of its input, result and signals." xor:"what"`
	OpenAPI  bool   `name:"openapi" help:"Give an OpenAPI document with these, for typed clients." xor:"what"`
	Version  uint32 `help:"With --schema and --openapi: of this version; default: the latest." placeholder:"N"`
}

// schemas prints the schemas of a version as JSON, in every output format.
func (c *workflowCmd) schemas(g *globals, path string) error {
	q := url.Values{}
	if c.Version != 0 {
		q.Set("version", fmt.Sprint(c.Version))
	}
	var doc any
	if _, _, err := g.call(http.MethodGet, path, q, nil, &doc); err != nil {
		return err
	}
	return g.json(doc)
}

func (c *workflowCmd) Run(g *globals) error {
	path := "/v1/workflows/" + segment(c.Workflow)
	if c.Delete != 0 {
		_, _, err := g.call(http.MethodDelete, fmt.Sprintf("%s/versions/%d", path, c.Delete), nil, nil, nil)
		if err != nil || g.Format == "json" {
			return err
		}
		_, err = fmt.Fprintf(g.io.out, "%s@%d deleted\n", c.Workflow, c.Delete)
		return err
	}
	switch {
	case c.Schema:
		return c.schemas(g, path+"/schemas")
	case c.OpenAPI:
		return c.schemas(g, path+"/openapi.json")
	case c.Version != 0:
		return &exitCode{exitUsage, errors.New("--version says of which version --schema or --openapi is meant")}
	}
	var versions []host.Version
	if _, _, err := g.call(http.MethodGet, path, nil, nil, httpapi.ItemsOf(&versions)); err != nil {
		return err
	}
	if g.Format == "json" {
		return g.json(versions)
	}
	rows := make([][]string, len(versions))
	for i, v := range versions {
		rows[i] = []string{fmt.Sprintf("%s@%d", v.Workflow, v.Number), v.Digest[:12], instant(v.Created),
			strconv.Itoa(v.Live), list(v.Queries), list(v.Steps), list(v.HTTP), list(v.Secrets)}
	}
	return g.table("workflow\tmodule\tcreated\tlive runs\tqueries\tmay call\tmay request\tmay send", rows)
}

// list joins names with commas.
func list(names []string) string {
	if len(names) == 0 {
		return "-"
	}
	return strings.Join(names, ",")
}

type startCmd struct {
	Workflow string `arg:"" help:"Name of the workflow."`
	ID       string `name:"id" help:"Id of the run; the same id and input again returns that run." type:"run-id"`
	Number   uint32 `name:"version" help:"Version of the workflow; default: the latest."`
	Wait     bool   `help:"Wait for the result and print it."`

	At         time.Time         `help:"Start it at this instant (RFC 3339)."`
	In         string            `help:"Start it after this time, such as 1h30m." placeholder:"DURATION" type:"duration"`
	Timeout    string            `help:"Fail it if it has not ended after this time." placeholder:"DURATION" type:"duration"`
	Attr       map[string]string `help:"Attribute; repeatable." placeholder:"KEY=VALUE" type:"attribute"`
	Memo       string            `help:"What people are to see with the run, as JSON; at most 2,048 bytes." placeholder:"JSON"`
	Trace      string            `name:"traceparent" help:"Span of W3C Trace Context below which it is." placeholder:"HEADER"`
	Signal     string            `help:"First signal, with its payload as JSON." placeholder:"NAME[=JSON]"`
	OnConflict string            `help:"With a run of the id: ${enum}." enum:"existing,fail,terminate,replace" default:"existing"`
	Priority   int               `help:"Priority among the runs that wait for a slot, -100 to 100." type:"priority"`

	inputFlags
}

// request builds the request.
func (c *startCmd) request(input []byte) (r httpapi.StartRequest, err error) {
	r = httpapi.StartRequest{ID: c.ID, Input: input, Version: c.Number, In: c.In, Timeout: c.Timeout, Attributes: c.Attr,
		OnConflict: c.OnConflict, Priority: c.Priority}
	if err := checkAttributes(c.Attr); err != nil {
		return r, err
	}
	if c.InputRaw != "" {
		r.Input, r.Bytes = nil, base64.StdEncoding.EncodeToString(input)
	}
	if !c.At.IsZero() {
		r.At = &c.At
	}
	if c.Memo != "" {
		r.Memo = json.RawMessage(c.Memo)
		if !abi.IsJSON(r.Memo) {
			return r, &exitCode{exitUsage, fmt.Errorf("--memo is not JSON: %.80q", c.Memo)}
		}
		if err := checkMemo(c.Memo); err != nil {
			return r, err
		}
	}
	if c.Signal != "" {
		name, payload, _ := strings.Cut(c.Signal, "=")
		if payload != "" && !abi.IsJSON([]byte(payload)) {
			return r, &exitCode{exitUsage, fmt.Errorf("the payload of --signal is not JSON: %.80q", payload)}
		}
		r.Signal = &httpapi.StartSignal{Name: name, Payload: json.RawMessage(payload)}
	}
	return r, nil
}

func (c *startCmd) Run(g *globals) error {
	input, err := c.read(g)
	if err != nil {
		return err
	}
	if len(input) > 0 && c.InputRaw == "" && !abi.IsJSON(input) {
		return &exitCode{exitUsage, fmt.Errorf("the input is not JSON: %.80q; for a text, use --input-text TEXT; "+
			"for a program that reads something else, use --input-raw FILE", input)}
	}
	request, err := c.request(input)
	if err != nil {
		return err
	}
	body, err := encoded(request)
	if err != nil {
		return err
	}
	header, err := traceHeader(c.Trace)
	if err != nil {
		return err
	}
	var r host.Run
	_, answer, err := g.callHeader(g.ctx, http.MethodPost, "/v1/workflows/"+segment(c.Workflow)+"/runs", nil, header, body, &r)
	if err != nil {
		return err
	}
	if c.Wait {
		g.answered = true // the server has the run
		return g.waitResult(r.ID)
	}
	if g.Format == "json" { // unchanged: a token without the scope read sees only part of a run
		return g.json(json.RawMessage(answer))
	}
	if !r.Throttled.IsZero() {
		_, _ = fmt.Fprintf(g.io.err, "throttled until %s: nothing was started, this is the run that the window has\n",
			r.Throttled.Format(time.RFC3339))
	}
	_, err = fmt.Fprintln(g.io.out, r.ID)
	return err
}
