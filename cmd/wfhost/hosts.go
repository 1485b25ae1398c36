package main

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
)

type hostsCmd struct {
	List    hostsListCmd    `cmd:"" default:"1" help:"List the live servers of the cluster, with what each owns."`
	Drain   hostsDrainCmd   `cmd:"" help:"Have a server give its runs to the others, and take none until undrain or its next start."`
	Undrain hostsUndrainCmd `cmd:"" help:"Have a drained server take its share of the runs again."`
}

type hostsListCmd struct{}

func (c *hostsListCmd) Run(g *globals) error {
	list, err := g.hosts()
	if err != nil {
		return err
	}
	return g.showHosts(list, list)
}

type hostsDrainCmd struct {
	Host string `arg:"" help:"Its name, as wfhost hosts shows it."`
	Wait bool   `help:"Wait until it owns no runs."`
}

// drainPause is the time between two looks at a server that drains: it gives what rests within a beat.
const drainPause = 500 * time.Millisecond

func (c *hostsDrainCmd) Run(g *globals) error {
	x, err := g.hostAction(c.Host, "drain")
	if err != nil {
		return err
	}
	for c.Wait && len(x.Partitions) > 0 {
		select {
		case <-time.After(drainPause):
		case <-g.ctx.Done():
			return g.ctx.Err()
		}
		list, err := g.hosts()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list, func(h host.HostInfo) bool { return h.Name == c.Host })
		switch {
		case i < 0:
			return fmt.Errorf("the server %q has gone; it still had %d partitions", c.Host, len(x.Partitions))
		case !list[i].Drained:
			return fmt.Errorf("the server %q was undrained or restarted; it has %d partitions", c.Host, len(list[i].Partitions))
		}
		x = list[i]
	}
	return g.showHosts([]host.HostInfo{x}, x)
}

type hostsUndrainCmd struct {
	Host string `arg:"" help:"Its name, as wfhost hosts shows it."`
}

func (c *hostsUndrainCmd) Run(g *globals) error {
	x, err := g.hostAction(c.Host, "undrain")
	if err != nil {
		return err
	}
	return g.showHosts([]host.HostInfo{x}, x)
}

func (g *globals) hosts() (list []host.HostInfo, err error) {
	_, _, err = g.call(http.MethodGet, "/v1/hosts", nil, nil, httpapi.ItemsOf(&list))
	return list, err
}

func (g *globals) hostAction(name, action string) (x host.HostInfo, err error) {
	_, _, err = g.call(http.MethodPost, "/v1/hosts/"+url.PathEscape(name)+"/"+action, nil, nil, &x)
	return x, err
}

// showHosts prints servers of a cluster as a table, or all as JSON.
func (g *globals) showHosts(list []host.HostInfo, all any) error {
	switch g.Format {
	case "json":
		return g.json(all)
	case "ids":
		for _, h := range list {
			_, _ = fmt.Fprintln(g.io.out, h.Name)
		}
		return nil
	}
	rows := make([][]string, len(list))
	for i, h := range list {
		var notes []string
		switch {
		case h.Drained && len(h.Partitions) == 0:
			notes = append(notes, "drained")
		case h.Draining:
			notes = append(notes, "draining")
		}
		if h.Self {
			notes = append(notes, "has answered")
		}
		beat := ""
		if !h.LastBeat.IsZero() {
			beat = instant(h.LastBeat)
		}
		rows[i] = []string{h.Name, h.Address, h.Release, strconv.Itoa(len(h.Partitions)), strconv.Itoa(h.Weight), instant(h.Joined),
			beat, (time.Duration(h.SkewMs) * time.Millisecond).String(), strings.Join(notes, ", ")}
	}
	return g.table("host\taddress\trelease\tpartitions\tweight\tjoined\tlast beat\tclock ahead\t", rows)
}
