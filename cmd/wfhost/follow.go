package main

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/wfhost/wfhost/client"
)

// A command that follows a run tries a server again that is away: after the first of these, then after twice as long each
// time, up to the second. It gives up after reconnectFor, which is longer than a server takes to start with a large store.
const (
	reconnectFirst = 250 * time.Millisecond
	reconnectMost  = 5 * time.Second
	reconnectFor   = 10 * time.Minute
)

// away is an error because of which a request may be repeated: the server did not answer, or not to the end.
type away struct{ err error }

func (e *away) Error() string        { return e.err.Error() }
func (e *away) Unwrap() error        { return e.err }
func (e *away) Is(target error) bool { return target == client.ErrAway }

// saysAway says once that the server is away while something is followed, and when it is back.
func (g *globals) saysAway(err error) {
	if err != nil {
		_, _ = fmt.Fprintf(g.io.err, "wfhost: %s; trying again\n", indented(g.unreachable(g.ctx, err).Error()))
	} else {
		_, _ = fmt.Fprintf(g.io.err, "wfhost: %s is back\n", g.Server)
	}
}

// patiently repeats a request that only reads until the server answers it: it may be restarted meanwhile. The error output
// says so once, and when the server is back. A server that has never answered is not waited for.
func (g *globals) patiently(request func() error) error {
	err := request()
	if err == nil {
		g.answered = true
	}
	if !g.answered || !errors.Is(err, client.ErrAway) {
		return err
	}
	g.saysAway(err)
	since := time.Now()
	for pause := reconnectFirst; ; pause = min(2*pause, reconnectMost) {
		select {
		case <-time.After(pause):
		case <-g.ctx.Done():
			return g.ctx.Err()
		}
		err = request()
		if !errors.Is(err, client.ErrAway) {
			g.saysAway(nil)
			return err
		}
		if time.Since(since) >= reconnectFor {
			return err
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
