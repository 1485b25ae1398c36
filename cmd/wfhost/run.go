package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
	"github.com/wfhost/wfhost/store"
)

type runCmd struct {
	Config    configFile `help:"File with flags of run by their names, in YAML or JSON." type:"path" placeholder:"FILE"`
	Path      string     `arg:"" help:"${program}"`
	Workflow  string     `help:"Which workflow of the module; default: its only one."`
	ID        string     `name:"id" help:"Id of the run; a run of that id in --data goes on." type:"run-id"`
	SkipSleep bool       `help:"Jump over the sleeps of the run and its children; without --data, of the whole process."`
	Data      string     `help:"Folder for the data; without it, nothing is kept."`
	AllowHTTP []string   `name:"allow-http" help:"Host that the workflow may request; repeatable." placeholder:"HOST" type:"http"`
	Secrets   source     `help:"Secrets as a JSON object of strings: file:PATH, env:NAME or command:PROGRAM." placeholder:"SOURCE"`

	EncryptionKeys source `help:"Keys that encrypt --data, as for serve." env:"WFHOST_ENCRYPTION_KEYS" placeholder:"SOURCE"`

	AllowSecret []string `sep:"none" help:"Secret that it may send there; repeatable." placeholder:"NAME=HOST,HEADER" type:"secret"`

	inputFlags
	handlerFlags
	workerFlags

	Drain time.Duration `help:"How long SIGTERM waits for steps that are going on; 0 does not wait." default:"10s"`
	Quiet bool          `short:"q" help:"Print nothing but the result."`
}

