package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
	"github.com/wfhost/wfhost/store"
)

type retentionCmd struct {
	List   retentionListCmd   `cmd:"" default:"1" help:"List retention rules."`
	Set    retentionSetCmd    `cmd:"" help:"Set how long ended runs of a workflow are kept."`
	Delete retentionDeleteCmd `cmd:"" help:"Remove what is set for a workflow."`
	Sweep  retentionSweepCmd  `cmd:"" help:"Delete the runs that are kept no longer, now instead of within an hour."`
}

type retentionListCmd struct{}

func (c *retentionListCmd) Run(g *globals) error {
	var list []httpapi.Retention
	if _, _, err := g.call(http.MethodGet, "/v1/retention", nil, nil, httpapi.ItemsOf(&list)); err != nil {
		return err
	}
	return g.showRetentions(list, list)
}

// showRetentions prints retentions as a table, or all as JSON.
func (g *globals) showRetentions(list []httpapi.Retention, all any) error {
	if g.Format == "json" {
		return g.json(all)
	}
	rows := make([][]string, len(list))
	for i, r := range list {
		rows[i] = []string{r.Workflow, bounds(r.Completed, r.KeepCompleted), bounds(r.Failed, r.KeepFailed),
			bounds(r.Cancelled, r.KeepCancelled), bounds(r.Terminated, r.KeepTerminated), numberOrAll(r.Keep),
			iterationsKept(r.KeepIterations, r.KeepIterationsFor), idsKept(&r)}
	}
	return g.table("workflow\tcompleted\tfailed\tcancelled\tterminated\tkeep\titerations\tids", rows)
}

// allIterations is the text for host.AllIterations.
const allIterations = "all"

// iterations returns the number in a checked text, 0 if it is empty.
func iterations(text string) int {
	if text == allIterations {
		return host.AllIterations
	}
	n, _ := strconv.Atoi(text)
	return n
}

// iterationsKept describes how many iterations are kept, and how long.
func iterationsKept(n int, age string) string {
	text := allIterations
	if n >= 0 {
		text = "the last " + strconv.Itoa(cmp.Or(n, host.DefaultIterations))
	}
	if age != "" {
		text = age + ", " + text
	}
	return text
}

// idsKept describes how long ids of deleted runs stay taken. It is a setting of the namespace.
func idsKept(r *httpapi.Retention) string {
	if r.Workflow != httpapi.OthersName {
		return ""
	}
	return cmp.Or(r.KeepIDsFor, abi.FormatDuration(store.DefaultIDsMs))
}

// bounds describes how long and how many runs of a status are kept.
func bounds(age string, keep int) string {
	if keep > 0 && age == "" {
		return "the last " + strconv.Itoa(keep)
	} else if keep > 0 {
		return age + ", the last " + strconv.Itoa(keep)
	}
	return cmp.Or(age, "for ever")
}

func numberOrAll(keep int) string {
	if keep > 0 {
		return strconv.Itoa(keep)
	}
	return "all"
}

type retentionSetCmd struct {
	Workflow   string `arg:"" help:"Name of the workflow, or - for all that have no retention of their own."`
	Completed  string `help:"How long a completed run is kept: 30d; default: for ever." placeholder:"DURATION" type:"age"`
	Failed     string `help:"A failed one." placeholder:"DURATION" type:"age"`
	Cancelled  string `help:"A cancelled one." placeholder:"DURATION" type:"age"`
	Terminated string `help:"A terminated one." placeholder:"DURATION" type:"age"`
	Keep       int    `help:"How many ended runs are kept, the newest; default: any number." placeholder:"N" type:"keep"`

	KeepCompleted  int `help:"How many completed runs are kept, the newest; default: any number." placeholder:"N" type:"keep"`
	KeepFailed     int `help:"Of failed ones." placeholder:"N" type:"keep"`
	KeepCancelled  int `help:"Of cancelled ones." placeholder:"N" type:"keep"`
	KeepTerminated int `help:"Of terminated ones." placeholder:"N" type:"keep"`

	KeepIterations    string `help:"How many iterations are kept, the newest; default: 10." placeholder:"N|all" type:"iterations"`
	KeepIterationsFor string `help:"For how long after their end; default: for ever." placeholder:"DURATION" type:"age"`

	KeepIDs string `help:"With -: how long deleted ids stay taken; default: 30d." name:"keep-ids-for" placeholder:"AGE" type:"age"`
}

func (c *retentionSetCmd) Run(g *globals) error {
	rules := httpapi.Retention{Completed: c.Completed, Failed: c.Failed, Cancelled: c.Cancelled,
		Terminated: c.Terminated, Keep: c.Keep, KeepCompleted: c.KeepCompleted, KeepFailed: c.KeepFailed,
		KeepCancelled: c.KeepCancelled, KeepTerminated: c.KeepTerminated, KeepIterations: iterations(c.KeepIterations),
		KeepIterationsFor: c.KeepIterationsFor, KeepIDsFor: c.KeepIDs}
	if rules == (httpapi.Retention{}) {
		return &exitCode{exitUsage, errors.New("the retention bounds nothing: give an age such as --completed, or a number of " +
			"runs or iterations such as --keep; to remove one, delete it")}
	}
	var set httpapi.Retention
	if err := g.exchange(http.MethodPut, "/v1/retention/"+segment(c.Workflow), rules, &set); err != nil {
		return err
	}
	return g.showRetentions([]httpapi.Retention{set}, set)
}

type retentionDeleteCmd struct {
	Workflow string `arg:"" help:"Name of the workflow, or - for all that have no retention of their own."`
}

func (c *retentionDeleteCmd) Run(g *globals) error {
	_, _, err := g.call(http.MethodDelete, "/v1/retention/"+segment(c.Workflow), nil, nil, nil)
	return err
}

type retentionSweepCmd struct {
	DryRun bool `help:"Delete nothing, only say what would be deleted."`
}

func (c *retentionSweepCmd) Run(g *globals) error {
	q := url.Values{}
	if c.DryRun {
		q.Set("dry_run", "true")
	}
	var swept host.Swept
	if _, _, err := g.call(http.MethodPost, "/v1/retention:sweep", q, nil, &swept); err != nil {
		return err
	}
	switch g.Format {
	case "json":
		return g.json(swept)
	case "ids":
		for _, r := range swept.Runs {
			_, _ = fmt.Fprintln(g.io.out, r.ID)
		}
		return nil
	}
	rows := make([][]string, len(swept.Runs))
	for i, r := range swept.Runs {
		rows[i] = []string{r.ID, r.Workflow, r.Status.String(), instant(r.Ended)}
	}
	if err := g.table("run\tworkflow\tstatus\tended", rows); err != nil {
		return err
	}
	verb := "deleted"
	if c.DryRun {
		verb = "to delete"
	}
	_, err := fmt.Fprintf(g.io.out, "%d %s, %d held by a parent that waits for them, %d failed; %d ids free again\n", swept.Deleted,
		verb, swept.Held, swept.Failed, swept.Forgotten)
	return err
}
