package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// Cancel asks a run to end. Its workflow is told and may clean up; a workflow that does not handle the cancel ends as
// cancelled. Cancel reports false if the run was asked before.
func (c *Client) Cancel(ctx context.Context, id string) (changed bool, err error) {
	return c.act(ctx, id, "cancel", nil, true)
}

// Terminate ends a run at once.
func (c *Client) Terminate(ctx context.Context, id string) error {
	_, err := c.act(ctx, id, "terminate", nil, false)
	return err
}

// Pause stops a run at its next wait, until Unpause. It reports false if the run was already paused.
func (c *Client) Pause(ctx context.Context, id string) (changed bool, err error) {
	return c.act(ctx, id, "pause", nil, true)
}

// Unpause resumes a paused run. It reports whether the run was paused.
func (c *Client) Unpause(ctx context.Context, id string) (changed bool, err error) {
	return c.act(ctx, id, "unpause", nil, true)
}

// Wake ends the sleeps with a name early. An empty name means all sleeps, and the delay of the start. It returns the number
// of sleeps.
func (c *Client) Wake(ctx context.Context, id, name string) (count int, err error) {
	v := url.Values{}
	if name != "" {
		v.Set("name", name)
	}
	a, err := c.changed(ctx, id, "wake", v, false)
	return a.Count, err
}

// Retry resumes a failed or stuck run from the failure that ended it, under the given version of its workflow, or its
// own version for 0.
func (c *Client) Retry(ctx context.Context, id string, version uint32) error {
	v := url.Values{}
	if version != 0 {
		v.Set("version", strconv.FormatUint(uint64(version), 10))
	}
	_, err := c.act(ctx, id, "retry", v, false)
	return err
}

// Delete deletes an ended run with all its records.
func (c *Client) Delete(ctx context.Context, id string) error {
	return c.call(ctx, Request{Method: http.MethodDelete, Path: runPath(id, "")}, nil)
}

// changed is the answer to an action.
type changed struct {
	Run   Run `json:"run"`
	Count int `json:"count"`
}

func (c *Client) changed(ctx context.Context, id, action string, query url.Values, repeatable bool) (changed, error) {
	return send[changed](ctx, c, Request{Method: http.MethodPost, Path: runPath(id, "/"+action), Query: query,
		Repeatable: repeatable}, nil)
}

func (c *Client) act(ctx context.Context, id, action string, query url.Values, repeatable bool) (bool, error) {
	a, err := c.changed(ctx, id, action, query, repeatable)
	return a.Count > 0, err
}

// Bulk is a request for one action on many runs.
type Bulk struct {
	Action     string            `json:"action"` // cancel, terminate, pause, unpause, retry or delete
	Workflow   string            `json:"workflow,omitempty"`
	Status     string            `json:"status,omitempty"` // one or more, separated by commas
	Attributes map[string]string `json:"attributes,omitempty"`
	Where      []string          `json:"where,omitempty"`   // as in Query
	All        bool              `json:"all,omitempty"`     // required without any other filter
	DryRun     bool              `json:"dry_run,omitempty"` // only list the runs
	Limit      int               `json:"limit,omitempty"`   // at most 10,000, which is the default for 0
}

// BulkAnswer is the result of a bulk action.
type BulkAnswer struct {
	Matched int           `json:"matched"`
	Changed int           `json:"changed"`
	Runs    []string      `json:"runs"` // ids of the runs that were changed, or would be
	Errors  []BulkRefusal `json:"errors"`
	More    bool          `json:"more"` // the limit was reached
}

// BulkRefusal says why a run was not changed.
type BulkRefusal struct {
	Run    string `json:"run"`
	Detail string `json:"detail"`
}

// Bulk performs one action on all runs that a filter selects.
func (c *Client) Bulk(ctx context.Context, b Bulk) (BulkAnswer, error) {
	return send[BulkAnswer](ctx, c, Request{Method: http.MethodPost, Path: "/v1/runs:bulk", Repeatable: b.DryRun}, b)
}
