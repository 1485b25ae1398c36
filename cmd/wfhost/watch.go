package main

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/client"
)

type watchCmd struct {
	Workflow string `help:"Only runs of this workflow."`
}

// Run shows each run after a change, until Ctrl-C. With --format json each run is one line. If the server was away, or runs
// change faster than they can be shown, Run reports that changes may be missing.
func (c *watchCmd) Run(g *globals) error {
	api, err := g.api()
	if err == nil {
		_, err = api.Count(g.ctx, c.Workflow) // do not wait for a server that has never answered
	}
	if err != nil {
		return g.unreachable(g.ctx, err)
	}
	for {
		err := c.follow(g, api)
		switch {
		case g.ctx.Err() != nil:
			return nil // the normal end
		case errors.Is(err, client.ErrBusy):
			_, _ = fmt.Fprintln(g.io.err, "wfhost: runs change faster than they are shown: some are missing")
		default:
			return g.unreachable(g.ctx, err)
		}
	}
}

func (c *watchCmd) follow(g *globals, api *client.Client) error {
	begun := false
	began := func() {
		if begun {
			_, _ = fmt.Fprintln(g.io.err, "wfhost: what has changed meanwhile is not shown")
		}
		begun = true
	}
	for r, err := range api.FollowRuns(g.ctx, c.Workflow, began) {
		if err != nil {
			return err
		}
		switch g.Format {
		case "json":
			b, err := encoded(r)
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintf(g.io.out, "%s\n", printableJSON(bytes.TrimSpace(b)))
		case "ids":
			_, _ = fmt.Fprintln(g.io.out, r.ID)
		default:
			_, _ = fmt.Fprintf(g.io.out, "%s  %-10s %s  %s%s\n", instant(r.Updated), r.Status, oneLine(r.ID), oneLine(r.Workflow),
				since(r))
		}
	}
	return nil
}

// since says what a run waits for or why it does not continue.
func since(r client.Run) string {
	switch {
	case r.Error != "":
		return "  " + oneLine(r.Error)
	case !r.Wake.IsZero():
		return "  until " + instant(r.Wake)
	case r.Reason != "":
		return "  " + oneLine(r.Reason)
	}
	return ""
}
