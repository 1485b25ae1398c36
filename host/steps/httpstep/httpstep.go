// Package httpstep is the handler host/http, which ships with the host: a step that is one HTTP request, for workflows
// in languages without bodies and for authors who prefer a handler. The grants of the workflow's version limit the
// requests.
package httpstep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
)

// Name is the handler's name; workflows call it by host/http.
const Name = "http"

// Request is the input of the step.
type Request struct {
	Method  string              `json:"method,omitempty"` // default GET
	URL     string              `json:"url"`
	Headers map[string][]string `json:"headers,omitempty"`
	// Body is sent verbatim if it is a JSON string, else as JSON.
	Body      json.RawMessage `json:"body,omitempty"`
	TimeoutMs int64           `json:"timeout_ms,omitempty"`
	// Redirect says how to treat redirects: follow (default; at most 20, none with a secret), manual returns the
	// redirect itself, error fails the request.
	Redirect string `json:"redirect,omitempty"`
	// Accept lists the statuses that are results. Default: statuses below 400. Other statuses fail the step at once,
	// except 408, 425, 429 and statuses from 500, which are retried after the time in Retry-After.
	Accept []int `json:"accept,omitempty"`
}

// Response is the step's result.
type Response struct {
	Status  int                 `json:"status"`
	Headers map[string][]string `json:"headers,omitempty"`
	// Redirected tells whether redirects were followed, and URL where they led. URL is empty without redirects.
	Redirected bool   `json:"redirected,omitempty"`
	URL        string `json:"url,omitempty"`
	// Body is JSON if the response is, else a JSON string.
	Body json.RawMessage `json:"body,omitempty"`
}

// Register registers the handler. It sends the idempotency key of the step in the header Idempotency-Key unless the
// request has that header.
func Register(h *host.Host) {
	host.HandleStep(h, Name, func(ctx context.Context, r Request) (Response, error) { return do(ctx, h, r) })
}

func do(ctx context.Context, h *host.Host, r Request) (Response, error) {
	body := []byte(r.Body)
	var text string
	if json.Unmarshal(r.Body, &text) == nil {
		body = []byte(text)
	}
	header := http.Header{}
	for name, values := range r.Headers {
		for _, v := range values {
			header.Add(name, v)
		}
	}
	if header.Get("Idempotency-Key") == "" {
		header.Set("Idempotency-Key", host.StepInfo(ctx).IdempotencyKey)
	}
	if len(body) > 0 && header.Get("Content-Type") == "" && text == "" {
		header.Set("Content-Type", "application/json")
	}
	res, answer, err := h.HTTP(ctx, host.HTTPRequest{Method: r.Method, URL: r.URL, Headers: header, TimeoutMs: r.TimeoutMs,
		Redirect: r.Redirect}, body)
	if errors.Is(err, host.ErrDenied) || errors.Is(err, host.ErrInvalid) || errors.Is(err, host.ErrLimit) {
		return Response{}, host.Fatal(err)
	}
	if err != nil {
		return Response{}, err
	}
	out := Response{Status: res.Status, Headers: res.Headers, Redirected: res.Redirected, URL: res.URL, Body: answer}
	if !abi.IsJSON(answer) {
		out.Body, err = json.Marshal(string(answer))
		if err != nil {
			return out, host.Fatal(err)
		}
	}
	return out, verdict(r, out)
}

// maxRetryAfter is the maximum Retry-After in seconds: a year.
const maxRetryAfter = 365 * 24 * 3600

// verdict returns an error unless a response is a result.
func verdict(r Request, res Response) error {
	ok := res.Status < http.StatusBadRequest
	for _, s := range r.Accept {
		ok = ok || s == res.Status
	}
	if ok {
		return nil
	}
	err := fmt.Errorf("%s answered %d: %.200s", r.URL, res.Status, res.Body)
	switch {
	case res.Status == http.StatusRequestTimeout, res.Status == http.StatusTooEarly,
		res.Status == http.StatusTooManyRequests, res.Status >= http.StatusInternalServerError:
		if after := http.Header(res.Headers).Get("Retry-After"); after != "" {
			if s, e := strconv.Atoi(after); e == nil && s >= 0 {
				return host.RetryAfter(err, time.Duration(min(s, maxRetryAfter))*time.Second)
			}
		}
		return err
	}
	return host.Fatal(err)
}
