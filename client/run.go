package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wfhost/wfhost/abi"
)

// Status is the status of a run.
type Status string

// The statuses.
const (
	Queued     Status = "queued"
	Running    Status = "running"
	Sleeping   Status = "sleeping"
	Waiting    Status = "waiting"
	Paused     Status = "paused"
	Stuck      Status = "stuck" // the code differs from the journal, or the module broke down: a person must act
	Completed  Status = "completed"
	Failed     Status = "failed"
	Cancelled  Status = "cancelled"
	Terminated Status = "terminated"
)

// Terminal reports whether a run with this status has ended.
func (s Status) Terminal() bool {
	return s == Completed || s == Failed || s == Cancelled || s == Terminated
}

// Run is the state of a run. Instants that do not apply are zero.
type Run struct {
	Namespace string    `json:"namespace,omitempty"` // empty in the default namespace
	ID        string    `json:"id"`
	Workflow  string    `json:"workflow"`
	Version   uint32    `json:"version"`
	Module    string    `json:"module"` // SHA-256 in hexadecimal
	Status    Status    `json:"status"`
	Reason    string    `json:"reason,omitempty"` // of waiting and stuck
	Created   time.Time `json:"created"`
	Started   time.Time `json:"started,omitzero"` // when its workflow began to run
	Updated   time.Time `json:"updated"`
	Ended     time.Time `json:"ended,omitzero"`
	Wake      time.Time `json:"wake,omitzero"`       // when the run wakes by itself
	Entries   uint64    `json:"entries"`             // of its journal
	Existed   bool      `json:"existed,omitempty"`   // of a start: the run existed already
	Iteration uint32    `json:"iteration,omitempty"` // from 0; each continue-as-new adds one
	// FirstIteration is the first iteration whose journal is kept.
	FirstIteration uint32            `json:"first_iteration,omitempty"`
	Attributes     map[string]string `json:"attributes,omitempty"`
	Memo           json.RawMessage   `json:"memo,omitempty"`
	Parent         string            `json:"parent,omitempty"` // id of the run that started it
	Output         uint64            `json:"output,omitempty"` // chunks of output
	Schedule       string            `json:"schedule,omitempty"`
	Nominal        time.Time         `json:"nominal,omitzero"` // the instant that the schedule started it for
	// Aside says why the run does not execute here: "copy" or "moved". It is empty for all other runs.
	Aside    string    `json:"aside,omitempty"`
	Imported time.Time `json:"imported,omitzero"`
	// QueuePosition is the position in the queue for a slot. Only Get returns it.
	QueuePosition *QueuePosition `json:"place,omitempty"`
	// Throttled is until when starts with the same key return this run. Only such a start returns it.
	Throttled time.Time `json:"throttled,omitzero"`
	// Error is the message of a failed run. Lists shorten it to 300 characters.
	Error string `json:"error,omitempty"`
	// Failure is the complete recorded failure. Only Get returns it.
	Failure *abi.Error `json:"failure,omitempty"`
	Help    string     `json:"help,omitempty"`     // advice for a stuck run
	TraceID string     `json:"trace_id,omitempty"` // of W3C Trace Context; only Get has it
}

// QueuePosition is the position of a run in the queue for a slot.
type QueuePosition struct {
	Position int    `json:"place"`   // among the runs with the same keys, from 1
	Same     int64  `json:"same"`    // waiting runs with the same keys
	Waiting  int64  `json:"waiting"` // waiting runs of the workflow
	Limit    string `json:"limit,omitempty"`
}

// Page is one page of a list.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"` // the cursor of the next page; empty on the last one
}

// Query selects runs. The zero Query selects all of the namespace, newest first.
type Query struct {
	Workflow      string
	Statuses      []Status
	CreatedFrom   time.Time         // created at this instant or later
	CreatedBefore time.Time         // created before this instant
	Attributes    map[string]string // equal to
	Where         []string          // conditions on attributes, such as "amount>=100"; all must hold
	Oldest        bool              // oldest first
	Limit         int               // of a page, at most 1,000; 100 for 0
	Cursor        string            // Next of the previous page
}

