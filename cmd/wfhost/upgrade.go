package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
)

type checkCmd struct {
	Path     string `arg:"" help:"${program}"`
	Workflow string `help:"Workflow whose runs are replayed; default: the only one in the module, else the name of the path."`
	Ended    string `help:"Also runs that have ended within this time, such as 30d." placeholder:"DURATION" type:"duration"`
	CPU      string `name:"cpu" help:"What the replay of one run may compute, about." default:"10s" type:"cpu"`
	Parallel int    `help:"Runs that are replayed at a time; default: half of the processors." type:"parallel"`
	Data     string `help:"Folder of a server that does not run, or a backup; else the server is asked." aliases:"dir" xor:"of"`
	Runs     string `help:"Folder of exported runs (*.wfrun); else the server is asked." xor:"of" placeholder:"DIR"`

	EncryptionKeys source `help:"Keys of encrypted data, with --data." env:"WFHOST_ENCRYPTION_KEYS" placeholder:"SOURCE"`
}

func (c *checkCmd) Run(g *globals) error {
	wasm, fileName, err := module(g.ctx, c.Path)
	if err != nil {
		return err
	}
	once := c.remote
	switch {
	case c.Data != "":
		once = c.local
	case c.Runs != "":
		once = c.folder
	}
	name := c.Workflow
	out := &checkPrinter{g: g}
	err = once(g, name, wasm, out)
	if err != nil && c.Workflow == "" && !out.begun { // retry with the name from the path
		again := once(g, fileName, wasm, out)
		if again == nil || out.begun || strings.Contains(err.Error(), unnamed) {
			err = again
		}
	}
	if err != nil {
		return err
	}
	return out.end()
}

// remote checks on the server.
func (c *checkCmd) remote(g *globals, workflow string, wasm []byte, out *checkPrinter) error {
	if workflow == "" {
		workflow = "-"
	}
	q := url.Values{"cpu": {c.CPU}}
	if c.Ended != "" {
		q.Set("ended", c.Ended)
	}
	if c.Parallel != 0 {
		q.Set("parallel", strconv.Itoa(c.Parallel))
	}
	return out.receive("/v1/workflows/"+segment(workflow)+"/check", q, http.Header{"Content-Type": {"application/wasm"}}, wasm)
}

// local checks the runs in data that no server has open.
func (c *checkCmd) local(g *globals, workflow string, wasm []byte, out *checkPrinter) error {
	codec, err := c.EncryptionKeys.keyring(g)
	if err != nil {
		return err
	}
	opts := host.CheckOptions{Parallel: c.Parallel, Each: out.report, Progress: func(_, total int64) { out.total = total }}
	opts.CPU, err = period("--cpu", c.CPU)
	if err != nil {
		return err
	}
	opts.Ended, err = period("--ended", c.Ended)
	if err != nil {
		return err
	}
	cfg := host.Config{Clock: g.io.clock, CacheDir: compiledModules(codec), CacheBytes: compiledBytes,
		Compiler: host.SelfCompiler(), Codec: codec}
	sum, err := host.CheckData(g.ctx, c.Data, cfg, g.Namespace, workflow, wasm, opts)
	if errors.Is(err, host.ErrLocked) {
		return fmt.Errorf("%w: leave --data out to ask the server, or check a backup: wfhost backup PLACE, wfhost check --data PLACE",
			err)
	}
	out.summary = &sum
	return err
}

// folder checks exported runs.
func (c *checkCmd) folder(g *globals, workflow string, wasm []byte, out *checkPrinter) (err error) {
	if c.Ended != "" {
		return &exitCode{exitUsage, errors.New("--ended is not for --runs: all of the folder's runs are checked")}
	}
	opts := host.CheckOptions{Parallel: c.Parallel, Each: out.report, Progress: func(_, total int64) { out.total = total }}
	opts.CPU, err = period("--cpu", c.CPU)
	if err != nil {
		return err
	}
	h, closed, err := g.replayHost()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closed()) }()
	sum, err := h.Workflows().CheckArchives(g.ctx, c.Runs, workflow, wasm, opts)
	out.summary = &sum
	return absent(err)
}

// period parses duration text of a flag; empty means zero.
func period(flag, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := wholeDuration(text)
	if err != nil {
		return 0, &exitCode{exitUsage, fmt.Errorf("%s: %w", flag, err)}
	}
	return d, nil
}

type migrateCmd struct {
	Workflow string   `arg:"" help:"Name of the workflow."`
	To       uint32   `help:"Version under which the runs go on." required:"" placeholder:"N" type:"number"`
	From     uint32   `help:"Only runs of this version." placeholder:"N"`
	RunID    []string `name:"run" help:"Only this run; repeatable." placeholder:"ID"`
	DryRun   bool     `help:"Only say which runs are compatible."`
	CPU      string   `name:"cpu" help:"What the replay of one run may compute, about." default:"10s" type:"cpu"`
	Parallel int      `help:"Runs that are replayed at a time; default: half of the processors." type:"parallel"`
}

func (c *migrateCmd) Run(g *globals) error {
	return g.migrateRuns(c.Workflow,
		httpapi.MigrateRequest{To: c.To, From: c.From, Runs: c.RunID, DryRun: c.DryRun, CPU: c.CPU, Parallel: c.Parallel})
}

