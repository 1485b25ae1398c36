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
	// IdempotencyKey is remembered by the run: a signal with the same key and bytes as an earlier one is ignored. Without it
	// the client generates a key, so that the request can be repeated.
	IdempotencyKey string
}

func (o *SignalOptions) header() http.Header {
	key := o.IdempotencyKey
	if key == "" {
		key = rand.Text()
	}
	return http.Header{"Idempotency-Key": {key}}
}

// Signal sends a signal to a run. The payload is encoded as by Start. It is durable on return, whether or not the workflow
// waits for it. Signal returns ErrTerminal if the run has ended and ErrBusy if too many signals are pending.
func (c *Client) Signal(ctx context.Context, id, name string, p any, o SignalOptions) error {
	b, err := payload(p)
	if err != nil {
		return err
	}
	return c.call(ctx, Request{Method: http.MethodPost, Path: runPath(id, "/signals/"+Segment(name)), Header: o.header(), Body: b,
		Repeatable: true}, nil)
}

// HookReply is the reply of a workflow to a delivery.
type HookReply struct {
	Status      int
	ContentType string
	Body        []byte
}

// Deliver sends a delivery to the run that holds a hook token. It requires no API token.
func (s Hooks) Deliver(ctx context.Context, token string, p any, o SignalOptions) (HookReply, error) {
	b, err := payload(p)
	if err != nil {
		return HookReply{}, err
	}
	r := Request{Method: http.MethodPost, Path: "/v1/hooks/" + Segment(token), Header: o.header(), Body: b, Repeatable: true}
	a, err := s.c.read(ctx, &r)
	return HookReply{a.status, a.header.Get("Content-Type"), a.body}, err
}

// Ask sends a query to a run and decodes the answer from JSON into answer, unless that is nil. A *[]byte receives the raw
// answer. Nothing is recorded. If the workflow answers with an error, Ask returns ErrFailed with its text.
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

// UpdateStatus is the status of an update.
type UpdateStatus string

// The statuses of updates.
const (
	UpdateAccepted  UpdateStatus = "accepted"
	UpdateCompleted UpdateStatus = "completed"
)

// Update sends an update to a run, waits for the answer and decodes it as Ask does. Any process can get the answer again by
// UpdateResult and the id. For an empty id the client generates one.
//
// It returns ErrRefused if the workflow does not accept the update. If the workflow answers with an error, it returns
// ErrFailed, an *Error with the Failure. If ctx ends first, the update may have been accepted.
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

// BeginUpdate is like Update, but waits only until the update is accepted. It returns UpdateCompleted if the workflow has
// answered by then.
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

// UpdateResult waits for the answer to an accepted update and decodes it as Ask does. It returns ErrNotFound if the run has
// no update with the id.
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
