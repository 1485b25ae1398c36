package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// Cancel asks a run to end: its workflow is told and may tidy up; one that takes no cancel ends as cancelled. It
// reports whether that is new, which it is not if the run was asked before.
func (c *Client) Cancel(ctx context.Context, id string) (changed bool, err error) {
	return c.act(ctx, id, "cancel", nil, true)
}

// Terminate ends a run at once.
func (c *Client) Terminate(ctx context.Context, id string) error {
	_, err := c.act(ctx, id, "terminate", nil, false)
	return err
}

// Pause stops a run where it waits next, until Unpause. It reports whether that is new.
func (c *Client) Pause(ctx context.Context, id string) (changed bool, err error) {
	return c.act(ctx, id, "pause", nil, true)
}

// Unpause lets a paused run continue. It reports whether it was paused.
func (c *Client) Unpause(ctx context.Context, id string) (changed bool, err error) {
	return c.act(ctx, id, "unpause", nil, true)
}

// Wake ends the sleeps of a name before their time; all of them, and the delay of a start, for an empty name. It
// returns how many there were.
func (c *Client) Wake(ctx context.Context, id, name string) (count int, err error) {
	v := url.Values{}
	if name != "" {
		v.Set("name", name)
	}
	a, err := c.changed(ctx, id, "wake", v, false)
	return a.Count, err
}

// Retry lets a failed or stuck run continue from the failure that ended it, under a version of its workflow; under its
// own for 0.
func (c *Client) Retry(ctx context.Context, id string, version uint32) error {
	v := url.Values{}
	if version != 0 {
		v.Set("version", strconv.FormatUint(uint64(version), 10))
	}
	_, err := c.act(ctx, id, "retry", v, false)
	return err
}

// Delete deletes a run that has ended, with all that it has recorded.
func (c *Client) Delete(ctx context.Context, id string) error {
	return c.call(ctx, Request{Method: http.MethodDelete, Path: runPath(id, "")}, nil)
}

// changed is the answer of an action.
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

// Bulk asks for one action on many runs.
type Bulk struct {
	Action     string            `json:"action"` // cancel, terminate, pause, unpause, retry or delete
	Workflow   string            `json:"workflow,omitempty"`
	Status     string            `json:"status,omitempty"` // one or more, separated by commas
	Attributes map[string]string `json:"attributes,omitempty"`
	Where      []string          `json:"where,omitempty"`   // as in Query
	All        bool              `json:"all,omitempty"`     // needed where nothing else selects
	DryRun     bool              `json:"dry_run,omitempty"` // only say which runs it would be
	Limit      int               `json:"limit,omitempty"`   // 10,000 for 0, which is the most
}

// BulkAnswer says what became of it.
type BulkAnswer struct {
	Matched int           `json:"matched"`
	Changed int           `json:"changed"`
	Runs    []string      `json:"runs"` // the ids that were changed, or would be
	Errors  []BulkRefusal `json:"errors"`
	More    bool          `json:"more"` // the limit was reached
}

// BulkRefusal says why a run was not changed.
type BulkRefusal struct {
	Run    string `json:"run"`
	Detail string `json:"detail"`
}

// Bulk does one thing to all runs that a filter selects.
func (c *Client) Bulk(ctx context.Context, b Bulk) (BulkAnswer, error) {
	return send[BulkAnswer](ctx, c, Request{Method: http.MethodPost, Path: "/v1/runs:bulk", Repeatable: b.DryRun}, b)
}
