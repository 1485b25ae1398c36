package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/client"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
)

type runsCmd struct {
	Workflow string `help:"Only of this workflow."`
	Status   string `help:"Only of these statuses, separated by commas: ${statuses}." xor:"status"`
	From     string `name:"created-from" help:"Only created then or after." placeholder:"INSTANT" type:"instant" xor:"from"`
	Before   string `name:"created-before" help:"Only created before." placeholder:"INSTANT" type:"instant"`
	Since    string `help:"Only created within this time, such as 1h or 2d." placeholder:"DURATION" type:"duration" xor:"from"`
	Failed   bool   `help:"Only failed and stuck ones." xor:"status"`
	Order    string `help:"Order of their creation: newest or oldest first." enum:"newest,oldest" default:"newest"`
	Limit    int    `help:"At most so many, up to 1000." default:"100" type:"limit"`
	Cursor   string `help:"Go on where the page before ended, which says how." placeholder:"CURSOR"`

	Attr  map[string]string `help:"Only with this attribute; repeatable." placeholder:"KEY=VALUE" type:"attribute"`
	Where []string          `help:"Only where = < <= > >= holds; repeatable." placeholder:"KEY>=VALUE" sep:"none" type:"where"`
}

func (c *runsCmd) Run(g *globals) error {
	q := url.Values{"limit": {strconv.Itoa(c.Limit)}}
	if c.Failed {
		c.Status = host.Failed.String() + "," + host.Stuck.String()
	}
	if err := checkStatuses(c.Status); err != nil {
		return err
	}
	if c.Since != "" {
		ms, err := abi.ParseDuration(c.Since)
		if err != nil {
			return err // the flag was checked with the command line
		}
		c.From = g.now().Add(-abi.Duration(ms)).UTC().Format(time.RFC3339Nano)
	}
	for name, v := range map[string]string{"workflow": c.Workflow, "status": c.Status, "cursor": c.Cursor, "order": c.Order,
		"created_from": c.From, "created_before": c.Before} {
		if v != "" {
			q.Set(name, v)
		}
	}
	for k, v := range c.Attr {
		q.Set("attr."+k, v)
	}
	q["where"] = c.Where
	var page httpapi.List[host.Run]
	if _, _, err := g.call(http.MethodGet, "/v1/runs", q, nil, &page); err != nil {
		return refusedCursor(c.Cursor, err)
	}
	if g.Format == "json" {
		return g.json(page)
	}
	if err := g.showRuns(page.Items); err != nil {
		return err
	}
	return g.more(page.Next)
}

// runStatuses returns the names of all statuses.
func runStatuses() (names []string) {
	for s := host.Queued; s <= host.Terminated; s++ {
		names = append(names, s.String())
	}
	return names
}

// checkStatuses refuses a filter with an unknown status and lists the valid ones.
func checkStatuses(list string) error {
	for _, s := range strings.Split(list, ",") {
		s = strings.TrimSpace(s)
		if s != "" && !slices.Contains(runStatuses(), s) {
			return &exitCode{exitUsage, fmt.Errorf("--status: there is no status %q; it must be one of %s", s,
				strings.Join(runStatuses(), ", "))}
		}
	}
	return nil
}

// more tells the user how to get the next page.
func (g *globals) more(next string) error {
	if next == "" {
		return nil
	}
	_, err := fmt.Fprintf(g.io.err, "there may be more: --cursor %s\n", next)
	return err
}

type countCmd struct {
	Workflow string `help:"Only runs of this workflow."`
}

func (c *countCmd) Run(g *globals) error {
	if g.Format == "ids" {
		return &exitCode{exitUsage, errors.New("--format ids: counts have no ids; wfhost runs --format ids prints those of runs")}
	}
	q := url.Values{}
	if c.Workflow != "" {
		q.Set("workflow", c.Workflow)
	}
	var counts httpapi.Counts
	if _, _, err := g.call(http.MethodGet, "/v1/runs:count", q, nil, &counts); err != nil {
		return err
	}
	if g.Format == "json" {
		return g.json(counts)
	}
	var rows [][]string
	for s := host.Queued; s <= host.Terminated; s++ {
		if n := counts.Statuses[s]; n != 0 {
			rows = append(rows, []string{s.String(), strconv.FormatInt(n, 10)})
		}
	}
	return g.table("status\truns", append(rows, []string{"total", strconv.FormatInt(counts.Total, 10)}))
}

type showCmd struct {
	RunID string `arg:"" name:"run" help:"Id of the run."`
}

func (c *showCmd) Run(g *globals) error {
	var r host.Run
	if _, _, err := g.call(http.MethodGet, runPath(c.RunID, ""), nil, nil, &r); err != nil {
		return err
	}
	return g.showRun(r)
}

type journalCmd struct {
	RunID  string `arg:"" name:"run" help:"Id of the run."`
	Follow bool   `short:"f" help:"Go on until the run ends."`

	Iteration int64 `help:"Which iteration of a run that has continued as new; -1 is the newest." default:"-1"`
}

func (c *journalCmd) Run(g *globals) error {
	if c.Follow && c.Iteration < 0 {
		return c.follow(g)
	}
	all := []httpapi.Entry{}
	for from := uint64(0); ; {
		entries, err := c.read(g, from, c.Iteration, "")
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			break
		}
		from = entries[len(entries)-1].Seq + 1
		all = append(all, entries...)
		c.print(g, entries)
	}
	if g.Format == "json" {
		return g.json(all)
	}
	return nil
}

