package main

import (
	"bufio"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/wfhost/wfhost/host/httpapi"
)

// targets returns the runs that an action is for: the id, or for "-" the ids on standard input, one per line.
func (g *globals) targets(id string) ([]string, error) {
	if id != "-" {
		return []string{id}, nil
	}
	var ids []string
	s := bufio.NewScanner(g.io.in)
	for s.Scan() {
		if line := strings.TrimSpace(s.Text()); line != "" {
			ids = append(ids, line)
		}
	}
	return ids, s.Err()
}

// each calls do for every run, also after errors. The first error determines the exit code.
func (g *globals) each(id string, do func(id string) error) error {
	ids, err := g.targets(id)
	if err != nil {
		return err
	}
	var first error
	for _, id := range ids {
		err := do(id)
		if err != nil && len(ids) > 1 {
			_, _ = fmt.Fprintln(g.io.err, "wfhost:", indented(err.Error()))
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// act posts an action for each run.
func (g *globals) act(id, action string, q url.Values) error {
	return g.each(id, func(id string) error {
		var changed httpapi.Changed
		_, _, err := g.call(http.MethodPost, runPath(id, "/"+action), q, nil, &changed)
		switch {
		case err != nil:
			return err
		case g.Format == "json":
			return g.json(changed)
		case g.Format == "ids":
			_, err = fmt.Fprintln(g.io.out, id)
		default:
			_, err = fmt.Fprintf(g.io.out, "%s: %s; it is %s\n", id, effect(action, changed.Count), changed.Run.Status)
		}
		return err
	})
}

// effect describes the result of an action; count is the number of changes.
func effect(action string, count int) string {
	if action == "wake" {
		return plural(count, "sleep") + " ended"
	}
	if count == 0 {
		return "nothing changed"
	}
	return map[string]string{"cancel": "asked to cancel", "terminate": "terminated", "pause": "paused", "unpause": "unpaused",
		"retry": "retried", "take-back": "taken back"}[action]
}

type cancelCmd struct {
	RunID string `arg:"" name:"run" help:"Id of the run, or - for ids on standard input."`
}

func (c *cancelCmd) Run(g *globals) error { return g.act(c.RunID, "cancel", nil) }

type terminateCmd struct {
	RunID string `arg:"" name:"run" help:"Id of the run, or - for ids on standard input."`
}

func (c *terminateCmd) Run(g *globals) error { return g.act(c.RunID, "terminate", nil) }

type wakeCmd struct {
	RunID string `arg:"" name:"run" help:"Id of the run, or - for ids on standard input."`
	Name  string `arg:"" optional:"" help:"End only the sleep of this name, and move no clock of the run."`
}

func (c *wakeCmd) Run(g *globals) error {
	q := url.Values{}
	if c.Name != "" {
		q.Set("name", c.Name)
	}
	return g.act(c.RunID, "wake", q)
}
