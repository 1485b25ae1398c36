package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// RestartOptions say which part of a run a new run repeats. The zero value repeats all of it, under an id that the server
// generates.
type RestartOptions struct {
	NewID      string  // of the new run
	From       string  // name of the first step, sleep or child to repeat; everything before is kept
	Iteration  *uint32 // of a run that has continued as new; nil: the newest iteration that has From, or the first
	Version    uint32  // of the new run; 0: the version of the old run
	KeepUndone bool    // keep steps that were undone later, and cancelled children; otherwise they prevent the restart
}

func (o *RestartOptions) query() url.Values {
	v := url.Values{}
	set := func(name, value string, has bool) {
		if has {
			v.Set(name, value)
		}
	}
	set("id", o.NewID, o.NewID != "")
	set("from", o.From, o.From != "")
	set("version", strconv.FormatUint(uint64(o.Version), 10), o.Version != 0)
	set("keep_undone", "true", o.KeepUndone)
	if o.Iteration != nil {
		v.Set("iteration", strconv.FormatUint(uint64(*o.Iteration), 10))
	}
	return v
}

// RestartPlan describes the effect of a restart.
type RestartPlan struct {
	Run       string        `json:"run"`
	From      string        `json:"from"`
	Iteration uint32        `json:"iteration"`
	Version   uint32        `json:"version"`  // of the new run
	Refused   string        `json:"refused"`  // why the restart is refused; empty if it is allowed
	Signal    string        `json:"signal"`   // signal that the run was started with, if the new run gets it too; otherwise empty
	Kept      []RestartCall `json:"kept"`     // calls whose outcomes the new run keeps
	Repeated  []RestartCall `json:"repeated"` // calls that it makes again, if it behaves like the old run
}

// RestartCall is a call of the old run.
type RestartCall struct {
	Seq    uint64 `json:"seq"`    // of its entry
	Kind   string `json:"kind"`   // as in the journal, such as step
	Name   string `json:"name"`   // empty for some calls
	Target string `json:"target"` // handler, workflow, run, or token of a hook
	Note   string `json:"note"`   // remark for people
}

// Restart starts a run as a repetition of another one: from the beginning, or keeping everything before the first step,
// sleep or child named from. For an empty newID the server generates the id.
func (c *Client) Restart(ctx context.Context, id, newID, from string) (Run, error) {
	return c.RestartWith(ctx, id, RestartOptions{NewID: newID, From: from})
}

// RestartWith is like Restart, with more options. A refused restart is an *Error with code conflict.
func (c *Client) RestartWith(ctx context.Context, id string, o RestartOptions) (Run, error) {
	return send[Run](ctx, c, Request{Method: http.MethodPost, Path: runPath(id, "/restart"), Query: o.query()}, nil)
}

// PlanRestart returns what RestartWith would do, without doing it. A refusal is reported in the plan, not as an error.
func (c *Client) PlanRestart(ctx context.Context, id string, o RestartOptions) (RestartPlan, error) {
	q := o.query()
	q.Set("dry_run", "true")
	return send[RestartPlan](ctx, c, Request{Method: http.MethodPost, Path: runPath(id, "/restart"), Query: q,
		Repeatable: true}, nil)
}
