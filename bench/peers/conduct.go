//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/wfhost/wfhost/bench/peers/engine"
	"github.com/wfhost/wfhost/bench/peers/report"
)

const (
	// root is where wfhost's own module is, seen from the folder of this one.
	root = "../.."
	// endWithin is how long a child may take to stop its servers when it is interrupted.
	endWithin = 45 * time.Second
	// probe is how long each figure of the disk is taken.
	probe = 2 * time.Second
)

// conductor runs all rounds.
type conductor struct {
	options
	base          string // a temporary folder
	wfhost, guest string // built there
	engines       []string
	missing       []string // sentences
	table         report.Table
	save          io.Writer
}

// conduct runs the rounds and prints the table, also what there is of it if it is interrupted.
func conduct(ctx context.Context, o options) (err error) {
	c := &conductor{options: o, save: io.Discard}
	c.base, err = os.MkdirTemp(o.dir, "wfhost-bench-peers-")
	if err != nil {
		return fmt.Errorf("-dir: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.base)) }()
	if err := os.Chmod(c.base, 0o711); err != nil { // PostgreSQL runs as another user
		return err
	}
	if o.save != "" {
		f, err := os.OpenFile(o.save, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("-save: %w", err)
		}
		defer func() { _ = f.Close() }() // each line was written by itself
		c.save = f
	}
	if err := c.find(); err != nil {
		return err
	}
	if err := c.build(ctx); err != nil {
		return err
	}
	begun := time.Now()
	for round := 1; round <= o.rounds && err == nil; round++ {
		err = c.runRound(ctx, round)
	}
	if o.output == "table" {
		err = errors.Join(err, c.print(time.Since(begun), ctx.Err() != nil))
	}
	return err
}

// find sorts out the engines that are not installed.
func (c *conductor) find() error {
	for _, e := range c.names() {
		err := engine.Check(e, engine.Options{PostgresBin: c.postgres, RestateBin: c.restate})
		var missing *engine.MissingError
		switch {
		case errors.As(err, &missing):
			c.missing = append(c.missing, err.Error())
			fmt.Fprintln(os.Stderr, err)
		case err != nil:
			return err
		default:
			c.engines = append(c.engines, e)
		}
	}
	if len(c.engines) == 0 {
		return errors.New("no engine is installed")
	}
	return nil
}

// build compiles the command wfhost, which measures the disk, and with it the guest.
func (c *conductor) build(ctx context.Context) error {
	c.wfhost, c.guest = filepath.Join(c.base, "wfhost"), filepath.Join(c.base, "guest.wasm")
	for _, args := range [][]string{
		{"go", "-C", root, "build", "-o", c.wfhost, "./cmd/wfhost"},
		{c.wfhost, "build", "./guest", "--out", c.guest},
	} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s(it is run in the folder bench/peers)", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// runRound runs each session on each engine, so that all engines meet the same minutes of the machine. The order turns
// around from one to the next.
func (c *conductor) runRound(ctx context.Context, round int) error {
	if err := c.probeDisk(ctx, round); err != nil {
		return err
	}
	sessions, err := c.plan()
	if err != nil {
		return err
	}
	for i, s := range sessions {
		order := slices.Clone(c.engines)
		if (round+i)%2 == 0 {
			slices.Reverse(order)
		}
		for _, e := range order {
			if s.large && (c.large == "none" || c.large == engine.Wfhost && e != engine.Wfhost) {
				continue
			}
			if err := c.runSession(ctx, round, s, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// probeDisk measures the disk alone.
func (c *conductor) probeDisk(ctx context.Context, round int) error {
	out, err := exec.CommandContext(ctx, c.wfhost, "bench", "disk", "--for", probe.String(), "--dir", c.base,
		"--format", "json").Output()
	if err != nil {
		return errors.Join(fmt.Errorf("wfhost bench disk: %w", err), context.Cause(ctx))
	}
	var all map[string]any
	if err := json.Unmarshal(out, &all); err != nil {
		return fmt.Errorf("wfhost bench disk: %w", err)
	}
	f := map[string]float64{}
	for name, v := range all {
		if n, ok := v.(float64); ok {
			f[name] = n
		}
	}
	return c.add(report.Result{Round: round, Engine: disk, Workload: disk, Figures: f})
}

// runSession runs a session in a process of its own and takes its results.
func (c *conductor) runSession(ctx context.Context, round int, s session, name string) error {
	begun := time.Now()
	folder := filepath.Join(c.base, fmt.Sprintf("%d-%s-%s", round, s.name, name))
	if err := errors.Join(os.Mkdir(folder, 0o711), os.Chmod(folder, 0o711)); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }() // the folder above it is removed in the end, too
	results, err := c.start(ctx, round, s, name, folder)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, p := range s.parts {
		if err != nil && !slices.ContainsFunc(results, func(r report.Result) bool { return r.Workload == p.name }) {
			results = append(results, report.Result{Round: round, Engine: name, Workload: p.name, Error: err.Error()})
		}
	}
	for _, r := range results {
		if err := c.add(r); err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stderr, "round %d of %d, %s, %s: %v\n", round, c.rounds, s.name, name, time.Since(begun).Round(time.Second))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return nil
}

// start runs the child and returns its results, which are complete if there is no error. An interrupt is handed on, and
// the child has 45 s to stop its servers.
func (c *conductor) start(ctx context.Context, round int, s session, name, folder string) ([]report.Result, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // it was read to its end
	var text bytes.Buffer
	cmd := exec.CommandContext(ctx, self, "-quick="+strconv.FormatBool(c.quick), "-child", s.name, "-child-engine", name,
		"-child-folder", folder, "-child-guest", c.guest, "-child-round", strconv.Itoa(round), "-postgres", c.postgres,
		"-restate", c.restate)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = &text, &text, []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = endWithin
	err = cmd.Start()
	_ = w.Close() // the child has its own
	if err != nil {
		return nil, err
	}
	var results []report.Result
	var broken error
	for d := json.NewDecoder(r); ; {
		var one report.Result
		broken = d.Decode(&one)
		if broken != nil {
			break
		}
		results = append(results, one)
	}
	if err := cmd.Wait(); err != nil {
		return results, fmt.Errorf("%s, %s: %w\n%s", name, s.name, err, text.Bytes())
	}
	if !errors.Is(broken, io.EOF) {
		return results, fmt.Errorf("%s, %s: results: %w", name, s.name, broken)
	}
	return results, nil
}

// add keeps a result and writes its line.
func (c *conductor) add(r report.Result) error {
	c.table.Results = append(c.table.Results, r)
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if c.output == "json" {
		if _, err := os.Stdout.Write(line); err != nil {
			return err
		}
	}
	_, err = c.save.Write(line)
	return err
}

// print writes the table and what belongs to it.
func (c *conductor) print(took time.Duration, interrupted bool) error {
	t := &c.table
	t.Rows, t.Engines, t.Spread = rows(), c.engines, c.spread
	fmt.Println()
	if err := t.Write(os.Stdout); err != nil {
		return err
	}
	fmt.Printf("\nThe disk, once a round: fdatasync of 4 KiB p50 %s, p99 %s. Pebble's synced commit p50 %s, one caller; %s by 64, "+
		"%s by 256.\n", t.Figure(disk, "fdatasyncP50Us"), t.Figure(disk, "fdatasyncP99Us"), t.Figure(disk, "pebble1P50Us"),
		t.Figure(disk, "pebble64PerS"), t.Figure(disk, "pebble256PerS"))
	fmt.Printf("Memory and CPU time hold those of the harness, too: %s before an engine is opened.\n", t.Figure(bare, "aloneBytes"))
	for _, note := range slices.Concat(t.Notes(), c.missing) {
		fmt.Println(note)
	}
	if interrupted {
		fmt.Printf("Interrupted after %v: this is what there was by then.\n", took.Round(time.Second))
	} else {
		fmt.Printf("%d rounds in %v.\n", c.rounds, took.Round(time.Second))
	}
	return nil
}
