package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/internal/clock"
)

// checkPattern is the endpoint that checks a module without storing it.
const checkPattern = "POST /v1/workflows/{workflow}/check"

// CheckLine is a line of the answers of check and migrate, which are JSON Lines: first Total, then a Run for each run,
// in no order, and at the end the Summary. An answer without a summary is incomplete.
type CheckLine struct {
	Total   *int64             `json:"total,omitempty" doc:"about how many runs there are"`
	Run     *host.RunCheck     `json:"run,omitempty"`
	Summary *host.CheckSummary `json:"summary,omitempty"`
}

type checkInput struct {
	Workflow string `path:"workflow" doc:"- for the only workflow that the module lists"`
	Ended    string `query:"ended" doc:"duration text: also runs that have ended within this time"`
	CPU      string `query:"cpu" doc:"duration text: what the replay of one run may compute, 10s without it"`
	Parallel int    `query:"parallel" doc:"how many runs are replayed at a time"`
	RawBody  []byte `contentType:"application/wasm"`
}

// MigrateRequest asks for a migration.
type MigrateRequest struct {
	To       uint32   `json:"to" minimum:"1" doc:"version under which the runs go on"`
	From     uint32   `json:"from,omitempty" doc:"only runs of this version"`
	Runs     []string `json:"runs,omitempty" maxItems:"10000" doc:"only these runs"`
	DryRun   bool     `json:"dry_run,omitempty" doc:"only say which runs are compatible; nothing changes"`
	CPU      string   `json:"cpu,omitempty" doc:"duration text: what the replay of one run may compute, 10s without it"`
	Parallel int      `json:"parallel,omitempty" doc:"how many runs are replayed at a time"`
}

func (s *API) registerUpgrades(api huma.API) {
	lines := map[string]*huma.Response{"200": {Description: "JSON Lines: the total, a report for each run, the summary",
		Content: map[string]*huma.MediaType{jsonLines: {Schema: api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[CheckLine](),
			true, "")}}}}
	huma.Register(api, huma.Operation{OperationID: "check", Method: http.MethodPost, Path: "/v1/workflows/{workflow}/check",
		MaxBodyBytes: abi.MaxModuleBytes + 1, Responses: lines,
		Summary: "Replay the live runs of a workflow against a module that is not stored; nothing changes"}, s.check)
	huma.Register(api, huma.Operation{OperationID: "migrate", Method: http.MethodPost, Path: "/v1/workflows/{workflow}/migrate",
		Responses: lines,
		Summary:   "Have the live runs of a workflow that are compatible with another version go on under it"},
		func(ctx context.Context, in *struct {
			Workflow string `path:"workflow"`
			Body     MigrateRequest
		}) (*huma.StreamResponse, error) {
			return s.migrate(ctx, in.Workflow, &in.Body)
		})
}

