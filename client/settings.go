package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// WorkflowLimit bounds how many runs of a workflow are in progress at a time, or begin within a window.
type WorkflowLimit struct {
	Workflow    string   `json:"workflow"`
	Concurrency []string `json:"concurrency,omitempty"` // such as "5", or "5 per input.customer"
	Rate        []string `json:"rate,omitempty"`        // such as "100/1m", or "100/1m per input.tenant"
	Holding     int64    `json:"holding"`               // runs that hold a slot
	Waiting     int64    `json:"waiting"`               // runs that wait for a slot
}

// HandlerLimit bounds how many attempts of a handler are in flight at a time, or begin within a window.
type HandlerLimit struct {
	Handler     string   `json:"handler"`
	Concurrency []string `json:"concurrency,omitempty"`
	Rate        []string `json:"rate,omitempty"`
	Holding     int      `json:"holding"` // attempts that hold a slot on the server
	Waiting     int      `json:"waiting"` // attempts that wait for a slot
}

// ruled is the body of a request that sets limits.
type ruled struct {
	Concurrency []string `json:"concurrency,omitempty"`
	Rate        []string `json:"rate,omitempty"`
}

// List returns the limits of all workflows that have any.
func (s WorkflowLimits) List(ctx context.Context) ([]WorkflowLimit, error) {
	return items[WorkflowLimit](ctx, s.c, "/v1/limits", nil)
}

// Get returns the limits of a workflow, or ErrNotFound if it has none.
func (s WorkflowLimits) Get(ctx context.Context, workflow string) (WorkflowLimit, error) {
	return get[WorkflowLimit](ctx, s.c, "/v1/limits/"+Segment(workflow), nil)
}

// Set replaces the limits of l.Workflow. Runs that have begun continue.
func (s WorkflowLimits) Set(ctx context.Context, l WorkflowLimit) (WorkflowLimit, error) {
	return put[WorkflowLimit](ctx, s.c, "/v1/limits/"+Segment(l.Workflow), ruled{l.Concurrency, l.Rate})
}

// Delete removes the limits of a workflow.
func (s WorkflowLimits) Delete(ctx context.Context, workflow string) error {
	return s.c.remove(ctx, "/v1/limits/"+Segment(workflow))
}

// List returns the limits of all handlers that have any.
func (s HandlerLimits) List(ctx context.Context) ([]HandlerLimit, error) {
	return items[HandlerLimit](ctx, s.c, "/v1/handler-limits", nil)
}

// Set replaces the limits of l.Handler.
func (s HandlerLimits) Set(ctx context.Context, l HandlerLimit) (HandlerLimit, error) {
	return put[HandlerLimit](ctx, s.c, "/v1/handler-limits/"+Segment(l.Handler), ruled{l.Concurrency, l.Rate})
}

// Delete removes the limits of a handler.
func (s HandlerLimits) Delete(ctx context.Context, handler string) error {
	return s.c.remove(ctx, "/v1/handler-limits/"+Segment(handler))
}

// StartWindow says which starts of a workflow become one run: by a debounce or by a throttle.
type StartWindow struct {
	Workflow string `json:"workflow"`
	Debounce string `json:"debounce,omitempty"` // a quiet time: "10s", or "10s per input.customer"
	Longest  string `json:"longest,omitempty"`  // of a debounce: longest delay from the first start to the run
	Throttle string `json:"throttle,omitempty"` // in place of a debounce: one start within "1h", or "1h per input.customer"
}

// List returns the windows of all workflows that have one.
func (s StartWindows) List(ctx context.Context) ([]StartWindow, error) {
	return items[StartWindow](ctx, s.c, "/v1/start-windows", nil)
}

// Set sets the window of w.Workflow.
func (s StartWindows) Set(ctx context.Context, w StartWindow) (StartWindow, error) {
	path := "/v1/start-windows/" + Segment(w.Workflow)
	return put[StartWindow](ctx, s.c, path, struct {
		Debounce string `json:"debounce,omitempty"`
		Longest  string `json:"longest,omitempty"`
		Throttle string `json:"throttle,omitempty"`
	}{w.Debounce, w.Longest, w.Throttle})
}

// Delete removes the window of a workflow: every start is a run of its own again.
func (s StartWindows) Delete(ctx context.Context, workflow string) error {
	return s.c.remove(ctx, "/v1/start-windows/"+Segment(workflow))
}

// OthersRetention is the workflow name of the retention for all workflows without their own.
const OthersRetention = "-"

// Retention says how long the ended runs of a workflow are kept, as duration text. "" keeps them forever.
type Retention struct {
	Workflow   string `json:"workflow,omitempty"`
	Completed  string `json:"completed,omitempty"`
	Failed     string `json:"failed,omitempty"`
	Cancelled  string `json:"cancelled,omitempty"`
	Terminated string `json:"terminated,omitempty"`
	Keep       int    `json:"keep,omitempty"` // maximum number of ended runs of any status; no limit for 0

	KeepCompleted  int `json:"keep_completed,omitempty"` // maximum number of completed runs; no limit for 0
	KeepFailed     int `json:"keep_failed,omitempty"`
	KeepCancelled  int `json:"keep_cancelled,omitempty"`
	KeepTerminated int `json:"keep_terminated,omitempty"`

	// KeepIterations is how many past iterations of a run that continues as new are kept; 10 for 0, all for -1.
	KeepIterations    int    `json:"keep_iterations,omitempty"`
	KeepIterationsFor string `json:"keep_iterations_for,omitempty"` // how long after their end they are kept

	// KeepIDsFor is how long ids of deleted runs stay taken, in the whole namespace. Only OthersRetention has it. 30 days for "".
	KeepIDsFor string `json:"keep_ids_for,omitempty"`
}

