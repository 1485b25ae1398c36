// Package fetch provides an http.Client for the bodies of steps. The host performs the requests that the workflow's version
// is allowed to make. It is a separate package because net/http adds megabytes to a module.
//
//	workflow.Do(ctx, "charge", func(s workflow.Step) (Receipt, error) {
//		req, err := http.NewRequestWithContext(s, http.MethodPost, "https://pay.example.com/charges", body)
//		…
//		req.Header.Set("Authorization", "Bearer {{secret:PAY}}")
//		req.Header.Set("Idempotency-Key", s.IdempotencyKey)
//		res, err := fetch.Client.Do(req)
//		…
//	})
package fetch

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

// ErrDenied is the error for a request that the version is not allowed to make. The step is not retried.
var ErrDenied = errors.New("request not allowed")

// Client makes requests through the host. It follows up to 10 redirects, as net/http does. If a header of the request has a
// secret, it follows none and returns the redirect. On platforms other than WebAssembly it uses http.DefaultTransport.
var Client = &http.Client{Transport: Transport{}, CheckRedirect: checkRedirect}

// Transport is the http.RoundTripper of Client. If you use it in a client of your own, that client's CheckRedirect decides
// about redirects. The host checks each redirect like any request.
type Transport struct{}

const maxRedirects = 10 // as in net/http

func checkRedirect(_ *http.Request, via []*http.Request) error {
	for _, values := range via[0].Header {
		for _, v := range values {
			if strings.Contains(v, "{{secret:") {
				return http.ErrUseLastResponse
			}
		}
	}
	if len(via) >= maxRedirects {
		return fmt.Errorf("stopped after %d redirects", maxRedirects)
	}
	return nil
}

type head struct {
	Method    string              `json:"method"`
	URL       string              `json:"url"`
	Headers   map[string][]string `json:"headers,omitempty"`
	TimeoutMs int64               `json:"timeout_ms,omitempty"`
	Redirect  string              `json:"redirect"`
}

type answer struct {
	Status  int                 `json:"status"`
	Headers map[string][]string `json:"headers"`
}

// RoundTrip makes one request. It buffers the body and the response: both must fit into a payload.
func (Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if err := r.Body.Close(); err != nil {
			return nil, err
		}
	}
	h := head{Method: r.Method, URL: r.URL.String(), Headers: r.Header, Redirect: "manual"}
	if deadline, ok := r.Context().Deadline(); ok {
		h.TimeoutMs = max(time.Until(deadline).Milliseconds(), 1)
	}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	framed := append(append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...), body...)
	b, err := roundTrip(r, framed)
	if err != nil {
		return nil, err
	}
	if len(b) < 4 || int(binary.LittleEndian.Uint32(b)) > len(b)-4 {
		return nil, fmt.Errorf("the host's answer of %d bytes is cut off", len(b))
	}
	n := 4 + int(binary.LittleEndian.Uint32(b))
	var a answer
	if err := json.Unmarshal(b[4:n], &a); err != nil {
		return nil, err
	}
	return &http.Response{Status: strconv.Itoa(a.Status) + " " + http.StatusText(a.Status), StatusCode: a.Status, Proto: "HTTP/1.1",
		ProtoMajor: 1, ProtoMinor: 1, Header: a.Headers, Body: io.NopCloser(bytes.NewReader(b[n:])), ContentLength: int64(len(b) - n),
		Request: r}, nil
}

// maxRetryAfter limits the delay of a Retry-After header, in seconds: a year.
const maxRetryAfter = 365 * 24 * 3600

// Check returns an error if the status is 400 or more, for use as the error of a step. The step is retried for the statuses
// 408, 425, 429, and 500 and more, after the seconds in Retry-After if that header is set. Other statuses are fatal.
func Check(res *http.Response) error {
	if res.StatusCode < http.StatusBadRequest {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(res.Body, 200)) // for the message
	err := fmt.Errorf("%s answered %s: %s", res.Request.URL, res.Status, bytes.TrimSpace(text))
	switch {
	case res.StatusCode == http.StatusRequestTimeout, res.StatusCode == http.StatusTooEarly,
		res.StatusCode == http.StatusTooManyRequests, res.StatusCode >= http.StatusInternalServerError:
		if s, e := strconv.Atoi(res.Header.Get("Retry-After")); e == nil && s >= 0 {
			return workflow.RetryAfter(err, time.Duration(min(s, maxRetryAfter))*time.Second)
		}
		return err
	}
	return workflow.Fatal(err)
}