func (q *Query) values() url.Values {
	v := url.Values{}
	set := func(name, text string) {
		if text != "" {
			v.Set(name, text)
		}
	}
	set("workflow", q.Workflow)
	set("status", joined(q.Statuses))
	set("created_from", instant(q.CreatedFrom))
	set("created_before", instant(q.CreatedBefore))
	set("cursor", q.Cursor)
	for key, value := range q.Attributes {
		v.Set("attr."+key, value)
	}
	v["where"] = slices.Clone(q.Where)
	if q.Oldest {
		v.Set("order", "oldest")
	}
	if q.Limit != 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return v
}

func joined(statuses []Status) string {
	texts := make([]string, len(statuses))
	for i, s := range statuses {
		texts[i] = string(s)
	}
	return strings.Join(texts, ",")
}

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// Get returns the current state of a run.
func (c *Client) Get(ctx context.Context, id string) (Run, error) {
	return get[Run](ctx, c, runPath(id, ""), nil)
}

// RunPage returns a page of the runs that a query selects.
func (c *Client) RunPage(ctx context.Context, q Query) (Page[Run], error) {
	return get[Page[Run]](ctx, c, "/v1/runs", q.values())
}

// Runs yields all runs that a query selects, starting at its cursor, and reads them page by page. It ends with the first error.
func (c *Client) Runs(ctx context.Context, q Query) iter.Seq2[Run, error] {
	return pages(func(cursor string) (Page[Run], error) {
		if cursor != "" {
			q.Cursor = cursor
		}
		return c.RunPage(ctx, q)
	})
}

// pages yields the items of all pages.
func pages[T any](page func(cursor string) (Page[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for cursor := ""; ; {
			p, err := page(cursor)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range p.Items {
				if !yield(item, nil) {
					return
				}
			}
			cursor = p.Next
			if cursor == "" {
				return
			}
		}
	}
}

// Counts are numbers of runs.
type Counts struct {
	Total    int64            `json:"total"`
	Statuses map[Status]int64 `json:"statuses"`
}

// Count counts the runs of a workflow by status, or the runs of all workflows for "".
func (c *Client) Count(ctx context.Context, workflow string) (Counts, error) {
	v := url.Values{}
	if workflow != "" {
		v.Set("workflow", workflow)
	}
	return get[Counts](ctx, c, "/v1/runs:count", v)
}

// held is how long the server holds a request that waits for a run.
const held = "30s"

// Wait waits until a run has ended or is stuck, or ctx is done. A failed run is not an error.
func (c *Client) Wait(ctx context.Context, id string) (Run, error) {
	_, err := c.ResultRaw(ctx, id)
	if _, ok := errors.AsType[*RunError](err); err != nil && !ok && !errors.Is(err, ErrMismatch) {
		return Run{}, err
	}
	return c.Get(ctx, id)
}

// ResultRaw waits until a run has ended and returns its result as bytes. For a run that did not complete it returns a
// *RunError; if the run is stuck, errors.Is(err, ErrMismatch) is true.
func (c *Client) ResultRaw(ctx context.Context, id string) ([]byte, error) {
	r := Request{Method: http.MethodGet, Path: runPath(id, "/result"), Query: url.Values{"wait": {held}}}
	for {
		a, err := c.read(ctx, &r)
		if err != nil || a.status != http.StatusAccepted {
			return a.body, err
		}
	}
}

// Result is like ResultRaw and decodes the result from JSON. Without a result it returns the zero value.
func Result[T any](ctx context.Context, c *Client, id string) (v T, err error) {
	b, err := c.ResultRaw(ctx, id)
	if err != nil || len(b) == 0 {
		return v, err
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return v, fmt.Errorf("the result of run %s: %w", id, err)
	}
	return v, nil
}

// Timer is a run and the instant at which it wakes.
type Timer struct {
	RunID    string    `json:"run"`
	Workflow string    `json:"workflow"`
	Due      time.Time `json:"due"`
}

// Timers yields the wakes due within a duration, soonest first; all of them for 0.
func (c *Client) Timers(ctx context.Context, within time.Duration) iter.Seq2[Timer, error] {
	v := url.Values{}
	if within > 0 {
		v.Set("within", abi.FormatDuration(max(within.Milliseconds(), 1)))
	}
	return pages(func(cursor string) (Page[Timer], error) {
		if cursor != "" {
			v.Set("cursor", cursor)
		}
		return get[Page[Timer]](ctx, c, "/v1/timers", v)
	})
}
