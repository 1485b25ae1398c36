package main

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
)

type topCmd struct {
	Every time.Duration `help:"How often it looks." default:"2s"`
	N     int           `short:"n" help:"Look so often, and end; 0: until Ctrl-C. Without a terminal: once." default:"0"`
	Wakes int           `help:"How many of the next wakes it shows." default:"10"`
}

// leastTop is the shortest interval of top: each look reads counts and the first timers.
const leastTop = 100 * time.Millisecond

// look is what top read at one instant.
type look struct {
	at     time.Time
	counts httpapi.Counts
	timers []host.Timer
}

func (c *topCmd) Run(g *globals) error {
	if c.Every < leastTop {
		return &exitCode{exitUsage, fmt.Errorf("--every must be at least %v, got %v", leastTop, c.Every)}
	}
	if c.N < 0 {
		return &exitCode{exitUsage, fmt.Errorf("-n must not be negative, got %d", c.N)}
	}
	if c.Wakes < 1 || c.Wakes > 1000 {
		return &exitCode{exitUsage, fmt.Errorf("--wakes must be 1 to 1000, got %d", c.Wakes)}
	}
	live := terminal(g.io.out)
	if !live && c.N == 0 {
		c.N = 1
	}
	var before *look
	for n := 1; ; n++ {
		now, err := c.look(g)
		if err != nil && g.ctx.Err() != nil {
			return c.interrupted(n - 1)
		}
		if err != nil {
			return err
		}
		if live {
			_, _ = fmt.Fprint(g.io.out, "\x1b[H\x1b[2J")
		}
		if err := c.show(g, before, now); err != nil || n == c.N {
			return err
		}
		before = now
		select {
		case <-time.After(c.Every):
		case <-g.ctx.Done():
			return c.interrupted(n)
		}
	}
}

// interrupted returns the result of an interrupted top: an error only if more looks were requested.
func (c *topCmd) interrupted(looks int) error {
	if c.N == 0 {
		return nil
	}
	return &exitCode{exitInterrupted, fmt.Errorf("interrupted after %d of %d looks", looks, c.N)}
}

// look reads the data to show. It waits for a server that restarts.
func (c *topCmd) look(g *globals) (*look, error) {
	x := &look{}
	if err := g.get("/v1/runs:count", nil, &x.counts); err != nil {
		return nil, err
	}
	var page httpapi.List[host.Timer]
	if err := g.get("/v1/timers", url.Values{"limit": {strconv.Itoa(c.Wakes)}}, &page); err != nil {
		return nil, err
	}
	x.timers, x.at = page.Items, g.now()
	return x, nil
}

// ended returns how many ended runs are kept.
func (x *look) ended() (n int64) {
	for s := host.Queued; s <= host.Terminated; s++ {
		if s.Terminal() {
			n += x.counts.Statuses[s]
		}
	}
	return n
}

// lateness returns how long the first wake is overdue, 0 if none is.
func (x *look) lateness() time.Duration {
	if len(x.timers) == 0 {
		return 0
	}
	return max(x.at.Sub(x.timers[0].Due), 0)
}

// perSecond formats the rate of change of a number. Counts decrease when runs are deleted.
func perSecond(before, now int64, passed time.Duration) string {
	return fmt.Sprintf("%+.1f/s", float64(now-before)/passed.Seconds())
}

func (c *topCmd) show(g *globals, before, x *look) error {
	if g.Format == "json" {
		return g.json(struct {
			Time       time.Time      `json:"time"`
			Counts     httpapi.Counts `json:"counts"`
			LatenessMs int64          `json:"lateness_ms"`
			Timers     []host.Timer   `json:"timers"`
		}{x.at.UTC().Truncate(time.Millisecond), x.counts, x.lateness().Milliseconds(), x.timers})
	}
	head := fmt.Sprintf("%s  %s  %s, late by %s", g.Server, instant(x.at), plural(x.counts.Total, "run"), duration(x.lateness()))
	if before != nil {
		passed := x.at.Sub(before.at)
		head += fmt.Sprintf(", started %s, ended %s", perSecond(before.counts.Total, x.counts.Total, passed),
			perSecond(before.ended(), x.ended(), passed))
	}
	if _, err := fmt.Fprintf(g.io.out, "%s\n\n", head); err != nil {
		return err
	}
	var rows [][]string
	for s := host.Queued; s <= host.Terminated; s++ {
		if n := x.counts.Statuses[s]; n != 0 || before != nil && before.counts.Statuses[s] != 0 {
			rate := "-"
			if before != nil {
				rate = perSecond(before.counts.Statuses[s], n, x.at.Sub(before.at))
			}
			rows = append(rows, []string{s.String(), strconv.FormatInt(n, 10), rate})
		}
	}
	if err := g.table("status\truns\tchange", rows); err != nil || len(x.timers) == 0 {
		return err
	}
	rows = nil
	for _, t := range x.timers {
		in := "in " + duration(t.Due.Sub(x.at).Truncate(time.Second))
		if late := x.at.Sub(t.Due); late > 0 {
			in = "late by " + duration(late)
		}
		rows = append(rows, []string{t.RunID, t.Workflow, instant(t.Due), in})
	}
	_, _ = fmt.Fprintln(g.io.out)
	return g.table(strings.Join([]string{"next", "workflow", "due", ""}, "\t"), rows)
}
