package main

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/wfhost/wfhost/host/conformance"
)

type conformCmd struct {
	Path    string   `arg:"" help:"A .wasm file with the story workflows of docs/reference/conformance.md, or its folder."`
	Story   []string `help:"Run this story alone; repeatable." placeholder:"NAME"`
	Journal bool     `help:"Print the journals that the module has written."`
}

func (c *conformCmd) Run(g *globals) error {
	wasm, _, err := module(g.ctx, c.Path)
	if err != nil {
		return err
	}
	report, err := conformance.Check(g.ctx, wasm, conformance.Options{Only: c.Story, CacheDir: compiledModules(nil)})
	if err != nil {
		return err
	}
	if g.Format == "json" {
		err = g.json(report)
	} else {
		err = c.print(g, report)
	}
	switch {
	case err != nil:
		return err
	case report.Failed > 0:
		return &exitCode{exitMismatch, fmt.Errorf("%d of %d stories differ from the reference", report.Failed,
			report.Passed+report.Failed)}
	case report.Passed == 0:
		return &exitCode{exitNotFound, errors.New(
			"the module has none of the story workflows; docs/reference/conformance.md describes them")}
	}
	return nil
}

func (c *conformCmd) print(g *globals, report *conformance.Report) error {
	w := tabwriter.NewWriter(g.io.out, 0, 0, 2, ' ', 0)
	for _, o := range report.Outcomes {
		switch {
		case o.Skipped != "":
			_, _ = fmt.Fprintf(w, "skipped\t%s\t%s\n", o.Story, oneLine(o.Skipped))
		case len(o.Faults) == 0:
			_, _ = fmt.Fprintf(w, "ok\t%s\n", o.Story)
		default:
			_, _ = fmt.Fprintf(w, "FAILED\t%s\n", o.Story)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, o := range report.Outcomes {
		for _, fault := range o.Faults {
			_, _ = fmt.Fprintf(g.io.out, "\n%s: %s\n", o.Story, indented(fault))
		}
		if c.Journal && o.Journal != "" {
			_, _ = fmt.Fprintf(g.io.out, "\n%s\n", strings.TrimRight(indented(o.Journal), "\n"))
		}
	}
	_, err := fmt.Fprintf(g.io.out, "\n%d passed, %d failed, %d skipped; %d memories compared\n", report.Passed, report.Failed,
		report.Skipped, report.Points)
	return err
}
