package httpapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"math"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store"
)

// StartRequest is the body of a start.
type StartRequest struct {
	ID         string            `json:"id,omitempty"`
	Input      json.RawMessage   `json:"input,omitempty"`
	Bytes      string            `json:"input_base64,omitempty" doc:"in place of input: a text or other bytes that are no JSON"`
	Version    uint32            `json:"version,omitempty"`
	At         *time.Time        `json:"at,omitempty"`      // RFC 3339
	In         string            `json:"in,omitempty"`      // duration text, in place of at
	Timeout    string            `json:"timeout,omitempty"` // duration text
	Attributes map[string]string `json:"attributes,omitempty"`
	Memo       json.RawMessage   `json:"memo,omitempty"` // shown with the run: at most 2,048 bytes
	Signal     *StartSignal      `json:"signal,omitempty"`
	OnConflict string            `json:"on_conflict,omitempty"` // existing, fail, terminate or replace
	Priority   int               `json:"priority,omitempty"`    // among the runs that wait for a slot, -100 to 100
}

// StartSignal is the first signal of a run.
type StartSignal struct {
	Name           string          `json:"name"`
	Payload        json.RawMessage `json:"payload,omitempty"`
	IdempotencyKey string          `json:"idempotency_key,omitempty"`
}

// bytes returns the input for the host.
func (r *StartRequest) bytes() ([]byte, error) {
	switch {
	case r.Bytes == "" && len(r.Input) > 0:
		return r.Input, checkJSON("the input", r.Input)
	case r.Bytes == "":
		return nil, nil
	}
	b, err := base64.StdEncoding.DecodeString(r.Bytes)
	if err != nil || r.Input != nil {
		return nil, problem(http.StatusBadRequest, "invalid", "input_base64 must be base64, and without an input beside it")
	}
	return b, nil
}

// ends reports whether the start may end a run, or replace the records of one.
func (r *StartRequest) ends() bool {
	p := conflicts[r.OnConflict]
	return p == host.ConflictTerminate || p == host.ConflictReplace
}

// conflicts maps the names of the conflict policies.
var conflicts = map[string]host.ConflictPolicy{"": host.ConflictExisting, "existing": host.ConflictExisting,
	"fail": host.ConflictFail, "terminate": host.ConflictTerminate, "replace": host.ConflictReplace}

// options converts the request to options.
func (r *StartRequest) options() (opts []host.StartOption, err error) {
	if r.ID != "" {
		opts = append(opts, host.WithRunID(r.ID))
	}
	if r.Version != 0 {
		opts = append(opts, host.WithVersion(r.Version))
	}
	if r.At != nil && r.In != "" {
		return nil, problem(http.StatusBadRequest, "invalid", "a start has at or in, not both")
	}
	if r.At != nil {
		opts = append(opts, host.WithStartAt(*r.At))
	}
	for _, d := range []struct {
		name, text string
		option     func(string) host.StartOption
	}{{"in", r.In, host.WithStartInText}, {"timeout", r.Timeout, host.WithTimeoutText}} {
		if d.text == "" {
			continue
		}
		if _, err := abi.ParseTimeout(d.text); err != nil {
			return nil, problem(http.StatusBadRequest, "invalid", "%s: %v", d.name, err)
		}
		opts = append(opts, d.option(d.text))
	}
	if r.Attributes != nil {
		opts = append(opts, host.WithAttributes(r.Attributes))
	}
	if len(r.Memo) > 0 {
		opts = append(opts, host.WithMemo(r.Memo))
	}
	if s := r.Signal; s != nil {
		var key []host.SignalOption
		if s.IdempotencyKey != "" {
			key = append(key, host.WithIdempotencyKey(s.IdempotencyKey))
		}
		opts = append(opts, host.WithSignal(s.Name, s.Payload, key...))
	}
	policy, ok := conflicts[r.OnConflict]
	if !ok {
		return nil, problem(http.StatusBadRequest, "invalid", "on_conflict must be existing, fail, terminate or replace, got %q",
			r.OnConflict)
	}
	return append(opts, host.OnConflict(policy), host.WithPriority(r.Priority)), nil
}

type runOutput struct {
	Status int
	Body   host.Run
}

// startOutput answers a start: with a host.Run, or a Started.
type startOutput struct {
	Status int
	Body   any
}

// Started is the answer to a start by a caller who may not read runs.
type Started struct {
	Namespace string    `json:"namespace,omitempty"`
	ID        string    `json:"id"`
	Workflow  string    `json:"workflow"`
	Version   uint32    `json:"version"`
	Existed   bool      `json:"existed,omitempty"`
	Throttled time.Time `json:"throttled,omitzero"`
}

