package main

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// A command that follows a run tries a server again that is away: after the first of these, then after twice as long each
// time, up to the second. It gives up after reconnectFor, which is longer than a server takes to start with a large store.
const (
	reconnectFirst = 250 * time.Millisecond
	reconnectMost  = 5 * time.Second
	reconnectFor   = 10 * time.Minute
)

// errAway says that a server did not answer, or not to the end: it may be starting again.
var errAway = errors.New("the server is away")

// away is an error because of which a request may be repeated.
type away struct{ err error }

func (e *away) Error() string        { return e.err.Error() }
func (e *away) Unwrap() error        { return e.err }
func (e *away) Is(target error) bool { return target == errAway }

// patiently repeats a request that only reads until the server answers it: it may be restarted meanwhile. The error output
// says so once, and when the server is back. A server that has never answered is not waited for.
func (g *globals) patiently(request func() error) error {
	err := request()
	if err == nil {
		g.answered = true
	}
	if !g.answered || !errors.Is(err, errAway) {
		return err
	}
	_, _ = fmt.Fprintf(g.io.err, "wfhost: %s; trying again\n", indented(err.Error()))
	g.connected = false
	since, pause := time.Now(), reconnectFirst
	for ; ; pause = min(2*pause, reconnectMost) {
		select {
		case <-time.After(pause):
		case <-g.ctx.Done():
			return g.ctx.Err()
		}
		err = request()
		back := err == nil || g.connected // a stream that has begun, and was lost again
		if back && !errors.Is(err, errAway) {
			_, _ = fmt.Fprintf(g.io.err, "wfhost: %s is back\n", g.Server)
			return err
		}
		if !errors.Is(err, errAway) || !back && time.Since(since) >= reconnectFor {
			return err
		}
		if back {
			g.connected = false
			since, pause = time.Now(), reconnectFirst/2
		}
	}
}

// get makes a request that only reads, patiently.
func (g *globals) get(path string, query map[string][]string, into any) error {
	return g.patiently(func() error {
		_, _, err := g.call(http.MethodGet, path, query, nil, into)
		return err
	})
}

// awayStatus reports whether an answer says that the server, or a proxy before it, does not serve at the moment.
func awayStatus(status int) bool {
	return status == http.StatusServiceUnavailable || status == http.StatusBadGateway || status == http.StatusGatewayTimeout
}
