// Command compare measures this tree against an earlier commit: it builds both, runs the same benchmarks with both in turns, and
// prints a table of ratios. `make compare BASE=rev` runs it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// options are the flags.
type options struct {
	base   string
	rounds int
	span   time.Duration
	only   *regexp.Regexp
	json   string
	dir    string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(ctx, o, os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

// maxRounds is far more than make a difference.
const maxRounds = 100

func parse(args []string, say io.Writer) (o options, err error) {
	f := flag.NewFlagSet("compare", flag.ContinueOnError)
	f.SetOutput(say)
	f.StringVar(&o.base, "base", "", "the `commit` to compare with")
	f.IntVar(&o.rounds, "rounds", 5, "how often each benchmark runs with each build")
	f.DurationVar(&o.span, "for", 10*time.Second, "how long a benchmark measures that has a duration")
	only := f.String("only", "", "a regular `expression`: only benchmarks whose names match")
	f.StringVar(&o.json, "json", "", "a `file` for the figures of all rounds")
	f.StringVar(&o.dir, "dir", "", "the `folder` for the data, whose disk is measured; default: that of temporary files")
	list := f.Bool("list", false, "list the benchmarks")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.only, err = regexp.Compile(*only)
	if err != nil {
		return o, fmt.Errorf("-only: %w", err)
	}
	if *list {
		for _, m := range plan(o.span, o.only) {
			fmt.Fprintf(say, "%-14s wfhost %s\n", m.name, strings.Join(m.args, " "))
		}
		return o, flag.ErrHelp
	}
	switch {
	case o.base == "":
		return o, errors.New("-base: name the commit to compare with, as in make compare BASE=v0.1.0")
	case f.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.rounds < 1 || o.rounds > maxRounds:
		return o, fmt.Errorf("-rounds must be from 1 to %d, got %d", maxRounds, o.rounds)
	case o.span < 100*time.Millisecond:
		return o, fmt.Errorf("-for must be at least 100ms, got %v", o.span)
	case len(plan(o.span, o.only)) == 0:
		return o, fmt.Errorf("-only: no benchmark matches %q: -list names them", *only)
	}
	return o, nil
}

func run(ctx context.Context, o options, out, say io.Writer) error {
	dir, err := os.MkdirTemp("", "wfhost-compare-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a leftover in a temporary folder
	fmt.Fprintln(say, "building both")
	base, head, err := builds(ctx, dir, o.base)
	if err != nil {
		return err
	}
	r, err := compare(ctx, o, &base, &head, say)
	if err != nil {
		return err
	}
	if o.json != "" {
		b, err := json.MarshalIndent(r, "", " ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.json, append(b, '\n'), 0o644); err != nil {
			return err
		}
	}
	return r.write(out)
}

// compare runs all measurements in turns. Which build comes first alternates.
func compare(ctx context.Context, o options, base, head *build, say io.Writer) (*Result, error) {
	r := &Result{Base: base.commit, Head: head.commit, Began: time.Now(), Processor: processor(), Cores: runtime.NumCPU(),
		Rounds: o.rounds}
	for _, m := range plan(o.span, o.only) {
		of := map[*build]map[string][]float64{base: {}, head: {}}
		for round := range o.rounds {
			fmt.Fprintf(say, "%s, round %d of %d\n", m.name, round+1, o.rounds)
			order := []*build{base, head}
			if round%2 == 1 {
				order = []*build{head, base}
			}
			for _, b := range order {
				got, err := b.measure(ctx, &m, o.dir)
				if ctx.Err() != nil {
					return nil, context.Cause(ctx)
				}
				if err != nil {
					return nil, err
				}
				for key, v := range got {
					of[b][key] = append(of[b][key], v)
				}
			}
		}
		for _, f := range m.figures {
			x := Measurement{Name: m.name, Args: m.args, Key: f.key, Label: f.label, More: f.more,
				Base: of[base][f.key], Head: of[head][f.key]}
			x.settle()
			r.Figures = append(r.Figures, x)
		}
	}
	return r, nil
}

// processor names the processor, as far as the machine tells.
func processor() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				return strings.TrimSpace(value)
			}
		}
	}
	return runtime.GOARCH
}
