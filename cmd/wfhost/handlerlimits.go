package main

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
)

// limited names the subject of limits: a workflow or a handler.
type limited struct {
	Workflow string `arg:"" optional:"" help:"Name of the workflow."`
	Handler  string `help:"Limits of the attempts that call this handler, in place of a workflow's runs." placeholder:"NAME"`
}

// path returns the API path of the limits.
func (l *limited) path() (string, error) {
	if (l.Workflow == "") == (l.Handler == "") {
		return "", &exitCode{exitUsage, errors.New("name either a workflow, or a handler with --handler")}
	}
	if l.Handler != "" {
		return "/v1/handler-limits/" + segment(l.Handler), nil
	}
	return "/v1/limits/" + segment(l.Workflow), nil
}

// callHandlerLimits makes a request for the limits of one handler and shows the answer.
func (g *globals) callHandlerLimits(method, path string, body any) error {
	var l host.HandlerLimitInfo
	if err := g.exchange(method, path, body, &l); err != nil {
		return err
	}
	return g.showHandlerLimits([]host.HandlerLimitInfo{l}, l)
}

// showHandlerLimits prints limits of handlers as a table, or all as JSON.
func (g *globals) showHandlerLimits(list []host.HandlerLimitInfo, all any) error {
	if g.Format == "json" {
		return g.json(all)
	}
	rows := make([][]string, len(list))
	for i, l := range list {
		rows[i] = []string{l.Handler, strings.Join(l.Concurrency, ", "), strings.Join(l.Rate, ", "), strconv.Itoa(l.Holding),
			strconv.Itoa(l.Waiting)}
	}
	return g.table("handler\tconcurrency\trate\tholding\twaiting", rows)
}

type limitsHandlersCmd struct{}

func (c *limitsHandlersCmd) Run(g *globals) error {
	var list []host.HandlerLimitInfo
	if _, _, err := g.call(http.MethodGet, "/v1/handler-limits", nil, nil, httpapi.ItemsOf(&list)); err != nil {
		return err
	}
	return g.showHandlerLimits(list, list)
}
