package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
)

// SignalOptions are options of Signal and Deliver.
type SignalOptions struct {
	// IdempotencyKey is remembered by the run: a signal with a key and the bytes of one before is that one. Without it
	// the client makes one, with which the request can be repeated.
	IdempotencyKey string
}

func (o *SignalOptions) header() http.Header {
	key := o.IdempotencyKey
	if key == "" {
		key = rand.Text()
	}
	return http.Header{"Idempotency-Key": {key}}
}

// Signal sends a signal to a run. The payload is encoded as Start does. It is durable on return, whether or not the workflow
// waits for it. ErrTerminal if the run has ended, ErrBusy if too many wait for it.
func (c *Client) Signal(ctx context.Context, id, name string, p any, o SignalOptions) error {
	b, err := payload(p)
	if err != nil {
		return err
	}
	return c.call(ctx, Request{Method: http.MethodPost, Path: runPath(id, "/signals/"+Segment(name)), Header: o.header(), Body: b,
		Repeatable: true}, nil)
}

// HookReply is what a workflow has a delivery answered with.
type HookReply struct {
	Status      int
	ContentType string
	Body        []byte
}

// Deliver delivers to the run that holds a token of a hook. It needs no token of the API.
func (c *Client) Deliver(ctx context.Context, token string, p any, o SignalOptions) (HookReply, error) {
	b, err := payload(p)
	if err != nil {
		return HookReply{}, err
	}
	r := Request{Method: http.MethodPost, Path: "/v1/hooks/" + Segment(token), Header: o.header(), Body: b, Repeatable: true}
	a, err := c.read(ctx, &r)
	return HookReply{a.status, a.header.Get("Content-Type"), a.body}, err
}

// Ask asks a run a question that its workflow offers, and decodes the answer from JSON into answer, unless that is nil;
// a *[]byte gets it as it is. Nothing of it is recorded. ErrFailed, with what it says, if the workflow answers with an
// error.
func (c *Client) Ask(ctx context.Context, id, query string, input, answer any) error {
	b, err := payload(input)
	if err != nil {
		return err
	}
	a, err := c.read(ctx, &Request{Method: http.MethodPost, Path: runPath(id, "/queries/"+Segment(query)), Body: b,
		Repeatable: true})
	if err != nil {
		return err
	}
	return decode(a.body, answer)
}

// decode decodes an answer of a workflow.
func decode(b []byte, into any) error {
	switch into := into.(type) {
	case nil:
		return nil
	case *[]byte:
		*into = b
		return nil
	case *json.RawMessage:
		*into = b
		return nil
	}
	if len(b) == 0 {
		return nil
	}
	return json.Unmarshal(b, into)
}

// UpdateStatus is where an update stands.
type UpdateStatus string

// The statuses of updates.
const (
	UpdateAccepted  UpdateStatus = "accepted"
	UpdateCompleted UpdateStatus = "completed"
)

// Update asks a run to do something, waits for its answer and decodes it as Ask does. It can be asked for again, by another
// process, too, with UpdateResult and the id; for an empty one the client makes one.
//
// ErrRefused if the workflow does not accept it. ErrFailed, as an *Error with the Failure, if the workflow answers with
// an error. If ctx ends before the answer, the update may have been accepted.
func (c *Client) Update(ctx context.Context, run, name, id string, input, answer any) error {
	if id == "" {
		id = rand.Text()
	}
	a, err := c.update(ctx, run, name, id, held, input)
	if err != nil {
		return err
	}
	if a.status == http.StatusAccepted {
		return c.UpdateResult(ctx, run, name, id, answer)
	}
	return decode(a.body, answer)
}

// BeginUpdate is Update that waits until the update is accepted, and not for its answer. The status is UpdateCompleted
// if it has been answered by then.
func (c *Client) BeginUpdate(ctx context.Context, run, name, id string, input any) (UpdateStatus, error) {
	a, err := c.update(ctx, run, name, id, "0s", input)
	if err != nil {
		return "", err
	}
	if a.status == http.StatusAccepted {
		return UpdateAccepted, nil
	}
	return UpdateCompleted, nil
}

func (c *Client) update(ctx context.Context, run, name, id, wait string, input any) (answer, error) {
	b, err := payload(input)
	if err != nil {
		return answer{}, err
	}
	return c.read(ctx, &Request{Method: http.MethodPost, Path: updatePath(run, name), Query: url.Values{"wait": {wait}},
		Header: http.Header{"Idempotency-Key": {id}}, Body: b, Repeatable: true})
}

// UpdateResult waits for the answer to an update that was accepted, and decodes it as Ask does. ErrNotFound if the run
// knows no update of that id.
func (c *Client) UpdateResult(ctx context.Context, run, name, id string, answer any) error {
	r := Request{Method: http.MethodGet, Path: updatePath(run, name) + "/" + Segment(id), Query: url.Values{"wait": {held}}}
	for {
		a, err := c.read(ctx, &r)
		if err != nil {
			return err
		}
		if a.status != http.StatusAccepted {
			return decode(a.body, answer)
		}
	}
}

func updatePath(run, name string) string { return runPath(run, "/updates/"+Segment(name)) }
