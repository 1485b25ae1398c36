// Package fetch gives bodies of steps an http.Client. The host performs the requests, under what the workflow's version
// is allowed to request. It is a package of its own since net/http makes a module larger by megabytes.
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

// ErrDenied says that the version may not make this request.
var ErrDenied = errors.New("request not allowed")

// Client makes requests through the host. It follows redirects as other clients do, but none with a secret: its answer is the
// redirect then. Built for another platform than WebAssembly, it makes them by http.DefaultTransport.
var Client = &http.Client{Transport: Transport{}, CheckRedirect: checkRedirect}

// Transport is the http.RoundTripper of Client. A client of your own that has it decides by its CheckRedirect what becomes of
// redirects. The host checks each of them as it checks any request.
type Transport struct{}

const maxRedirects = 10 // of net/http

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

// RoundTrip makes one request. The body is sent, and the response read, as a whole: both have to fit into a payload.
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

// maxRetryAfter bounds what is believed of a Retry-After, in seconds: a year.
const maxRetryAfter = 365 * 24 * 3600

// Check returns an error for a response that is no success, as steps want it: 408, 425, 429 and statuses of 500 and more
// are retried, after what Retry-After says in seconds; others of 400 and more are fatal.
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
