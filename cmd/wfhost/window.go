package main

import (
	"net/http"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
)

type limitsWindowsCmd struct{}

func (c *limitsWindowsCmd) Run(g *globals) error {
	var list []host.StartWindow
	if _, _, err := g.call(http.MethodGet, "/v1/start-windows", nil, nil, httpapi.ItemsOf(&list)); err != nil {
		return err
	}
	return g.showStartWindows(list, list)
}

// showStartWindows prints debounces and throttles as a table, or all as JSON.
func (g *globals) showStartWindows(list []host.StartWindow, all any) error {
	if g.Format == "json" {
		return g.json(all)
	}
	rows := make([][]string, len(list))
	for i, w := range list {
		rows[i] = []string{w.Workflow, w.Debounce, w.Longest, w.Throttle}
	}
	return g.table("workflow\tdebounce\tlongest\tthrottle", rows)
}

// setStartWindow sets a debounce or a throttle.
func (g *globals) setStartWindow(workflow string, w httpapi.StartWindowBody) error {
	var set host.StartWindow
	if err := g.exchange(http.MethodPut, "/v1/start-windows/"+segment(workflow), w, &set); err != nil {
		return err
	}
	return g.showStartWindows([]host.StartWindow{set}, set)
}

type limitsDebounceCmd struct {
	Workflow string `arg:"" help:"Name of the workflow."`
	Quiet    string `arg:"" help:"Begin when no start has come for so long: 10s, \"10s per input.customer\"."`
	Longest  string `help:"Begin so long after the first start; default: 10 times QUIET." placeholder:"DURATION" type:"duration"`
}

func (c *limitsDebounceCmd) Run(g *globals) error {
	return g.setStartWindow(c.Workflow, httpapi.StartWindowBody{Debounce: c.Quiet, Longest: c.Longest})
}

type limitsThrottleCmd struct {
	Workflow string `arg:"" help:"Name of the workflow."`
	Window   string `arg:"" help:"Start one run within so long: 1h, \"1h per input.customer\"."`
}

func (c *limitsThrottleCmd) Run(g *globals) error {
	return g.setStartWindow(c.Workflow, httpapi.StartWindowBody{Throttle: c.Window})
}

type limitsEachCmd struct {
	Workflow string `arg:"" help:"Name of the workflow."`
}

func (c *limitsEachCmd) Run(g *globals) error {
	_, _, err := g.call(http.MethodDelete, "/v1/start-windows/"+segment(c.Workflow), nil, nil, nil)
	return err
}