// migrateRuns migrates the runs of a workflow on the server.
func (g *globals) migrateRuns(workflow string, r httpapi.MigrateRequest) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	out := &checkPrinter{g: g}
	if err := out.receive("/v1/workflows/"+segment(workflow)+"/migrate", nil, nil, body); err != nil {
		return err
	}
	return out.end()
}

// checkPrinter prints the reports of a check or migration as they arrive, with progress on a terminal.
type checkPrinter struct {
	g       *globals
	begun   bool // a report was printed
	done    int64
	total   int64
	summary *host.CheckSummary
	shown   time.Time // when progress was last shown
}

// receive reads the JSON Lines of the server.
func (p *checkPrinter) receive(path string, q url.Values, header http.Header, body []byte) error {
	g := p.g
	stream, err := g.stream(g.ctx, http.MethodPost, path, q, header, body)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }() // the stream has been read
	lines := bufio.NewReader(stream)
	for {
		text, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(text) == 0 && p.summary != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the server at %s has cut its answer, see its log: %w", g.Server, errors.Join(err, context.Cause(g.ctx)))
		}
		var line httpapi.CheckLine
		if err := json.Unmarshal(text, &line); err != nil {
			return fmt.Errorf("answer of %s: %w", g.Server, err)
		}
		switch {
		case line.Total != nil:
			p.total = *line.Total
		case line.Run != nil:
			err = p.report(*line.Run)
		case line.Summary != nil:
			p.summary = line.Summary
		}
		if err != nil {
			return err
		}
	}
}

// report prints one report.
func (p *checkPrinter) report(r host.RunCheck) error {
	p.begun = true
	p.done++
	p.clear()
	var err error
	switch p.g.Format {
	case "json":
		err = p.jsonLine(r)
	case "ids":
		if r.Outcome == host.CheckDiverges || r.Outcome == host.CheckNotChecked {
			_, err = fmt.Fprintln(p.g.io.out, oneLine(r.RunID))
		}
	default:
		_, err = fmt.Fprintln(p.g.io.out, oneLine(checkText(&r)))
	}
	p.progress()
	return err
}

// checkText returns a report as one line.
func checkText(r *host.RunCheck) string {
	what := string(r.Outcome)
	switch {
	case r.Outcome == host.CheckDiverges:
		what = r.Reason
	case r.Outcome == host.CheckNotChecked:
		what = "not checked: " + r.Reason
	case len(r.Notes) > 0:
		what += " (" + strings.Join(r.Notes, "; ") + ")"
	}
	if r.Version == 0 { // there is no such run
		return fmt.Sprintf("%s  %s", r.RunID, what)
	}
	return fmt.Sprintf("%s  version %d, %s, %s: %s", r.RunID, r.Version, r.Status, plural(r.Entries, "entry"), what)
}

// jsonLine prints a value as one line of JSON.
func (p *checkPrinter) jsonLine(v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		_, err = p.g.io.out.Write(append(printableJSON(b), '\n'))
	}
	return err
}

// progressEvery is the interval between updates of the progress.
const progressEvery = 100 * time.Millisecond

// progress shows the progress on a terminal.
func (p *checkPrinter) progress() {
	if !terminal(p.g.io.err) || time.Since(p.shown) < progressEvery {
		return
	}
	p.shown = time.Now()
	_, _ = fmt.Fprintf(p.g.io.err, "\r\x1b[K%d of about %d runs", p.done, max(p.total, p.done))
}

// clear erases the progress line.
func (p *checkPrinter) clear() {
	if !p.shown.IsZero() {
		_, _ = fmt.Fprint(p.g.io.err, "\r\x1b[K")
	}
}

// end prints the summary. It returns an error if not all runs are compatible.
func (p *checkPrinter) end() error {
	p.clear()
	s := p.summary
	var err error
	switch p.g.Format {
	case "json":
		err = p.jsonLine(map[string]any{"summary": s})
	case "ids":
	default:
		_, err = fmt.Fprintln(p.g.io.out, oneLine(summaryText(s)))
	}
	if err == nil && !s.Fits() {
		err = &exitCode{exitError, errors.New(unfitText(s))}
	}
	return err
}

// unfitText describes how many runs are incompatible or could not be checked.
func unfitText(s *host.CheckSummary) string {
	var parts []string
	if s.Diverging > 0 {
		verb := "diverge"
		if s.Diverging == 1 {
			verb = "diverges"
		}
		parts = append(parts, fmt.Sprintf("%d of %s of %s %s", s.Diverging, plural(s.Runs, "run"), s.Workflow, verb))
	}
	if s.NotChecked > 0 {
		parts = append(parts, fmt.Sprintf("%d of %s of %s could not be checked", s.NotChecked, plural(s.Runs, "run"), s.Workflow))
	}
	return strings.Join(parts, ", ")
}

func summaryText(s *host.CheckSummary) string {
	parts := []string{fmt.Sprintf("%s: %s", s.Workflow, plural(s.Runs, "run"))}
	if s.Version != 0 {
		parts[0] = fmt.Sprintf("%s@%d: %s", s.Workflow, s.Version, plural(s.Runs, "run"))
	}
	for _, n := range []struct {
		count int64
		what  string
	}{{s.Migrated, "migrated"}, {s.Unchanged, "already on this version"}, {s.Compatible, "compatible"}, {s.Diverging, "diverge"},
		{s.NotChecked, "not checked"}} {
		if n.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n.count, n.what))
		}
	}
	return strings.Join(parts, ", ")
}