// maxPage bounds all pages.
const maxPage = host.MaxPage

func (s *API) registerRuns(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: "start", Method: http.MethodPost,
		Path: "/v1/workflows/{workflow}/runs", MaxBodyBytes: maxBodyBytes, SkipValidateBody: true,
		Summary:   "Start a run; without the scope read, the answer has namespace, id, workflow, version, existed and throttled",
		Responses: startedAs(api)},
		func(ctx context.Context, in *struct {
			Workflow    string `path:"workflow"`
			TraceParent string `header:"Traceparent" doc:"the caller's span, as W3C Trace Context says: the run belongs to its trace"`
			RawBody     []byte `contentType:"application/json"`
		}) (*startOutput, error) {
			return s.start(ctx, in.Workflow, in.TraceParent, in.RawBody)
		})
	optionalBody(api, "/v1/workflows/{workflow}/runs")
	huma.Register(api, huma.Operation{OperationID: "runs", Method: http.MethodGet, Path: "/v1/runs",
		Summary: "List runs in the order of their creation; next, if there is one, is the cursor of the next page, which may be " +
			"there though the page is short"}, s.list)
	huma.Register(api, huma.Operation{OperationID: "count", Method: http.MethodGet, Path: "/v1/runs:count",
		Summary: "Count runs by status"}, s.count)
	huma.Register(api, huma.Operation{OperationID: "run", Method: http.MethodGet, Path: "/v1/runs/{id}",
		Summary: "Show a run; with Accept: text/event-stream, whenever it has changed", Responses: answerOf[host.Run](api)},
		func(ctx context.Context, in *struct {
			RunPath
			Follows
		}) (*huma.StreamResponse, error) {
			if in.wanted() {
				return s.followRun(ctx, in.ID)
			}
			r, err := namespaceFrom(ctx).Get(ctx, in.ID)
			return single(r, err)
		})
	huma.Register(api, huma.Operation{OperationID: "journal", Method: http.MethodGet, Path: "/v1/runs/{id}/journal",
		Summary: "Show a run's journal from an entry on; wait holds the answer until there is one; with Accept: text/event-stream, " +
			"follow it, from iteration to iteration",
		Responses: streamOf[Entry](api)}, s.journal)
	huma.Register(api, huma.Operation{OperationID: "result", Method: http.MethodGet, Path: "/v1/runs/{id}/result",
		Summary: "Give a run's result; 202 while it lives, 422 if it ended otherwise than completed"}, s.result)
	huma.Register(api, huma.Operation{OperationID: "logs", Method: http.MethodGet, Path: "/v1/runs/{id}/logs",
		Summary: "Show a run's log; with Accept: text/event-stream, follow it", Responses: answerOf[List[Log]](api)}, s.logs)
}

// RunPath is the path of a run.
type RunPath struct {
	ID string `path:"id"`
}

func (s *API) start(ctx context.Context, workflow, traceParent string, body []byte) (*startOutput, error) {
	var req StartRequest
	body = bytes.TrimSpace(body)
	if len(body) > 0 {
		if body[0] != '{' { // the decoder takes null for an empty request
			return nil, problem(http.StatusBadRequest, "invalid", "the body must be a start request, a JSON object, got %.80q", body)
		}
		d := json.NewDecoder(bytes.NewReader(body))
		d.DisallowUnknownFields()
		if err := d.Decode(&req); err != nil {
			return nil, problem(http.StatusBadRequest, "invalid", "the body is not a start request: %v", err)
		}
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return nil, problem(http.StatusBadRequest, "invalid", "something follows the start request")
		}
	}
	opts, err := req.options()
	if err != nil {
		return nil, err
	}
	input, err := req.bytes()
	if err != nil {
		return nil, err
	}
	if req.Signal != nil {
		if err := checkJSON("the payload of the signal", req.Signal.Payload); err != nil && len(req.Signal.Payload) > 0 {
			return nil, err
		}
		declared, _ := namespaceFrom(ctx).Workflows().DeclaredSignals(ctx, workflow, req.Version) // the start reports errors
		if err := checkSignal(declared, req.Signal.Name, req.Signal.Payload); err != nil {
			return nil, err
		}
	}
	if c := callerOf(ctx); req.ends() && !c.Allows(host.ScopeOperate, c.in) {
		return nil, problem(http.StatusForbidden, "scope", "on_conflict %q ends runs or takes their records: %s", req.OnConflict,
			c.refusal(host.ScopeOperate, c.in))
	}
	r, err := namespaceFrom(ctx).StartRaw(ctx, workflow, input, append(opts, host.WithTraceParent(traceParent))...)
	if errors.Is(err, host.ErrFenced) { // another host may have the run into which the start is merged
		owner, other, _ := namespaceFrom(ctx).WindowOwner(ctx, workflow, input)
		if other {
			if ok, failed := s.passAgain(ctx, &owner, "/v1/workflows/"+url.PathEscape(workflow)+"/runs", url.Values{}, body,
				traceParent, &r); ok {
				err = failed
			}
		}
	}
	if err != nil {
		return nil, failed(err)
	}
	status := http.StatusCreated
	if r.Existed {
		status = http.StatusOK
	}
	if c := callerOf(ctx); !c.Allows(host.ScopeRead, c.in) { // it must not learn more about an existing run
		return &startOutput{status, Started{Namespace: r.Namespace, ID: r.ID, Workflow: r.Workflow, Version: r.Version,
			Existed: r.Existed, Throttled: r.Throttled}}, nil
	}
	return &startOutput{status, r}, nil
}

