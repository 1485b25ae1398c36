package client

import (
	"context"
	"crypto/rand"
	"net/http"
	"time"

	"github.com/wfhost/wfhost/abi"
)

// OnConflict says what a start does if a run has the id.
type OnConflict string

// The policies.
const (
	// ConflictExisting returns the existing run if its input is the same, otherwise ErrConflict.
	ConflictExisting OnConflict = "existing"
	// ConflictFail returns ErrConflict.
	ConflictFail OnConflict = "fail"
	// ConflictTerminate terminates the existing run and starts a new one.
	ConflictTerminate OnConflict = "terminate"
	// ConflictReplace replaces an ended run, and returns ErrConflict if the run has not ended.
	ConflictReplace OnConflict = "replace"
)

// StartOptions are options of Start. The zero value starts the newest version at once under a new id.
type StartOptions struct {
	// ID is the id of the run: 1 to 128 of A-Z a-z 0-9 . _ : ~ -. Without it the client generates one, so that the request can be
	// repeated.
	ID         string
	Version    uint32            // 0: the newest
	At         time.Time         // when its workflow begins; zero: at once
	In         time.Duration     // in place of At: delay by the server's clock
	Timeout    time.Duration     // the run fails after this time; 0: no timeout
	Attributes map[string]string // to find the run by
	Memo       any               // JSON that is shown with the run, at most 2,048 bytes
	Signal     *FirstSignal
	OnConflict OnConflict // default: ConflictExisting
	Priority   int        // in the queue for a slot, -100 to 100
	// TraceParent is the caller's span as in W3C Trace Context. The run belongs to its trace.
	TraceParent string
}

// FirstSignal is a signal that is delivered with the start. If the run exists already, it is an ordinary signal.
type FirstSignal struct {
	Name           string
	Payload        any
	IdempotencyKey string // if empty, the client generates one
}

// startBody is the body of a start request.
type startBody struct {
	ID         string            `json:"id"`
	Input      Payload           `json:"input,omitempty"`
	Bytes      []byte            `json:"input_base64,omitempty"`
	Version    uint32            `json:"version,omitempty"`
	At         *time.Time        `json:"at,omitempty"`
	In         string            `json:"in,omitempty"`
	Timeout    string            `json:"timeout,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
	Memo       Payload           `json:"memo,omitempty"`
	Signal     *signalBody       `json:"signal,omitempty"`
	OnConflict OnConflict        `json:"on_conflict,omitempty"`
	Priority   int               `json:"priority,omitempty"`
}

type signalBody struct {
	Name           string  `json:"name"`
	Payload        Payload `json:"payload,omitempty"`
	IdempotencyKey string  `json:"idempotency_key"`
}

// Start starts a run of a workflow. The input is encoded as JSON; nil means no input, and Payload and json.RawMessage are
// sent unchanged. The run is durable on return. Run.Existed says that it existed already.
func (c *Client) Start(ctx context.Context, workflow string, input any, o StartOptions) (Run, error) {
	p, err := payload(input)
	if err != nil {
		return Run{}, err
	}
	return c.start(ctx, workflow, startBody{Input: p}, o)
}

// StartRaw is like Start with an input that need not be JSON, for workflows that read text or bytes, such as those whose input
// is workflow.Bytes.
func (c *Client) StartRaw(ctx context.Context, workflow string, input []byte, o StartOptions) (Run, error) {
	return c.start(ctx, workflow, startBody{Bytes: input}, o)
}

func (c *Client) start(ctx context.Context, workflow string, body startBody, o StartOptions) (Run, error) {
	body.ID, body.Version, body.In, body.Timeout = o.ID, o.Version, duration(o.In), duration(o.Timeout)
	body.Attributes, body.OnConflict, body.Priority = o.Attributes, o.OnConflict, o.Priority
	if body.ID == "" {
		body.ID = rand.Text()
	}
	if !o.At.IsZero() {
		at := o.At.UTC()
		body.At = &at
	}
	if err := fillStart(&body, &o); err != nil {
		return Run{}, err
	}
	r := Request{Method: http.MethodPost, Path: "/v1/workflows/" + Segment(workflow) + "/runs",
		Header: http.Header{}, Repeatable: o.OnConflict == "" || o.OnConflict == ConflictExisting}
	if o.TraceParent != "" {
		r.Header.Set("Traceparent", o.TraceParent)
	}
	return send[Run](ctx, c, r, body)
}

// fillStart encodes the memo and the signal.
func fillStart(body *startBody, o *StartOptions) (err error) {
	body.Memo, err = payload(o.Memo)
	if err != nil || o.Signal == nil {
		return err
	}
	body.Signal = &signalBody{Name: o.Signal.Name, IdempotencyKey: o.Signal.IdempotencyKey}
	if body.Signal.IdempotencyKey == "" {
		body.Signal.IdempotencyKey = rand.Text()
	}
	body.Signal.Payload, err = payload(o.Signal.Payload)
	return err
}

// duration returns duration text, "" for 0.
func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return abi.FormatDuration(abi.Milliseconds(d))
}
