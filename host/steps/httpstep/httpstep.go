// Package httpstep is the handler host/http, which ships with the host: a step that is one HTTP request, for
// workflows in languages without bodies and for those who prefer a handler. What may be requested is said by the
// grants of the workflow's version.
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
	// Body is sent as it is if it is a JSON string, else as the JSON that it is.
	Body      json.RawMessage `json:"body,omitempty"`
	TimeoutMs int64           `json:"timeout_ms,omitempty"`
	// Redirect says what becomes of redirects: follow (default; at most 20, none with a secret), manual returns the redirect itself,
	// error fails the request.
	Redirect string `json:"redirect,omitempty"`
	// Accept lists statuses that are results. Default: those below 400. Of the others, 408, 425, 429 and those of 500
	// and more are retried, after what Retry-After says; the rest fails the step at once.
	Accept []int `json:"accept,omitempty"`
}

// Response is the step's result.
type Response struct {
	Status  int                 `json:"status"`
	Headers map[string][]string `json:"headers,omitempty"`
	// Redirected is whether redirects were followed, and URL is where they led to. It is empty if there were none.
	Redirected bool   `json:"redirected,omitempty"`
	URL        string `json:"url,omitempty"`
	// Body is JSON where the response is, else a JSON string.
	Body json.RawMessage `json:"body,omitempty"`
}

// Register registers the handler. The idempotency key of the step is sent in the header Idempotency-Key unless the
// request has one.
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

// maxRetryAfter bounds what is believed of a Retry-After, in seconds: a year.
const maxRetryAfter = 365 * 24 * 3600

// verdict says whether a response is a result.
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
