package main

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
)

type limitsCmd struct {
	List     limitsListCmd     `cmd:"" default:"1" help:"List limits, and how many runs hold a slot or wait for one."`
	Handlers limitsHandlersCmd `cmd:"" help:"List the limits of handlers, and how many attempts hold a slot or wait for one."`
	Show     limitsShowCmd     `cmd:"" help:"Show the limits of a workflow or handler."`
	Set      limitsSetCmd      `cmd:"" help:"Set the limits of a workflow or handler, in place of those that it has."`
	Delete   limitsDeleteCmd   `cmd:"" help:"Remove the limits of a workflow or handler: all that wait begin."`

	Debounce limitsDebounceCmd `cmd:"" help:"Merge starts that follow each other closely into one run."`
	Throttle limitsThrottleCmd `cmd:"" help:"Start one run of a workflow within a window; other starts are told which one."`
	Each     limitsEachCmd     `cmd:"" help:"Remove the debounce or throttle of a workflow."`
	Windows  limitsWindowsCmd  `cmd:"" help:"List debounces and throttles."`
}

type limitsListCmd struct{}

func (c *limitsListCmd) Run(g *globals) error {
	var list []host.WorkflowLimitInfo
	if _, _, err := g.call(http.MethodGet, "/v1/limits", nil, nil, httpapi.ItemsOf(&list)); err != nil {
		return err
	}
	return g.showLimits(list, list)
}

// showLimits prints limits as a table, or all as JSON.
func (g *globals) showLimits(list []host.WorkflowLimitInfo, all any) error {
	if g.Format == "json" {
		return g.json(all)
	}
	rows := make([][]string, len(list))
	for i, l := range list {
		rows[i] = []string{l.Workflow, strings.Join(l.Concurrency, ", "), strings.Join(l.Rate, ", "), strconv.FormatInt(l.Holding, 10),
			strconv.FormatInt(l.Waiting, 10)}
	}
	return g.table("workflow\tconcurrency\trate\tholding\twaiting", rows)
}

type limitsShowCmd struct{ limited }

func (c *limitsShowCmd) Run(g *globals) error {
	path, err := c.path()
	if err != nil {
		return err
	}
	if c.Handler != "" {
		return g.callHandlerLimits(http.MethodGet, path, nil)
	}
	var l host.WorkflowLimitInfo
	if _, _, err := g.call(http.MethodGet, path, nil, nil, &l); err != nil {
		return err
	}
	return g.showLimits([]host.WorkflowLimitInfo{l}, l)
}

type limitsSetCmd struct {
	limited
	Concurrency []string `sep:"none" help:"At a time: 5, \"5 per input.customer\"; repeatable." placeholder:"LIMIT" type:"slots"`
	Rate        []string `sep:"none" help:"So many begin: \"100/1m per input.tenant\"; repeatable." placeholder:"LIMIT" type:"rate"`
}

func (c *limitsSetCmd) Run(g *globals) error {
	path, err := c.path()
	if err != nil {
		return err
	}
	if len(c.Concurrency)+len(c.Rate) == 0 {
		return &exitCode{exitUsage, errors.New("these limits limit nothing: give --concurrency or --rate; to remove them, delete them")}
	}
	limits := httpapi.LimitsBody{Concurrency: c.Concurrency, Rate: c.Rate}
	if c.Handler != "" {
		return g.callHandlerLimits(http.MethodPut, path, limits)
	}
	var set host.WorkflowLimitInfo
	if err := g.exchange(http.MethodPut, path, limits, &set); err != nil {
		return err
	}
	return g.showLimits([]host.WorkflowLimitInfo{set}, set)
}

type limitsDeleteCmd struct{ limited }

func (c *limitsDeleteCmd) Run(g *globals) error {
	path, err := c.path()
	if err != nil {
		return err
	}
	_, _, err = g.call(http.MethodDelete, path, nil, nil, nil)
	return err
}

// placeLine describes the position of a run in the queue for a slot.
func placeLine(p *host.QueuePosition) string {
	place := strconv.Itoa(p.Position)
	if p.Position > host.MaxQueuePosition {
		place = "over " + strconv.Itoa(host.MaxQueuePosition)
	}
	text := fmt.Sprintf("place     %s of %d with the same key, %d of the workflow wait", place, p.Same, p.Waiting)
	if p.Limit != "" {
		text += "; the limit is " + p.Limit
	}
	return oneLine(text) + "\n"
}