// startedAs describes the answers to a start, whose Go type does not tell.
func startedAs(api huma.API) map[string]*huma.Response {
	schema := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[host.Run](), true, "")
	content := map[string]*huma.MediaType{"application/json": {Schema: schema}}
	return map[string]*huma.Response{"200": {Description: "The run was there already", Content: content},
		"201": {Description: "The run was started", Content: content}}
}

type listInput struct {
	Workflow string `query:"workflow"`
	Status   string `query:"status" doc:"one or more statuses, separated by commas"`
	From     string `query:"created_from" doc:"RFC 3339: created at this instant or after it"`
	Before   string `query:"created_before" doc:"RFC 3339: created before this instant"`
	Order    string `query:"order" doc:"newest (the default) or oldest first"`
	Limit    int    `query:"limit" default:"100"`
	Cursor   string `query:"cursor" doc:"next of the page before"`

	Where []string `query:"where,explode" doc:"conditions of attributes, such as amount>=100; all must hold"`

	attributes map[string]string // attr.key=value
	err        error             // error in the attributes
}

// Resolve reads the attributes, whose names huma does not know.
func (in *listInput) Resolve(ctx huma.Context) []error {
	u := ctx.URL()
	in.attributes, in.err = attributesOf(u.Query())
	return nil
}

// attributesOf returns the attributes in a query, as attr.key=value. A run has one value per key, so a repeated key is
// an error.
func attributesOf(q url.Values) (map[string]string, error) {
	attributes := map[string]string{}
	for k, v := range q {
		name, ok := strings.CutPrefix(k, "attr.")
		if !ok {
			continue
		}
		if len(v) > 1 {
			return nil, problem(http.StatusBadRequest, "invalid", "attribute %q is given %d times, a run has one value of it",
				name, len(v))
		}
		attributes[name] = v[0]
	}
	return attributes, nil
}

// parseWhere reads conditions on attributes.
func parseWhere(texts []string) (list []host.Condition, err error) {
	for _, text := range texts {
		c, err := host.ParseCondition(text)
		if err != nil {
			return nil, failed(err)
		}
		list = append(list, c)
	}
	return list, nil
}

func (s *API) list(ctx context.Context, in *listInput) (*listOutput[host.Run], error) {
	if in.err != nil {
		return nil, in.err
	}
	if in.Limit < 1 || in.Limit > maxPage {
		return nil, problem(http.StatusBadRequest, "invalid", "limit must be 1 to %d, got %d", maxPage, in.Limit)
	}
	q := host.Query{Workflow: in.Workflow, Cursor: in.Cursor, Limit: in.Limit, Attributes: in.attributes}
	var err error
	q.Where, err = parseWhere(in.Where)
	if err != nil {
		return nil, err
	}
	q.Statuses, err = parseStatuses(in.Status)
	if err != nil {
		return nil, err
	}
	q.Order, err = host.ParseOrder(in.Order)
	if err != nil {
		return nil, failed(err)
	}
	for _, x := range []struct {
		name, text string
		to         *time.Time
	}{{"created_from", in.From, &q.CreatedFrom}, {"created_before", in.Before, &q.CreatedBefore}} {
		if x.text == "" {
			continue
		}
		*x.to, err = time.Parse(time.RFC3339, x.text)
		if err != nil {
			return nil, problem(http.StatusBadRequest, "invalid", "%s must be an instant as 2026-01-31T12:00:00Z, got %q", x.name, x.text)
		}
	}
	page, err := namespaceFrom(ctx).RunPage(ctx, q)
	return paged(page.Runs, page.Next, err)
}

// Counts are numbers of runs.
type Counts struct {
	Total    int64          `json:"total"`
	Statuses host.RunCounts `json:"statuses"`
}