func (c *runCmd) Run(g *globals) (err error) {
	if err := c.checkWorkers(c.SkipSleep); err != nil {
		return &exitCode{exitUsage, err}
	}
	input, err := c.read(g)
	if err != nil {
		return err
	}
	wasm, name, err := module(g.ctx, c.Path)
	if err != nil {
		return err
	}
	dir := c.Data
	if dir == "" {
		dir, err = os.MkdirTemp("", "wfhost-run-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }() // a leftover in a temporary folder
	}
	logger := slog.New(slog.NewTextHandler(g.io.err, nil))
	secret, err := g.openSecrets(c.Secrets, logger)
	if err != nil {
		return err
	}
	codec, err := c.EncryptionKeys.keyring(g)
	if err != nil {
		return err
	}
	w := newWaits()
	cfg := host.Config{Dir: dir, Clock: g.io.clock, Drain: drainOf(c.Drain), SkipSleeps: c.SkipSleep && c.Data == "",
		Compiler: host.SelfCompiler(), Secrets: secret, Codec: codec, Events: host.Events{RunCommitted: w.tell}}
	if c.Data == "" {
		cfg.CacheDir, cfg.CacheBytes = compiledModules(codec), compiledBytes
	}
	h, err := host.Open(g.ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	known, err := c.register(g, h, c.WorkerHandler)
	if err != nil {
		return err
	}
	if isDefinition(c.Path) {
		c.unhandled(g, known, w)
	}
	ctx, stop := context.WithCancel(g.ctx)
	own := *g
	own.ctx = ctx
	done := make(chan error, 1)
	go func() {
		done <- c.work(own, h, dir)
		stop() // ends following the run: the store may have failed, or the address is in use
	}()
	err = c.perform(&own, h, w, name, wasm, input)
	stop()
	failed := <-done
	if failed != nil && g.ctx.Err() == nil {
		return failed
	}
	return errors.Join(err, failed)
}

// perform starts the run, shows it and prints its result.
func (c *runCmd) perform(g *globals, h *host.Host, w *waits, name string, wasm, input []byte) error {
	ns, err := h.Namespace(g.ctx, g.Namespace)
	if err != nil {
		return err
	}
	run, err := c.start(g, ns, name, wasm, input)
	if err != nil {
		return err
	}
	if c.SkipSleep && c.Data != "" { // other runs, schedules and the retention keep their clock
		ctx, stop := context.WithCancel(g.ctx)
		defer stop()
		go func() { // it ends with the run, the host or ctx, whose errors say more
			if err := ns.SkipSleeps(ctx, run.ID); err != nil && ctx.Err() == nil && !errors.Is(err, host.ErrClosed) {
				_, _ = fmt.Fprintf(g.io.err, "wfhost: sleeps are not skipped any more: %s\n", indented(err.Error()))
			}
		}()
	}
	if c.Quiet {
		ctx, stop := context.WithCancel(g.ctx)
		var said sync.WaitGroup
		said.Go(func() { w.print(ctx, g) })
		defer said.Wait()
		defer stop()
	} else if err := g.follow(ns, run.ID, w, c.keep(run.ID)); err != nil {
		return err
	}
	result, err := ns.ResultRaw(g.ctx, run.ID)
	if err != nil {
		return withStack(err)
	}
	return printResult(g.io.out, result)
}

// withStack adds the stack to the error of a failed run if its language provides one.
func withStack(err error) error {
	run, ok := errors.AsType[*host.RunError](err)
	if !ok {
		return err
	}
	var failure struct {
		Stack string `json:"stack"`
	}
	if json.Unmarshal(run.JSON, &failure) != nil || failure.Stack == "" {
		return err
	}
	return fmt.Errorf("%w\n%s", err, failure.Stack)
}

// keep says how to continue an interrupted run, or how to keep the next one so that it can be continued.
func (c *runCmd) keep(id string) string {
	if c.Data == "" {
		return fmt.Sprintf(", and is lost, because without --data nothing is kept. To keep the next one and continue it, run: "+
			"wfhost run %s --data DIR --id %s", c.Path, cmp.Or(c.ID, "NAME"))
	}
	return fmt.Sprintf(", and is kept. To continue it, run with the same input: wfhost run %s --data %s --id %s", c.Path, c.Data, id)
}

// unhandled reports steps of a definition that call handlers which this process lacks, so that a run would wait there. It is
// not an error, since a run may never reach them.
func (c *runCmd) unhandled(g *globals, known map[string]bool, w *waits) {
	f, err := g.readDefinition(c.Path)
	if err != nil {
		return // it was read before, which would have reported the error
	}
	or := "or"
	if c.SkipSleep {
		or = "or, without --skip-sleep,"
	}
	for _, name := range f.d.Handlers() {
		if known[name] || !w.first(name) {
			continue
		}
		steps := f.d.Callers(name)
		what := fmt.Sprintf("the step %q calls", steps[0])
		if len(steps) > 1 {
			what = fmt.Sprintf("the steps %q and %d more call", steps[0], len(steps)-1)
		}
		_, _ = fmt.Fprintf(g.io.err, "%s: %s the handler %s, which is not there: the run will wait for it; to add it: "+
			"--handler %[3]s=URL --handler-secret SOURCE, %[4]s --worker-handler %[3]s\n", c.Path, oneLine(what), oneLine(name), or)
	}
}

func (c *runCmd) start(g *globals, h *host.Namespace, name string, wasm, input []byte) (host.Run, error) {
	if c.Workflow != "" {
		name = c.Workflow
	}
	grants := []host.UploadOption{host.AllowStep("*"), host.AllowHTTP(c.AllowHTTP...)}
	for _, text := range c.AllowSecret {
		grants = append(grants, host.AllowSecretText(text))
	}
	versions, err := h.UploadAll(g.ctx, name, wasm, grants...)
	if errors.Is(err, host.ErrInvalid) && c.Workflow == "" {
		versions, err = h.UploadAll(g.ctx, "", wasm, grants...)
	}
	if err != nil {
		return host.Run{}, err
	}
	v := versions[0]
	for _, other := range versions {
		if other.Workflow == name {
			v = other
		}
	}
	if len(versions) > 1 && v.Workflow != name {
		return host.Run{}, &exitCode{exitUsage, fmt.Errorf("the module has several workflows, choose one with --workflow: %s",
			strings.Join(workflowsOf(versions), ", "))}
	}
	var opts []host.StartOption
	if c.ID != "" {
		opts = append(opts, host.WithRunID(c.ID))
	}
	return h.StartRaw(g.ctx, v.Workflow, input, opts...)
}

// printResult prints a result with a trailing newline: unchanged for programs, escaped for a terminal.
func printResult(w io.Writer, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if terminal(w) {
		b = []byte(printable(string(b)))
	}
	if b[len(b)-1] != '\n' {
		b = append(b, '\n')
	}
	_, err := w.Write(b)
	return err
}

// terminal reports whether a writer is a terminal.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// follow shows the progress of a run on the error output until the run ends: its entries, its log, the handlers that runs wait
// for, and on a terminal a countdown while it sleeps. keep is the message for an interrupt.
func (g *globals) follow(h *host.Namespace, id string, w *waits, keep string) error {
	f := &follower{g: g, h: h, id: id, tty: terminal(g.io.err)}
	changed, stop := h.Watch(id)
	defer stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		r, err := h.Get(g.ctx, id)
		if err != nil {
			return err
		}
		if err := f.show(); err != nil {
			return err
		}
		if r.Status.Terminal() || r.Status == host.Stuck {
			f.clear()
			return nil
		}
		f.countdown(r)
		select {
		case <-changed:
		case <-tick.C:
		case text := <-w.say:
			if err := f.show(); err != nil { // first the entries that led there
				return err
			}
			f.clear()
			_, _ = fmt.Fprintf(g.io.err, "wfhost: %s\n", text)
		case <-g.ctx.Done():
			f.clear()
			return &exitCode{exitInterrupted, fmt.Errorf("interrupted; run %s is %s%s", id, r.Status, keep)}
		}
	}
}

type follower struct {
	g     *globals
	h     *host.Namespace
	id    string
	tty   bool
	shown bool // a countdown is on the screen
	next  store.Seq
	logs  uint64
}

func (f *follower) show() error {
	lines, err := f.h.Logs(f.g.ctx, f.id, f.logs, 1000)
	if err != nil {
		return err
	}
	for e, err := range f.h.Journal(f.g.ctx, f.id, f.next) {
		if err != nil {
			return err
		}
		f.clear()
		for len(lines) > 0 && lines[0].UnixMs < e.UnixMs {
			f.line(lines[0])
			lines = lines[1:]
		}
		f.next = e.Seq + 1
		if e.Kind != store.KindActivated {
			_, _ = fmt.Fprintln(f.g.io.err, story(e))
		}
	}
	for _, l := range lines {
		f.clear()
		f.line(l)
	}
	return nil
}

func (f *follower) line(l host.LogLine) {
	f.logs = l.Index + 1
	who := ""
	if l.Step != "" {
		who = "[" + l.Step + "] "
	}
	_, _ = fmt.Fprintf(f.g.io.err, "%s  log       %s%s\n", clockTime(l.UnixMs), oneLine(who), indented(l.Text))
}

func clockTime(unixMs int64) string {
	return zoned(abi.TimeOf(unixMs)).Format("2006-01-02 15:04:05.000")
}

// story describes an entry for people.
func story(e host.Entry) string {
	at := clockTime(e.UnixMs)
	name := oneLine(fmt.Sprintf("%q", e.Name))
	switch e.Kind {
	case store.KindStarted:
		return fmt.Sprintf("%s  started   %s", at, oneLine(e.Name))
	case store.KindSleep:
		if e.Refused == 0 {
			return fmt.Sprintf("%s  sleep     %s until %s (%s)", at, name, clockTime(e.DueUnixMs),
				abi.FormatDuration(max(e.DueUnixMs, e.UnixMs)-e.UnixMs))
		}
	case store.KindBody:
		return fmt.Sprintf("%s  step      %s", at, name)
	case store.KindStep:
		return fmt.Sprintf("%s  step      %s by %s", at, name, oneLine(e.Target))
	case store.KindClock:
		return at + "  woke      from a sleep or timer of the program"
	}
	return oneLine(fmt.Sprintf("%s  %-8s  %s", at, verbs[e.Kind], details(httpapi.EntryOf(e), short)))
}

// verbs are single words for the most common entries.
var verbs = map[store.Kind]string{store.KindTimer: "woke", store.KindStepResult: "result", store.KindStepFailure: "failed",
	store.KindAttemptFailed: "retry", store.KindAttemptStarted: "attempt",
	store.KindProgress: "progress", store.KindNow: "now", store.KindClockSet: "clock set", store.KindWithdraw: "withdraw",
	store.KindCompleted: "completed", store.KindFailed: "failed", store.KindCancelled: "cancelled",
	store.KindTerminated: "ended", store.KindSleep: "sleep", store.KindChild: "child", store.KindChildResult: "result",
	store.KindChildFailure: "failed", store.KindSignalWait: "wait for", store.KindSignalAccepted: "signal",
	store.KindSignal: "taken", store.KindSignalTimeout: "time-out", store.KindSignalSend: "send", store.KindSignalSent: "sent",
	store.KindHook: "hook", store.KindHookReady: "token", store.KindEmit: "output", store.KindAttribute: "attribute",
	store.KindCancelPolicy: "policy", store.KindMarker: "version", store.KindContinue: "continue", store.KindCancel: "cancel",
	store.KindContinued: "continued", store.KindPaused: "paused", store.KindUnpaused: "unpaused", store.KindRetried: "retried",
	store.KindUpdateReply: "answer", store.KindMigrated: "migrated", store.KindMoved: "moved", store.KindAdopted: "adopted"}

// countdown shows on a terminal how long the run still sleeps.
func (f *follower) countdown(r host.Run) {
	if !f.tty || r.Wake.IsZero() {
		return
	}
	f.clear()
	left := time.Until(r.Wake).Truncate(time.Second)
	_, _ = fmt.Fprintf(f.g.io.err, "sleeping, wakes in %s; no instance is alive", duration(left))
	f.shown = true
}

func (f *follower) clear() {
	if f.shown {
		_, _ = fmt.Fprint(f.g.io.err, "\r\x1b[K")
		f.shown = false
	}
}
