package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// RestartOptions says what of a run a new run repeats. The zero value repeats all of it, under an id of the server.
type RestartOptions struct {
	NewID      string  // of the new run
	From       string  // name of the first step, sleep or child that is done again; what came before is kept
	Iteration  *uint32 // of a run that has continued as new; nil: the newest one that has From, or the first one
	Version    uint32  // under which the new run goes on; 0: that of the run
	KeepUndone bool    // keeps what was undone since, and children that were cancelled, where a restart is refused otherwise
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

// RestartPlan says what a restart does.
type RestartPlan struct {
	Run       string        `json:"run"`
	From      string        `json:"from"`
	Iteration uint32        `json:"iteration"`
	Version   uint32        `json:"version"`  // of the new run
	Refused   string        `json:"refused"`  // why the restart is refused; empty if it is not
	Signal    string        `json:"signal"`   // that the run was started with, if the new run is, too; empty if there is none
	Kept      []RestartCall `json:"kept"`     // calls whose outcomes the new run has
	Repeated  []RestartCall `json:"repeated"` // those that it makes again, if it does what the run did
}

// RestartCall is a call of the run that is repeated.
type RestartCall struct {
	Seq    uint64 `json:"seq"`    // of its entry
	Kind   string `json:"kind"`   // as in the journal, such as step
	Name   string `json:"name"`   // some calls have none
	Target string `json:"target"` // handler, workflow, run, or token of a hook
	Note   string `json:"note"`   // what is worth knowing
}

// Restart starts a run like another one: from its beginning, or so that all before the first step, sleep or child of
// the name from is as it was. The new run has an id of the server for an empty newID.
func (c *Client) Restart(ctx context.Context, id, newID, from string) (Run, error) {
	return c.RestartWith(ctx, id, RestartOptions{NewID: newID, From: from})
}

// RestartWith is Restart with more to say. A restart that is refused is an *Error of the code conflict, with a sentence.
func (c *Client) RestartWith(ctx context.Context, id string, o RestartOptions) (Run, error) {
	return send[Run](ctx, c, Request{Method: http.MethodPost, Path: runPath(id, "/restart"), Query: o.query()}, nil)
}

// PlanRestart says what RestartWith would do, and does nothing. A restart that would be refused is no error.
func (c *Client) PlanRestart(ctx context.Context, id string, o RestartOptions) (RestartPlan, error) {
	q := o.query()
	q.Set("dry_run", "true")
	return send[RestartPlan](ctx, c, Request{Method: http.MethodPost, Path: runPath(id, "/restart"), Query: q,
		Repeatable: true}, nil)
}