// durationOf reads duration text; empty is zero.
func durationOf(name, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	ms, err := abi.ParseDuration(text)
	if err != nil {
		return 0, problem(http.StatusBadRequest, "invalid", "%s: %v", name, err)
	}
	const longest = int64(1<<63-1) / int64(time.Millisecond)
	if ms > longest {
		return 0, problem(http.StatusBadRequest, "invalid", "%s must be less than 292 years, got %s", name, text)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

func (s *API) check(ctx context.Context, in *checkInput) (*huma.StreamResponse, error) {
	opts := host.CheckOptions{Parallel: in.Parallel}
	var err error
	opts.Ended, err = durationOf("ended", in.Ended)
	if err != nil {
		return nil, err
	}
	opts.CPU, err = durationOf("cpu", in.CPU)
	if err != nil {
		return nil, err
	}
	if in.Workflow == "-" {
		in.Workflow = ""
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		out := lineWriter{c: c, clock: s.clock}
		opts.Each, opts.Progress = out.report, out.progress
		sum, err := namespaceFrom(ctx).Workflows().Check(ctx, in.Workflow, in.RawBody, opts)
		out.end(&sum, err)
	}}, nil
}

func (s *API) migrate(ctx context.Context, workflow string, in *MigrateRequest) (*huma.StreamResponse, error) {
	opts := host.MigrateOptions{To: in.To, From: in.From, Runs: in.Runs, DryRun: in.DryRun, Parallel: in.Parallel}
	var err error
	opts.CPU, err = durationOf("cpu", in.CPU)
	if err != nil {
		return nil, err
	}
	if p, _ := ctx.Value(passedKey{}).(*passed); p != nil && p.Last {
		opts.Part = true
	} else {
		opts.Elsewhere = func(ctx context.Context, owner host.HostInfo, id string) (host.RunCheck, error) {
			one := *in
			one.Runs, one.Parallel = []string{id}, 1
			return s.migrateAt(ctx, &owner, workflow, &one)
		}
	}
	who := callerOf(ctx)
	blind := !who.Allows(host.ScopeRead, who.in)
	return &huma.StreamResponse{Body: func(c huma.Context) {
		out := lineWriter{c: c, clock: s.clock}
		opts.Progress, opts.Each = out.progress, func(r host.RunCheck) error {
			if blind {
				withoutJournal(&r)
			}
			return out.report(r)
		}
		sum, err := namespaceFrom(ctx).Workflows().Migrate(ctx, workflow, opts)
		out.end(&sum, err)
	}}, nil
}

// migrateAt migrates one run at the host that owns it. What that host refuses is the run's outcome.
func (s *API) migrateAt(ctx context.Context, owner *host.HostInfo, workflow string, one *MigrateRequest) (c host.RunCheck,
	err error) {
	failed := func(err error) (host.RunCheck, error) {
		if ctx.Err() != nil {
			return c, context.Cause(ctx)
		}
		return host.RunCheck{RunID: one.Runs[0], Outcome: host.CheckNotChecked, Reason: err.Error()}, nil
	}
	body, err := json.Marshal(one)
	if err != nil {
		return c, err
	}
	q := url.Values{}
	if ns := callerOf(ctx).in; ns != "" {
		q.Set("namespace", ns)
	}
	r, err := s.peerRequest(ctx, owner, http.MethodPost, "/v1/workflows/"+url.PathEscape(workflow)+"/migrate", q)
	if err != nil {
		return failed(err)
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Set("Content-Type", "application/json")
	var lines jsonLinesOf[CheckLine]
	if err := s.doPeer(r, owner, &lines); err != nil {
		return failed(err)
	}
	for _, line := range lines {
		if line.Run != nil {
			return *line.Run, nil
		}
	}
	return failed(fmt.Errorf("the host %q, which owns it, has not told its outcome", owner.Name))
}

// withoutJournal removes the contents of the journal from a report, for a caller who may not read it.
func withoutJournal(r *host.RunCheck) {
	r.Journal, r.Workflow, r.Notes = "", "", nil
	if r.Entry != nil {
		r.Reason = fmt.Sprintf("diverges at entry %d", *r.Entry)
	}
}

// jsonLines is the content type of JSON Lines (https://jsonlines.org).
const jsonLines = "application/jsonl"

// lineWriter writes the lines of an answer as they come. Its methods must not be called concurrently.
type lineWriter struct {
	c      huma.Context
	clock  clock.Clock
	begun  bool
	waited time.Duration // for the client
}

// maxLineWait is how long a check or a migration waits in total for a client that does not read its lines: it holds a
// slot that others need. Some thousand lines are buffered before it waits at all.
const maxLineWait = 30 * time.Second

// progress writes the first line. After that, the reports show the progress.
func (w *lineWriter) progress(_, total int64) {
	if !w.begun {
		_ = w.write(CheckLine{Total: &total}) // the client is gone, which ends ctx
	}
}

func (w *lineWriter) report(r host.RunCheck) error { return w.write(CheckLine{Run: &r}) }

func (w *lineWriter) write(line CheckLine) error {
	if !w.begun {
		w.begun = true
		w.c.SetHeader("Content-Type", jsonLines)
		w.c.SetHeader("Cache-Control", "no-store")
	}
	b, err := marshal(line)
	if err != nil {
		return err
	}
	out, began := w.c.BodyWriter(), w.clock.Now()
	if _, err := out.Write(append(b, '\n')); err != nil {
		return err
	}
	if f, ok := out.(http.Flusher); ok {
		f.Flush()
	}
	w.waited += w.clock.Now().Sub(began)
	if w.waited > maxLineWait {
		return problem(http.StatusRequestTimeout, "timeout", "the reports were not read: the client was waited for longer than %v",
			maxLineWait)
	}
	return nil
}

// end writes the summary, or the error. Before the first line an error is a problem document; after that it cuts the
// connection, so that no client takes a part for the whole.
func (w *lineWriter) end(sum *host.CheckSummary, err error) {
	switch {
	case err != nil && w.begun:
		panic(http.ErrAbortHandler)
	case err != nil:
		(&stream{c: w.c}).problem(failed(err))
	default:
		_ = w.write(CheckLine{Summary: sum}) // the client is gone
	}
}
