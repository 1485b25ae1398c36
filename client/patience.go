package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"
)

// A server that is away is retried after the first of these, then after twice as long each time, up to the second.
const (
	firstPause = 100 * time.Millisecond
	mostPause  = 5 * time.Second
)

// lostError is an error of the connection to a server: the request has not been answered, or not to its end.
type lostError struct {
	cause  error
	server string
}

func (e *lostError) Error() string {
	cause := e.cause
	if u, ok := errors.AsType[*url.Error](cause); ok { // which names the whole address
		cause = u.Err
	}
	return "no answer from " + e.server + ": " + cause.Error()
}

func (e *lostError) Unwrap() []error { return []error{e.cause, ErrAway} }

// sent reports whether the server may have got the request.
func (e *lostError) sent() bool {
	dial, ok := errors.AsType[*net.OpError](e.cause)
	return !ok || dial.Op != "dial"
}

// passes reports whether a request that met an error is to be made again, and after how long the server asks for at least.
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
		// A server that has nothing to do with it any more has done nothing; of one that has failed, or a proxy, nobody knows.
		done := e.Code != "draining" && e.Code != "closed" && e.Code != "fenced" && e.Code != "busy"
		return e.RetryAfter, !done || r.Repeatable || r.Method == http.MethodGet
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return e.RetryAfter, r.Repeatable || r.Method == http.MethodGet
	}
	return 0, false
}

// patiently does something again and again while it meets errors that pass, for as long as the patience lasts.
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

// pause waits, or returns the error of ctx when that is done before.
func pause(ctx context.Context, d time.Duration) error {
	over, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-over.Done()
	return ctx.Err()
}
