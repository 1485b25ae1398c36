package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/wfhost/wfhost/host"
)

type restartCmd struct {
	RunID      string  `arg:"" name:"run" help:"Id of the run."`
	ID         string  `name:"id" help:"Id of the new run; default: a new one." type:"run-id"`
	From       string  `help:"First step, sleep or child that is done again; default: everything is." placeholder:"NAME"`
	Iteration  *uint32 `help:"Of a run that continued as new; default: the newest that has --from." placeholder:"N"`
	Number     uint32  `name:"version" help:"Go on under this version of the workflow; default: that of the run." placeholder:"N"`
	KeepUndone bool    `help:"Keep what was undone since, and cancelled children, instead of refusing."`
	DryRun     bool    `help:"Only show what the new run would keep and what it would do again."`
}

func (c *restartCmd) Run(g *globals) error {
	q := url.Values{}
	for name, v := range map[string]string{"id": c.ID, "from": c.From} {
		if v != "" {
			q.Set(name, v)
		}
	}
	for name, is := range map[string]bool{"keep_undone": c.KeepUndone, "dry_run": c.DryRun} {
		if is {
			q.Set(name, "true")
		}
	}
	if c.Number != 0 {
		q.Set("version", strconv.FormatUint(uint64(c.Number), 10))
	}
	if c.Iteration != nil {
		q.Set("iteration", strconv.FormatUint(uint64(*c.Iteration), 10))
	}
	if c.DryRun {
		return c.plan(g, q)
	}
	var r struct {
		ID string `json:"id"`
	}
	_, b, err := g.call(http.MethodPost, runPath(c.RunID, "/restart"), q, nil, &r)
	if err != nil {
		return err
	}
	if g.Format == "json" {
		return g.json(json.RawMessage(b))
	}
	_, err = fmt.Fprintln(g.io.out, r.ID)
	return err
}

// plan shows what a restart would do. If it would be refused, the command returns the same error.
func (c *restartCmd) plan(g *globals, q url.Values) error {
	var p host.RestartPlan
	_, b, err := g.call(http.MethodPost, runPath(c.RunID, "/restart"), q, nil, &p)
	if err != nil {
		return err
	}
	if g.Format == "json" {
		if err := g.json(json.RawMessage(b)); err != nil {
			return err
		}
	} else if err := c.table(g, &p); err != nil {
		return err
	}
	if p.Refused != "" {
		return &exitCode{exitConflict, fmt.Errorf("the restart would be refused: %s", p.Refused)}
	}
	return nil
}

func (c *restartCmd) table(g *globals, p *host.RestartPlan) error {
	rows := [][]string{}
	for _, part := range []struct {
		what  string
		calls []host.RestartCall
	}{{"kept", p.Kept}, {"repeated", p.Repeated}} {
		for _, x := range part.calls {
			rows = append(rows, []string{part.what, strconv.FormatUint(x.Seq, 10), x.Kind, x.Name, x.Target, x.Note})
		}
	}
	with := ""
	if p.Signal != "" {
		with = fmt.Sprintf(", with its first signal %q", p.Signal)
	}
	_, err := fmt.Fprintf(g.io.out, "a new run of version %d would begin with iteration %d of %s%s\n", p.Version, p.Iteration,
		p.Run, with)
	if err != nil {
		return err
	}
	return g.table("call\tentry\tkind\tname\ttarget\tnote", rows)
}
