package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/httpapi"
)

// readPayload reads a payload, which must be JSON or empty.
func (g *globals) readPayload(what, text string) ([]byte, error) {
	b, err := g.readInput(text)
	if err != nil {
		return nil, err
	}
	if len(b) > 0 && !abi.IsJSON(b) {
		return nil, &exitCode{exitUsage, fmt.Errorf("%s is not JSON: %.80q", what, b)}
	}
	return b, nil
}

type signalCmd struct {
	RunID   string `arg:"" name:"run" help:"Id of the run."`
	Name    string `arg:"" help:"Name of the signal."`
	Payload string `arg:"" optional:"" help:"Payload as JSON, @file, or - for standard input."`
	Key     string `help:"Idempotency key: the same key and payload again change nothing."`
}

func (c *signalCmd) Run(g *globals) error {
	payload, err := g.readPayload("the payload", c.Payload)
	if err != nil {
		return err
	}
	header := http.Header{}
	if c.Key != "" {
		header.Set("Idempotency-Key", c.Key)
	}
	_, _, err = g.callHeader(g.ctx, http.MethodPost, runPath(c.RunID, "/signals/"+segment(c.Name)), nil, header, payload, nil)
	return err
}

type deliverCmd struct {
	Token   string `arg:"" help:"Token of the hook."`
	Payload string `arg:"" optional:"" help:"Payload as JSON, @file, or - for standard input."`
}

func (c *deliverCmd) Run(g *globals) error {
	payload, err := g.readPayload("the payload", c.Payload)
	if err != nil {
		return err
	}
	_, b, err := g.call(http.MethodPost, "/v1/hooks/"+segment(c.Token), nil, payload, nil)
	if err != nil {
		return err
	}
	return printResult(g.io.out, []byte(printable(string(b))))
}

type queryCmd struct {
	RunID string `arg:"" name:"run" help:"Id of the run."`
	Name  string `arg:"" help:"Name of the query."`
	Input string `arg:"" optional:"" help:"Input as JSON, @file, or - for standard input."`
}

func (c *queryCmd) Run(g *globals) error {
	input, err := g.readPayload("the input", c.Input)
	if err != nil {
		return err
	}
	_, b, err := g.call(http.MethodPost, runPath(c.RunID, "/queries/"+segment(c.Name)), nil, input, nil)
	if err != nil {
		return err
	}
	return printResult(g.io.out, b)
}

type pauseCmd struct {
	RunID string `arg:"" name:"run" help:"Id of the run, or - for ids on standard input."`
}

func (c *pauseCmd) Run(g *globals) error { return g.act(c.RunID, "pause", nil) }

type unpauseCmd struct {
	RunID string `arg:"" name:"run" help:"Id of the run, or - for ids on standard input."`
	Moved bool   `help:"Take runs back that were exported with --move, and were adopted nowhere."`
}

func (c *unpauseCmd) Run(g *globals) error {
	if c.Moved {
		return g.act(c.RunID, "take-back", nil)
	}
	return g.act(c.RunID, "unpause", nil)
}

type retryCmd struct {
	RunID  string `arg:"" name:"run" help:"Id of the run, or - for ids on standard input."`
	Number uint32 `name:"version" help:"Go on under this version of the workflow."`
}

func (c *retryCmd) Run(g *globals) error {
	q := url.Values{}
	if c.Number != 0 {
		q.Set("version", strconv.FormatUint(uint64(c.Number), 10))
	}
	return g.act(c.RunID, "retry", q)
}

type deleteCmd struct {
	RunID string `arg:"" name:"run" help:"Id of the run, or - for ids on standard input."`
}

func (c *deleteCmd) Run(g *globals) error {
	return g.each(c.RunID, func(id string) error {
		if _, _, err := g.call(http.MethodDelete, runPath(id, ""), nil, nil, nil); err != nil {
			return err
		}
		switch g.Format {
		case "json":
			return g.json(map[string]string{"deleted": id})
		case "ids":
			_, err := fmt.Fprintln(g.io.out, id)
			return err
		}
		_, err := fmt.Fprintf(g.io.out, "%s deleted\n", id)
		return err
	})
}

type bulkCmd struct {
	Action   string            `arg:"" enum:"${actions}" help:"One of ${enum}."`
	Workflow string            `help:"Only runs of this workflow."`
	Status   string            `help:"Only runs of these statuses, separated by commas."`
	Attr     map[string]string `help:"Only runs with this attribute; repeatable." placeholder:"KEY=VALUE" type:"attribute"`
	Where    []string          `help:"Only where it holds; repeatable." placeholder:"KEY>=VALUE" sep:"none" type:"where"`
	DryRun   bool              `help:"Only print which runs it would be."`
	Limit    int               `help:"At most so many runs." default:"10000" type:"bulk"`
}

func (c *bulkCmd) Run(g *globals) error {
	if c.Workflow == "" && c.Status == "" && len(c.Attr)+len(c.Where) == 0 && !c.DryRun {
		return &exitCode{exitUsage, fmt.Errorf("%s of all runs there are: say which by --workflow, --status, --attr or --where",
			c.Action)}
	}
	if err := checkStatuses(c.Status); err != nil {
		return err
	}
	body, err := json.Marshal(httpapi.BulkRequest{Action: c.Action, Workflow: c.Workflow, Status: c.Status,
		Attributes: c.Attr, Where: c.Where, DryRun: c.DryRun, Limit: c.Limit})
	if err != nil {
		return err
	}
	var a httpapi.BulkAnswer
	if _, _, err := g.call(http.MethodPost, "/v1/runs:bulk", nil, body, &a); err != nil {
		return err
	}
	switch {
	case g.Format == "json":
		if err := g.json(a); err != nil {
			return err
		}
	case g.Format == "ids":
		_, _ = fmt.Fprintln(g.io.out, strings.Join(a.Runs, "\n"))
	case c.DryRun:
		_, _ = fmt.Fprintf(g.io.out, "%s would be for %s:\n%s\n", c.Action, plural(a.Matched, "run"), strings.Join(a.Runs, "\n"))
	default:
		_, _ = fmt.Fprintf(g.io.out, "%s: %d of %s changed\n", c.Action, a.Changed, plural(a.Matched, "run"))
	}
	if a.More {
		_, _ = fmt.Fprintf(g.io.err, "there are more than %d: do it again\n", c.Limit)
	}
	for _, r := range a.Errors {
		_, _ = fmt.Fprintf(g.io.err, "%s: %s\n", r.Run, oneLine(r.Detail))
	}
	if len(a.Errors) > 0 {
		return &exitCode{exitConflict, fmt.Errorf("%d runs were not changed", len(a.Errors))}
	}
	return nil
}