func (s *API) count(ctx context.Context, in *struct {
	Workflow string `query:"workflow" doc:"only its runs"`
}) (*struct{ Body Counts }, error) {
	c, err := namespaceFrom(ctx).Counts(ctx, in.Workflow)
	return &struct{ Body Counts }{Counts{c.Total(), c}}, failed(err)
}

// parseStatuses reads statuses that are separated by commas.
func parseStatuses(text string) (list []store.Status, err error) {
	for name := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' }) {
		st, err := store.ParseStatus(name)
		if err != nil {
			return nil, problem(http.StatusBadRequest, "invalid", "%v", err)
		}
		list = append(list, st)
	}
	return list, nil
}

// maxWait bounds how long an answer is held.
const maxWait = time.Minute

// held returns a context that ends after a duration, given as text, or with the request.
func held(ctx context.Context, text string) (context.Context, context.CancelFunc, error) {
	if text == "" {
		return ctx, func() {}, nil
	}
	ms, err := abi.ParseDuration(text)
	if err != nil {
		return nil, nil, problem(http.StatusBadRequest, "invalid", "wait: %v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, min(abi.Duration(ms), maxWait))
	return ctx, cancel, nil
}

type journalInput struct {
	RunPath
	From   uint64 `query:"from"`
	Wait   string `query:"wait" doc:"duration text, at most 1m"`
	Limit  int    `query:"limit" default:"1000"`
	Cursor string `query:"cursor" doc:"next of the page before, in place of from"`

	Follows
	Iteration int64 `query:"iteration" default:"-1" doc:"of a run that has continued as new; -1 is the newest"`
}

// entries returns the requested entries.
func (s *API) entries(ctx context.Context, in *journalInput) iter.Seq2[host.Entry, error] {
	if in.Iteration < 0 {
		return namespaceFrom(ctx).Journal(ctx, in.ID, store.Seq(in.From))
	}
	return namespaceFrom(ctx).JournalOf(ctx, in.ID, uint32(min(in.Iteration, math.MaxUint32)), store.Seq(in.From))
}

// journal streams entries as it reads them, so that a long journal is never in memory as a whole, however slow the
// client.
func (s *API) journal(ctx context.Context, in *journalInput) (*huma.StreamResponse, error) {
	if in.Limit < 1 {
		return nil, problem(http.StatusBadRequest, "invalid", "limit must be at least 1, got %d", in.Limit)
	}
	var err error
	in.From, err = position(in.Cursor, in.From)
	if err != nil {
		return nil, err
	}
	if in.wanted() {
		return s.followJournal(ctx, in)
	}
	hold, cancel, err := held(ctx, in.Wait)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		defer cancel()
		changed, stop := namespaceFrom(ctx).Watch(in.ID)
		defer stop()
		out := stream{c: c, limit: min(in.Limit, maxPage)}
		for {
			for e, err := range s.entries(ctx, in) {
				if !out.add(uint64(e.Seq), EntryOf(e), err) {
					return
				}
			}
			if out.n == 0 && in.Wait != "" {
				select {
				case <-changed:
					continue
				case <-hold.Done():
				}
			}
			out.end()
			return
		}
	}}, nil
}

type resultOutput struct {
	Status      int
	ContentType string `header:"Content-Type"`
	Body        []byte
}

func (s *API) result(ctx context.Context, in *struct {
	RunPath
	Wait string `query:"wait" doc:"duration text, at most 1m"`
}) (*resultOutput, error) {
	hold, cancel, err := held(ctx, in.Wait)
	if err != nil {
		return nil, err
	}
	defer cancel()
	r, err := namespaceFrom(ctx).Get(ctx, in.ID)
	if err == nil && in.Wait != "" {
		r, err = namespaceFrom(ctx).Wait(hold, in.ID)
		if hold.Err() != nil && r.ID != "" { // the run has not ended yet
			err = nil
		}
	}
	if err != nil {
		return nil, failed(err)
	}
	if !r.Status.Terminal() && r.Status != host.Stuck {
		b, err := marshal(r)
		return &resultOutput{http.StatusAccepted, "application/json", b}, err
	}
	b, err := namespaceFrom(ctx).ResultRaw(ctx, in.ID)
	if re, ok := errors.AsType[*host.RunError](err); ok {
		p := &Problem{Type: "about:blank", Title: "run " + re.Status.String(), Status: http.StatusUnprocessableEntity,
			Detail: re.Error(), Code: re.Status.String(), Run: r, Failure: re.Failure}
		return nil, p
	}
	if err != nil {
		return nil, failed(err)
	}
	return &resultOutput{http.StatusOK, contentType(b), b}, nil
}
