// Package client is for programs in Go that talk to a wfhost server. It needs nothing of the host: no database and no
// engine are linked into the program.
//
//	c, err := client.New("https://flows.example.com", client.WithToken(token))
//	run, err := c.Start(ctx, "orders", Order{Customer: 17}, client.StartOptions{ID: "order-17"})
//	receipt, err := client.Result[Receipt](ctx, c, run.ID)
//
// What has returned without an error is durable. An error is an *Error if the server has answered, and says with
// errors.Is which of a few things it is: ErrNotFound, ErrConflict and so on. A run that has ended otherwise than
// completed is a *RunError where its result is asked for.
//
// A server that is starting again, or about to end, or busy, is retried for a while: see WithPatience. Requests of
// which it is unknown whether the server has done them are only repeated where that is the same as doing them once.
// Starts have an id, and signals, deliveries and updates have a key, which the client makes where the caller has none,
// so that these are repeated, too.
//
// The types are those of the HTTP API, field by field; its documentation is in docs/api.md.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// DefaultNamespace is the namespace of a client without WithNamespace.
const DefaultNamespace = "default"

// DefaultPatience is how long a request continues to try a server that is away, without WithPatience: a server that is
// started again with some ten thousand runs is back within it.
const DefaultPatience = 10 * time.Second

// maxAnswerBytes bounds what is read of one answer, which is kept in memory: a page of a journal with the largest
// payloads is less.
const maxAnswerBytes = 64 << 20

// Client talks to one server, for one namespace. It may be used by many goroutines.
type Client struct {
	base      string // without a slash at its end
	namespace string
	token     func() (string, error)
	http      *http.Client
	patience  time.Duration
	away      func(error)
	wait      func(context.Context, time.Duration) error
}

// Option is an option of New.
type Option func(*Client)

// WithToken sets the token of all requests. Without one, requests have none.
func WithToken(token string) Option {
	return WithTokenSource(func() (string, error) { return token, nil })
}

// WithTokenSource has the token asked for at each request, and each time it is repeated: a server may have another one
// when it is back. No token is sent for an empty one. An error of the function is that of the request.
func WithTokenSource(token func() (string, error)) Option { return func(c *Client) { c.token = token } }

// WithNamespace has all requests be for a namespace, in place of the default one.
func WithNamespace(name string) Option { return func(c *Client) { c.namespace = name } }

// WithHTTPClient has requests made by an HTTP client: with certificates of its own, or for a test. It must have no
// Timeout, which would cut what waits for a run. The default is http.DefaultClient.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithPatience sets how long a request continues to try a server that cannot be reached, is about to end or is busy, in
// place of DefaultPatience. 0 never tries again. What follows a run is retried for at least FollowPatience.
func WithPatience(d time.Duration) Option { return func(c *Client) { c.patience = d } }

// WithAway has a function called when the server is away, with the error that a request met before it is retried for the
// first time; and with nil when it has answered again.
func WithAway(f func(error)) Option { return func(c *Client) { c.away = f } }

// New returns a client of the server at an address, such as https://flows.example.com or http://127.0.0.1:7777; an API
// that is mounted in a program has its prefix behind it. It makes no request.
func New(address string, opts ...Option) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("the address of the server must be as https://flows.example.com, got %q", address)
	}
	if u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, fmt.Errorf("the address of the server must have no user, query or fragment, got %q", u.Redacted())
	}
	c := &Client{base: strings.TrimRight(address, "/"), namespace: DefaultNamespace, http: http.DefaultClient,
		patience: DefaultPatience, away: func(error) {}, wait: pause,
		token: func() (string, error) { return "", nil }}
	for _, o := range opts {
		o(c)
	}
	return c, nil
}

// Request is a request to the API.
type Request struct {
	Method string
	// Path begins with /v1. Segments that are names or ids are escaped: see Segment.
	Path  string
	Query url.Values // the client adds the namespace
	// Header is sent beside what the client sets: Authorization, and a Content-Type for a Body, unless it is given here.
	Header http.Header
	Body   []byte
	// Reader is sent in place of Body, once, and never again. Length is how many bytes it has, 0 if that is not known.
	Reader io.Reader
	Length int64
	// Repeatable says that doing the request twice is the same as doing it once. It is always so for GET.
	Repeatable bool
}

