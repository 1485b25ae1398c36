package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/wfhost/wfhost/cmd/wfhost/doctor"
	"github.com/wfhost/wfhost/store/postgres"
)

// check checks the database of a server; nil if it has none. unsafe is --store-unsafe.
func (d database) check(g *globals, unsafe bool) *doctor.Check {
	if d == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(g.ctx, doctorPatience)
	defer cancel()
	c := &doctor.Check{Name: "database", Status: doctor.Fail, Advice: "docs/operate/postgres.md says what a server needs"}
	url, err := d.address(g)
	if err != nil {
		c.Found = err.Error()
		return c
	}
	asked := time.Now()
	r, err := postgres.Check(ctx, url)
	if err != nil {
		c.Found = err.Error()
		return c
	}
	c.Values = map[string]any{"database": r, "took_ms": time.Since(asked).Milliseconds()}
	c.Found = fmt.Sprintf("PostgreSQL %s, %s, schema %d of %d", r.Server, r.Place, r.Schema, r.Wants)
	problems, old := r.Problems, r.Schema < r.Wants
	if old && len(problems) > 0 {
		problems = problems[:len(problems)-1]
	}
	warn := func(list []string, advice string) {
		c.Status, c.Advice = doctor.Warn, advice
		if len(list) > 0 {
			c.Found += ": " + strings.Join(list, "; ")
		}
	}
	switch {
	case len(problems) > 0 && unsafe:
		warn(problems, "--store-unsafe accepts this; the data may be lost")
	case len(problems) > 0:
		c.Found += ": " + strings.Join(problems, "; ")
	case old:
		warn(nil, "serve brings the schema up to date if its role may; else run wfhost store init as the owner of the database")
	case len(r.Warnings) > 0:
		warn(r.Warnings, c.Advice)
	default:
		c.Status, c.Advice = doctor.OK, ""
	}
	return c
}
