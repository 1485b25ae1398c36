package main

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/wfhost/wfhost/client"
)

// Pauses between retries of a command that follows a run: from reconnectFirst, doubling up to reconnectMost. The command
// gives up after reconnectFor, which is longer than a server with a large store takes to start.
const (
	reconnectFirst = 250 * time.Millisecond
	reconnectMost  = 5 * time.Second
	reconnectFor   = 10 * time.Minute
)

// away is an error after which a request may be repeated: the server did not answer, or not completely.
type away struct{ err error }

func (e *away) Error() string        { return e.err.Error() }
func (e *away) Unwrap() error        { return e.err }
func (e *away) Is(target error) bool { return target == client.ErrAway }

// saysAway reports that the server is away, and, with nil, that it is back.
func (g *globals) saysAway(err error) {
	if err != nil {
		_, _ = fmt.Fprintf(g.io.err, "wfhost: %s; trying again\n", indented(g.unreachable(g.ctx, err).Error()))
	} else {
		_, _ = fmt.Fprintf(g.io.err, "wfhost: %s is back\n", g.Server)
	}
}

// patiently repeats a read-only request until the server answers, since the server may be restarting. It reports on the error
// output that the server is away, and when it is back. If the server has never answered, it does not retry.
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

// get makes a read-only request patiently.
func (g *globals) get(path string, query map[string][]string, into any) error {
	return g.patiently(func() error {
		_, _, err := g.call(http.MethodGet, path, query, nil, into)
		return err
	})
}