// Do makes a request for which the client has no method, and returns the answer, whose body the caller closes. An
// answer of 400 or more is an *Error in its place. The server is retried as WithPatience says.
func (c *Client) Do(ctx context.Context, r Request) (*http.Response, error) {
	return c.retry(ctx, &r, c.patience)
}

// once makes a request once.
func (c *Client) once(ctx context.Context, r *Request) (*http.Response, error) {
	body := io.Reader(bytes.NewReader(r.Body))
	if r.Reader != nil {
		body = r.Reader
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, c.address(r), body)
	if err != nil {
		return nil, err
	}
	if r.Reader != nil {
		req.ContentLength = r.Length
	}
	if r.Body != nil || r.Method == http.MethodPost { // which is refused without a type: pages of the web can post without
		req.Header.Set("Content-Type", "application/json")
	}
	maps.Copy(req.Header, r.Header)
	token, err := c.token()
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, &lostError{err, c.base}
	}
	if res.StatusCode < http.StatusBadRequest {
		return res, nil
	}
	defer func() { _ = res.Body.Close() }() // it has been read
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswerBytes))
	if err != nil {
		return nil, &lostError{err, c.base}
	}
	return nil, errorOf(res, b)
}

func (c *Client) address(r *Request) string {
	query := r.Query
	if c.namespace != "" && c.namespace != DefaultNamespace {
		query = maps.Clone(query)
		if query == nil {
			query = url.Values{}
		}
		query.Set("namespace", c.namespace)
	}
	address := c.base + r.Path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	return address
}

// answer is an answer that is no error.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// call makes a request, and decodes the answer, unless into is nil or there is none.
func (c *Client) call(ctx context.Context, r Request, into any) error {
	a, err := c.read(ctx, &r)
	if err == nil && into != nil && len(a.body) > 0 {
		err = json.Unmarshal(a.body, into)
		if err != nil {
			err = fmt.Errorf("the answer of %s to %s %s cannot be read: %w", c.base, r.Method, r.Path, err)
		}
	}
	return err
}

// read makes a request, and reads the answer. One that breaks off is requested again.
func (c *Client) read(ctx context.Context, r *Request) (a answer, err error) {
	err = c.patiently(ctx, r, c.patience, func() error {
		res, err := c.once(ctx, r)
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }() // it has been read
		b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswerBytes+1))
		switch {
		case err != nil:
			return &lostError{err, c.base}
		case len(b) > maxAnswerBytes:
			return fmt.Errorf("the answer of %s to %s %s has more than %d bytes", c.base, r.Method, r.Path, maxAnswerBytes)
		}
		a = answer{res.StatusCode, res.Header, b}
		return nil
	})
	return a, err
}

// get decodes the answer to a GET.
func get[T any](ctx context.Context, c *Client, path string, query url.Values) (v T, err error) {
	err = c.call(ctx, Request{Method: http.MethodGet, Path: path, Query: query}, &v)
	return v, err
}

// send makes a request with a body of JSON, none for nil, and decodes the answer.
func send[T any](ctx context.Context, c *Client, r Request, body any) (v T, err error) {
	if body != nil {
		r.Body, err = encode(body)
		if err != nil {
			return v, err
		}
	}
	err = c.call(ctx, r, &v)
	return v, err
}

// items decodes the answer to a GET that is a list of one page.
func items[T any](ctx context.Context, c *Client, path string, query url.Values) ([]T, error) {
	l, err := get[Page[T]](ctx, c, path, query)
	return l.Items, err
}

// encode returns the JSON of a value. The characters of HTML in it stay as they are.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Payload is an input, a signal or a result as bytes, which are sent as they are: JSON, unless the workflow has another
// codec.
type Payload []byte

// MarshalJSON returns the bytes.
func (p Payload) MarshalJSON() ([]byte, error) {
	if len(p) == 0 {
		return []byte("null"), nil
	}
	return p, nil
}

// payload returns what a caller hands over as bytes: nil means none, Payload and json.RawMessage as they are, all else
// as JSON.
func payload(v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case Payload:
		return v, nil
	case json.RawMessage:
		return v, nil
	}
	return encode(v)
}

// Segment escapes a name or id as one segment of a path. "." and ".." are ids like others, and would be taken out of
// the path on the way.
func Segment(text string) string {
	if text == "." || text == ".." {
		return strings.ReplaceAll(text, ".", "%2E")
	}
	return url.PathEscape(text)
}

func runPath(id, rest string) string { return "/v1/runs/" + Segment(id) + rest }
