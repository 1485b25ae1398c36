package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
)

type namespacesCmd struct {
	List namespacesListCmd `cmd:"" default:"1" help:"List the namespaces, with what they use and may use."`
	Set  namespacesSetCmd  `cmd:"" help:"Set a namespace's quota, in place of the old one. Without flags, remove it."`
}

type namespacesListCmd struct{}

func (c *namespacesListCmd) Run(g *globals) error {
	var list []host.NamespaceInfo
	if _, _, err := g.call(http.MethodGet, "/v1/namespaces", nil, nil, httpapi.ItemsOf(&list)); err != nil {
		return err
	}
	return g.showNamespaces(list, list)
}

// showNamespaces prints namespaces as a table, or all as JSON.
func (g *globals) showNamespaces(list []host.NamespaceInfo, all any) error {
	switch g.Format {
	case "json":
		return g.json(all)
	case "ids":
		for _, n := range list {
			_, _ = fmt.Fprintln(g.io.out, n.Name)
		}
		return nil
	}
	rows := make([][]string, len(list))
	for i, n := range list {
		rows[i] = []string{n.Name, instant(n.Created), of(n.Usage.Runs, n.Quota.MaxRuns), of(n.Usage.Bytes, n.Quota.MaxBytes),
			of(int64(n.Usage.Instances), n.Quota.MaxInstances), limit(n.Quota.StartsPerSecond), limit(n.Quota.WakesPerSecond),
			limit(n.Quota.BytesPerSecond), limit(n.Quota.RequestsPerSecond), limit(n.Quota.MaxSchedules),
			limit(n.Quota.MaxVersions)}
	}
	return g.table("namespace\tcreated\tlive runs\tbytes\tinstances\tstarts/s\twakes/s\tbytes/s\trequests/s\tschedules\t"+
		"versions", rows)
}

// of formats a usage, with its limit if there is one.
func of(used, most int64) string {
	text := strconv.FormatInt(used, 10)
	if most > 0 {
		text += " of " + limit(most)
	}
	return text
}

func limit(n int64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

type namespacesSetCmd struct {
	Name              string `arg:"" help:"Name of the namespace, which is created if it does not exist."`
	MaxRuns           int64  `help:"Runs that have not ended; 0: any number." placeholder:"N" type:"quota"`
	MaxBytes          int64  `help:"Bytes of journals, output and logs of its runs; 0: any number." placeholder:"N" type:"quota"`
	MaxInstances      int64  `help:"Guests that compute at a time; 0: any number." placeholder:"N" type:"quota"`
	StartsPerSecond   int64  `help:"Starts a second, with children and continue-as-new; 0: any number." placeholder:"N" type:"quota"`
	RequestsPerSecond int64  `help:"Requests of HTTP a second; 0: any number." placeholder:"N" type:"quota"`
	WakesPerSecond    int64  `help:"Timers that wake runs a second; others wait; 0: any number." placeholder:"N" type:"quota"`
	BytesPerSecond    int64  `help:"Bytes that its runs write a second; more wait; 0: any number." placeholder:"N" type:"quota"`
	MaxSchedules      int64  `help:"Schedules, ended ones included; 0: any number." placeholder:"N" type:"quota"`
	MaxVersions       int64  `help:"Versions of workflows, each with a module; 0: any number." placeholder:"N" type:"quota"`
}

func (c *namespacesSetCmd) Run(g *globals) error {
	quota := host.Quota{MaxRuns: c.MaxRuns, MaxBytes: c.MaxBytes, MaxInstances: c.MaxInstances,
		StartsPerSecond: c.StartsPerSecond, RequestsPerSecond: c.RequestsPerSecond, MaxSchedules: c.MaxSchedules,
		WakesPerSecond: c.WakesPerSecond, MaxVersions: c.MaxVersions, BytesPerSecond: c.BytesPerSecond}
	var set host.NamespaceInfo
	if err := g.exchange(http.MethodPut, "/v1/namespaces/"+url.PathEscape(c.Name), quota, &set); err != nil {
		return err
	}
	return g.showNamespaces([]host.NamespaceInfo{set}, set)
}
