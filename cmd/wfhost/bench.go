package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/wfhost/wfhost/cmd/wfhost/bench"
	"github.com/wfhost/wfhost/host"
)

type benchCmd struct {
	Disk     bench.Disk     `cmd:"" help:"What the disk does, and Pebble on it, without a host."`
	Steps    bench.Steps    `cmd:"" help:"Steps in a second, and how long each takes."`
	Wake     bench.Wake     `cmd:"" help:"Wakes in a second of runs that sleep again and again."`
	Sleepers bench.Sleepers `cmd:"" help:"What sleeping runs take, and how soon one wakes after a restart."`
	Late     bench.Late     `cmd:"" help:"How late runs wake whose instants are spread evenly."`
	Storm    bench.Storm    `cmd:"" help:"How long it takes until runs have woken that are due at the same instant."`
	Replay   bench.Replay   `cmd:"" help:"What a wake costs after a long history."`
	Start    bench.Start    `cmd:"" help:"How long a run that does nothing takes from start to result."`
	Mixed    bench.Mixed    `cmd:"" help:"Everything at once for an hour: whether memory and disk stay what they are."`
	Tenants  bench.Tenants  `cmd:"" help:"How late runs wake while another namespace floods the host."`
	List     bench.List     `cmd:"" help:"How long pages of lists of runs take, and counts."`
	Signal   bench.Signal   `cmd:"" help:"How long a waiting run takes to go on after its signal."`
}

// goSettings reports whether Go's runtime should keep its default settings, as in a program that embeds the host. This must
// be known before the command line is parsed.
func goSettings(args []string) bool { return slices.Contains(args, "--go-settings") }

// bench returns the environment of measurements.
func (g *globals) bench() *bench.Env {
	return &bench.Env{Ctx: g.ctx, Compile: g.compile, Compiler: host.SelfCompiler(), Show: g.showReport,
		Say: func(text string) { _, _ = fmt.Fprintln(g.io.err, "bench:", text) }}
}

// showReport prints the report of a measurement.
func (g *globals) showReport(r *bench.Report) error {
	if g.Format == "json" {
		return g.json(r)
	}
	for _, n := range r.Notes {
		if _, err := fmt.Fprintf(g.io.out, "%s\n\n", n); err != nil {
			return err
		}
	}
	return g.table(bench.Header, r.Rows())
}

// compile builds the workflows of a measurement.
func (g *globals) compile(ctx context.Context, path string) ([]byte, error) {
	wasm, _, err := module(ctx, path)
	return wasm, err
}
