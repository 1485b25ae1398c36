// Package client is for Go programs that talk to a wfhost server. It does not depend on the host: it links neither a store
// nor an engine into the program.
//
//	c, err := client.New("https://flows.example.com", client.WithToken(token))
//	run, err := c.Start(ctx, "orders", Order{Customer: 17}, client.StartOptions{ID: "order-17"})
//	receipt, err := client.Result[Receipt](ctx, c, run.ID)
//
// When a call returns without an error, its effect is durable. An answer with an error is an *Error; errors.Is tells its
// kind: ErrNotFound, ErrConflict and so on. Methods that return a result return a *RunError for a run that ended in any
// other way than completed.
//
// The client retries while the server restarts, stops or is busy: see WithPatience. If it is unknown whether the server has
// performed a request, the client repeats it only if it is idempotent. Starts have an id, and signals, deliveries and
// updates have a key. The client generates these if the caller gives none, so that such requests can be repeated.
//
// The types match the HTTP API field by field; see docs/interfaces/api.md.
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

// DefaultPatience is how long a request is retried without WithPatience. A server with some ten thousand runs restarts
// within that time.
const DefaultPatience = 10 * time.Second

// maxAnswerBytes bounds an answer, which is held in memory. A page of a journal with the largest payloads is smaller.
const maxAnswerBytes = 64 << 20

// Client talks to one server, for one namespace. It is safe for concurrent use.
type Client struct {
	base      string // without a trailing slash
	namespace string
	token     func() (string, error)
	http      *http.Client
	patience  time.Duration
	away      func(error)
	wait      func(context.Context, time.Duration) error
}

// Option is an option of New.
type Option func(*Client)

// WithToken sets the token of all requests. The default is no token.
func WithToken(token string) Option {
	return WithTokenSource(func() (string, error) { return token, nil })
}

// WithTokenSource sets a function that returns the token. It is called for each request and each retry, since a restarted
// server may have another token. For an empty token none is sent. An error of the function is returned by the request.
func WithTokenSource(token func() (string, error)) Option { return func(c *Client) { c.token = token } }

// WithNamespace sets the namespace of all requests.
func WithNamespace(name string) Option { return func(c *Client) { c.namespace = name } }

// WithHTTPClient sets the HTTP client, for example with other certificates or for a test. It must have no Timeout, which
// would cut off requests that wait for a run. The default is http.DefaultClient.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithPatience sets how long a request is retried while the server is unreachable, stopping or busy, in place of
// DefaultPatience. 0 disables retries. The Follow methods retry for at least FollowPatience.
func WithPatience(d time.Duration) Option { return func(c *Client) { c.patience = d } }

// WithAway sets a function that is called before the first retry of a request, with the error, and with nil when a retry has
// succeeded.
func WithAway(f func(error)) Option { return func(c *Client) { c.away = f } }

// New returns a client for the server at an address, such as https://flows.example.com or http://127.0.0.1:7777. If the API
// is mounted in another program, the address includes its prefix. New makes no request.
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
	// Path begins with /v1. Names and ids in it are escaped: see Segment.
	Path  string
	Query url.Values // the client adds the namespace
	// Header adds headers. The client sets Authorization, and Content-Type for a Body, unless they are given here.
	Header http.Header
	Body   []byte
	// Reader is sent in place of Body and never retried. Length is its number of bytes, 0 if unknown.
	Reader io.Reader
	Length int64
	// Repeatable says that the request is idempotent. GET always is.
	Repeatable bool
}

// Do makes a request that the client has no method for. The caller closes the body of the answer. An answer with status 400
// or more is returned as an *Error. Requests are retried as WithPatience says.
func (c *Client) Do(ctx context.Context, r Request) (*http.Response, error) {
	return c.retry(ctx, &r, c.patience)
}

// once makes a request without retries.
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
	if r.Body != nil || r.Method == http.MethodPost { // the server refuses POST without a type, which web pages can send
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
	defer func() { _ = res.Body.Close() }() // the body has been read
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

// answer is an answer without an error.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// call makes a request and decodes the answer into into, unless that is nil or the answer is empty.
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

// read makes a request and reads the answer. It retries if the answer breaks off.
func (c *Client) read(ctx context.Context, r *Request) (a answer, err error) {
	err = c.patiently(ctx, r, c.patience, func() error {
		res, err := c.once(ctx, r)
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }() // the body has been read
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

// get makes a GET request and decodes the answer.
func get[T any](ctx context.Context, c *Client, path string, query url.Values) (v T, err error) {
	err = c.call(ctx, Request{Method: http.MethodGet, Path: path, Query: query}, &v)
	return v, err
}

// send makes a request with a JSON body, or none if body is nil, and decodes the answer.
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

// items makes a GET request for a list of one page and decodes it.
func items[T any](ctx context.Context, c *Client, path string, query url.Values) ([]T, error) {
	l, err := get[Page[T]](ctx, c, path, query)
	return l.Items, err
}

// encode returns the JSON of a value without HTML escapes.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Payload is an input, signal or result as bytes, which are sent unchanged. They are JSON unless the workflow has another
// codec.
type Payload []byte

// MarshalJSON returns the bytes.
func (p Payload) MarshalJSON() ([]byte, error) {
	if len(p) == 0 {
		return []byte("null"), nil
	}
	return p, nil
}

// payload encodes the value of a caller: nil as no bytes, Payload and json.RawMessage unchanged, everything else as JSON.
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

// Segment escapes a name or id as one path segment. It escapes "." and "..", which are valid ids, because HTTP clients and
// proxies would otherwise remove them from the path.
func Segment(text string) string {
	if text == "." || text == ".." {
		return strings.ReplaceAll(text, ".", "%2E")
	}
	return url.PathEscape(text)
}

func runPath(id, rest string) string { return "/v1/runs/" + Segment(id) + rest }