// read reads entries of an iteration, starting at a seq; -1 is the newest iteration. With wait it waits until there are some.
func (c *journalCmd) read(g *globals, from uint64, iteration int64, wait string) ([]httpapi.Entry, error) {
	var entries []httpapi.Entry
	q := url.Values{"from": {strconv.FormatUint(from, 10)}, "iteration": {strconv.FormatInt(iteration, 10)}}
	if wait != "" {
		q.Set("wait", wait)
	}
	err := g.get(runPath(c.RunID, "/journal"), q, httpapi.ItemsOf(&entries))
	return entries, err
}

func (c *journalCmd) print(g *globals, entries []httpapi.Entry) {
	if g.Format == "json" {
		return
	}
	for _, e := range entries {
		_, _ = fmt.Fprintln(g.io.out, entryLine(e))
	}
}

// follow shows entries as they arrive, through all iterations, until the run ends or is stuck.
func (c *journalCmd) follow(g *globals) error {
	api, err := g.apiFor(c.RunID)
	if err != nil {
		return err
	}
	all := []client.Entry{}
	for e, err := range api.FollowJournal(g.ctx, c.RunID, client.Newest, 0) {
		if err != nil {
			return g.unreachable(g.ctx, err)
		}
		if g.Format == "json" {
			all = append(all, e)
			continue
		}
		_, _ = fmt.Fprintln(g.io.out, entryLine(shownEntry(e)))
	}
	if g.Format == "json" {
		return g.json(all)
	}
	return nil
}

// shownEntry converts an entry for display.
func shownEntry(e client.Entry) httpapi.Entry {
	return httpapi.Entry{Seq: e.Seq, Kind: e.Kind, Time: e.Time, Handle: e.Handle, Name: e.Name, Target: e.Target, Input: e.Input,
		Options: e.Options, Data: e.Data, Due: e.Due, Attempt: e.Attempt, Refused: e.Refused, Code: e.Code, Skipped: e.Skipped,
		Consumed: e.Consumed, Base64: e.Base64}
}

type resultCmd struct {
	RunID string `arg:"" name:"run" help:"Id of the run."`
	Wait  bool   `help:"Wait until the run has ended."`
}

func (c *resultCmd) Run(g *globals) error {
	if c.Wait {
		return g.waitResult(c.RunID)
	}
	status, b, err := g.call(http.MethodGet, runPath(c.RunID, "/result"), nil, nil, nil)
	if err != nil {
		return err
	}
	if status == http.StatusAccepted {
		return &exitCode{exitLive, fmt.Errorf("run %s has not ended; wait for it with --wait", c.RunID)}
	}
	return printResult(g.io.out, b)
}

// waitResult waits until a run ends and prints its result. If the server has not answered before, waitResult first checks that
// it has the run. From then on it waits for an absent server.
func (g *globals) waitResult(id string) error {
	if !g.answered {
		if err := g.get(runPath(id, ""), nil, nil); err != nil {
			return err
		}
	}
	for {
		var status int
		var b []byte
		if err := g.patiently(func() (err error) {
			status, b, err = g.call(http.MethodGet, runPath(id, "/result"), url.Values{"wait": {"30s"}}, nil, nil)
			return err
		}); err != nil {
			return err
		}
		if status != http.StatusAccepted {
			return printResult(g.io.out, b)
		}
	}
}

type logsCmd struct {
	RunID  string `arg:"" name:"run" help:"Id of the run."`
	Follow bool   `short:"f" help:"Go on until the run ends."`
}

func (c *logsCmd) Run(g *globals) error {
	api, err := g.apiFor(c.RunID)
	if err != nil {
		return err
	}
	lines := api.Logs(g.ctx, c.RunID, 0)
	if c.Follow {
		lines = api.FollowLogs(g.ctx, c.RunID, 0)
	}
	all := []client.Log{}
	for l, err := range lines {
		if err != nil {
			return g.unreachable(g.ctx, err)
		}
		if g.Format == "json" {
			all = append(all, l)
			continue
		}
		c.print(g, l)
	}
	if g.Format == "json" {
		return g.json(all)
	}
	return nil
}

func (c *logsCmd) print(g *globals, l client.Log) {
	who := ""
	if l.Step != "" {
		who = fmt.Sprintf(" [%s #%d]", oneLine(l.Step), l.Attempt)
	}
	_, _ = fmt.Fprintf(g.io.out, "%s %-5s%s %s\n", instant(l.Time), l.Level, who, indented(l.Text))
}

type timersCmd struct {
	Within string `help:"Only what wakes within this time, such as 1h." placeholder:"DURATION" type:"duration"`
	Limit  int    `help:"At most so many, up to 1000." default:"100" type:"limit"`
	Cursor string `help:"Go on where the page before ended, which says how." placeholder:"CURSOR"`
}

func (c *timersCmd) Run(g *globals) error {
	q := url.Values{"limit": {strconv.Itoa(c.Limit)}}
	for name, v := range map[string]string{"within": c.Within, "cursor": c.Cursor} {
		if v != "" {
			q.Set(name, v)
		}
	}
	var page httpapi.List[host.Timer]
	if _, _, err := g.call(http.MethodGet, "/v1/timers", q, nil, &page); err != nil {
		return refusedCursor(c.Cursor, err)
	}
	if g.Format == "json" {
		return g.json(page)
	}
	rows := make([][]string, len(page.Items))
	for i, t := range page.Items {
		rows[i] = []string{instant(t.Due), t.RunID, t.Workflow}
	}
	if err := g.table("due\trun\tworkflow", rows); err != nil {
		return err
	}
	return g.more(page.Next)
}
