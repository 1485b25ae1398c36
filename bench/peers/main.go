//go:build linux

// Command peers runs the same workloads on wfhost, on Restate, and on DBOS with PostgreSQL, in turns, and prints a table.
// README.md tells how to install them and how to read it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/wfhost/wfhost/bench/peers/engine"
)

// maxRounds bounds -rounds: a full round takes a quarter of an hour.
const maxRounds = 100

// options are the flags.
type options struct {
	quick, spread              bool
	rounds                     int
	engines, sessions          string
	large, output, save        string
	dir, postgres, restate     string
	child, childEngine, folder string // of a process that this one has started
	round                      int
	guest                      string
}

func flags() (options, error) {
	var o options
	flag.BoolVar(&o.quick, "quick", false, "some minutes: fewer workloads, shorter")
	flag.IntVar(&o.rounds, "rounds", 3, "how often each workload runs on each engine")
	flag.BoolVar(&o.spread, "spread", false, "show the least and the greatest value beside the median")
	flag.StringVar(&o.engines, "engines", "wfhost,Restate,DBOS", "which engines, the first being compared with the others")
	flag.StringVar(&o.sessions, "sessions", "", "which sessions, default all: steps,sleepers,paced-1000,paced-3000,history,large")
	flag.StringVar(&o.large, "large", "all", "the engines that take part in W2 with 20,000: all, wfhost or none")
	flag.StringVar(&o.output, "o", "table", "table, or json: one line for each workload and round")
	flag.StringVar(&o.save, "save", "", "a file to which the lines in JSON are appended, too")
	flag.StringVar(&o.dir, "dir", "", "folder for the data meanwhile, whose disk counts; default that of temporary files")
	flag.StringVar(&o.postgres, "postgres", newest("/usr/lib/postgresql/*/bin"), "folder of PostgreSQL's programs")
	flag.StringVar(&o.restate, "restate", newest("../../bin/peers/node_modules/@restatedev/restate-server-*/bin/restate-server"),
		"the Restate server")
	flag.StringVar(&o.child, "child", "", "internal: run this session")
	flag.StringVar(&o.childEngine, "child-engine", "", "internal")
	flag.StringVar(&o.folder, "child-folder", "", "internal")
	flag.StringVar(&o.guest, "child-guest", "", "internal")
	flag.IntVar(&o.round, "child-round", 0, "internal")
	flag.Parse()
	return o, o.check()
}

// newest returns the last file that a pattern matches, with an absolute path, or "".
func newest(pattern string) string {
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		return ""
	}
	path, err := filepath.Abs(slices.Max(found))
	if err != nil {
		return ""
	}
	return path
}

func (o *options) check() error {
	if flag.NArg() > 0 {
		return fmt.Errorf("there are only flags, got %q", flag.Args())
	}
	if o.rounds < 1 || o.rounds > maxRounds {
		return fmt.Errorf("-rounds must be from 1 to %d, got %d", maxRounds, o.rounds)
	}
	if !slices.Contains([]string{"all", engine.Wfhost, "none"}, o.large) {
		return fmt.Errorf("-large must be all, wfhost or none, got %q", o.large)
	}
	if o.output != "table" && o.output != "json" {
		return fmt.Errorf("-o must be table or json, got %q", o.output)
	}
	for _, e := range o.names() {
		if !slices.Contains([]string{engine.Wfhost, engine.Restate, engine.DBOS}, e) {
			return fmt.Errorf("-engines takes wfhost, Restate and DBOS, got %q", e)
		}
	}
	_, err := o.plan()
	return err
}

// names lists the engines that are asked for.
func (o *options) names() []string { return strings.Split(o.engines, ",") }

// plan lists the sessions that are asked for.
func (o *options) plan() ([]session, error) {
	all := plan(o.quick)
	if o.sessions == "" {
		return all, nil
	}
	var list []session
	for name := range strings.SplitSeq(o.sessions, ",") {
		s, err := find(all, name)
		if err != nil {
			return nil, fmt.Errorf("-sessions: %w", err)
		}
		list = append(list, s)
	}
	return list, nil
}

func main() {
	o, err := flags()
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if o.child != "" {
		err = child(ctx, o)
	} else {
		err = conduct(ctx, o)
	}
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			fmt.Fprintln(os.Stderr, "peers:", err)
		}
		stop()
		os.Exit(1)
	}
}
