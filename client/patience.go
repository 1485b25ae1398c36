package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"
)

// The first and the longest pause between retries. Pauses double.
const (
	firstPause = 100 * time.Millisecond
	mostPause  = 5 * time.Second
)

// lostError is an error of the connection: the request was not answered, or not completely.
type lostError struct {
	cause  error
	server string
}

func (e *lostError) Error() string {
	cause := e.cause
	if u, ok := errors.AsType[*url.Error](cause); ok { // the URL error repeats the whole address
		cause = u.Err
	}
	return "no answer from " + e.server + ": " + cause.Error()
}

func (e *lostError) Unwrap() []error { return []error{e.cause, ErrAway} }

// sent reports whether the server may have received the request.
func (e *lostError) sent() bool {
	dial, ok := errors.AsType[*net.OpError](e.cause)
	return !ok || dial.Op != "dial"
}

// passes reports whether to retry a request after an error, and the minimum delay that the server asks for.
func passes(r *Request, err error) (after time.Duration, ok bool) {
	if r.Reader != nil {
		return 0, false
	}
	if lost, ok := errors.AsType[*lostError](err); ok {
		return 0, !permanent(lost.cause) && (!lost.sent() || r.Repeatable || r.Method == http.MethodGet)
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return 0, false
	}
	switch e.Status {
	case http.StatusTooManyRequests: // nothing was done
		return e.RetryAfter, true
	case http.StatusServiceUnavailable:
		// With these codes the server has done nothing. After a failed store, or behind a proxy, that is unknown.
		done := e.Code != "draining" && e.Code != "closed" && e.Code != "fenced" && e.Code != "busy"
		return e.RetryAfter, !done || r.Repeatable || r.Method == http.MethodGet
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return e.RetryAfter, r.Repeatable || r.Method == http.MethodGet
	}
	return 0, false
}

// patiently calls do until it succeeds, fails with an error that cannot be retried, or the patience is used up.
func (c *Client) patiently(ctx context.Context, r *Request, patience time.Duration, do func() error) error {
	var waited time.Duration
	for next := firstPause; ; next = min(2*next, mostPause) {
		err := do()
		after, again := time.Duration(0), false
		if err != nil && ctx.Err() == nil {
			after, again = passes(r, err)
		}
		if err == nil && waited > 0 {
			c.away(nil)
		}
		if d := max(after, next); again && waited+d <= patience {
			if waited == 0 {
				c.away(err)
			}
			waited += d
			if c.wait(ctx, d) == nil {
				continue
			}
		}
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		return err
	}
}

func (c *Client) retry(ctx context.Context, r *Request, patience time.Duration) (res *http.Response, err error) {
	err = c.patiently(ctx, r, patience, func() error {
		res, err = c.once(ctx, r)
		return err
	})
	return res, err
}

// pause waits, and returns the error of ctx if that ends first.
func pause(ctx context.Context, d time.Duration) error {
	over, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-over.Done()
	return ctx.Err()
}