// List returns the retentions of the namespace.
func (s Retentions) List(ctx context.Context) ([]Retention, error) {
	return items[Retention](ctx, s.c, "/v1/retention", nil)
}

// Set sets the retention of r.Workflow. Older runs are deleted from now on.
func (s Retentions) Set(ctx context.Context, r Retention) (Retention, error) {
	return put[Retention](ctx, s.c, "/v1/retention/"+Segment(r.Workflow), r)
}

// Delete removes the retention of a workflow.
func (s Retentions) Delete(ctx context.Context, workflow string) error {
	return s.c.remove(ctx, "/v1/retention/"+Segment(workflow))
}

// Token is a token without its text.
type Token struct {
	ID        string    `json:"id"` // not secret
	Name      string    `json:"name,omitempty"`
	Namespace string    `json:"namespace,omitempty"` // empty: all namespaces
	Scopes    []string  `json:"scopes"`
	Created   time.Time `json:"created"`
	Expires   time.Time `json:"expires,omitzero"` // zero: never
}

// TokenRequest is a request for a token.
type TokenRequest struct {
	Name      string   `json:"name,omitempty"`           // for people
	Namespace string   `json:"namespace,omitempty"`      // the client's namespace if empty
	All       bool     `json:"all_namespaces,omitempty"` // the token is for all namespaces
	Scopes    []string `json:"scopes"`                   // read, work, run, operate, upload, admin
	Expires   string   `json:"expires,omitempty"`        // duration text; never for ""
}

// Create creates a token and returns it with its text. The text cannot be read again.
func (s Tokens) Create(ctx context.Context, t TokenRequest) (made Token, text string, err error) {
	n, err := send[struct {
		Token
		Text string `json:"token"`
	}](ctx, s.c, Request{Method: http.MethodPost, Path: "/v1/tokens"}, t)
	return n.Token, n.Text, err
}

// List returns the tokens that the caller may see.
func (s Tokens) List(ctx context.Context) ([]Token, error) {
	return items[Token](ctx, s.c, "/v1/tokens", nil)
}

// Revoke revokes a token by its id. Requests with the token are refused from then on.
func (s Tokens) Revoke(ctx context.Context, id string) error {
	return s.c.remove(ctx, "/v1/tokens/"+Segment(id))
}

// Quota is what a namespace may use; 0 = no limit.
type Quota struct {
	MaxRuns           int64 `json:"max_runs,omitempty"` // runs that have not ended
	MaxBytes          int64 `json:"max_bytes,omitempty"`
	MaxInstances      int64 `json:"max_instances,omitempty"` // guests that compute at the same time
	StartsPerSecond   int64 `json:"starts_per_second,omitempty"`
	RequestsPerSecond int64 `json:"requests_per_second,omitempty"`
	WakesPerSecond    int64 `json:"wakes_per_second,omitempty"`
	BytesPerSecond    int64 `json:"bytes_per_second,omitempty"` // bytes that its runs write
	MaxSchedules      int64 `json:"max_schedules,omitempty"`
	MaxVersions       int64 `json:"max_versions,omitempty"`
}

// Usage is what a namespace uses.
type Usage struct {
	Runs      int64 `json:"runs"` // runs that have not ended
	Bytes     int64 `json:"bytes"`
	Instances int   `json:"instances"`
}

// Namespace is a namespace with its quota.
type Namespace struct {
	Name    string    `json:"name"`
	Created time.Time `json:"created,omitzero"` // zero for the default namespace
	Quota   Quota     `json:"quota"`
	Usage   Usage     `json:"usage"`
}

// Namespaces returns the namespaces that the caller may see.
func (c *Client) Namespaces(ctx context.Context) ([]Namespace, error) {
	return items[Namespace](ctx, c, "/v1/namespaces", nil)
}

// SetQuota sets the quota of a namespace. It creates the namespace if necessary.
func (c *Client) SetQuota(ctx context.Context, namespace string, q Quota) (Namespace, error) {
	return put[Namespace](ctx, c, "/v1/namespaces/"+Segment(namespace), q)
}

// put makes a PUT request with a body.
func put[T any](ctx context.Context, c *Client, path string, body any) (T, error) {
	return send[T](ctx, c, Request{Method: http.MethodPut, Path: path, Repeatable: true}, body)
}

// remove makes a DELETE request.
func (c *Client) remove(ctx context.Context, path string) error {
	return c.call(ctx, Request{Method: http.MethodDelete, Path: path, Query: url.Values{}}, nil)
}
