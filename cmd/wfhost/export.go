package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/wfhost/wfhost/client"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store/memstore"
)

type exportCmd struct {
	RunID string `arg:"" name:"run" help:"Id of the run."`
	File  string `arg:"" optional:"" help:"File that is written or replaced, - for standard output; default: RUN.wfrun."`

	WithoutModule   bool `help:"Leave the module out: tests replay the run against another one."`
	NewestIteration bool `help:"Of a run that has continued as new, leave out the journals of the iterations before the newest one."`
	Move            bool `help:"Set the run aside, so that it can go on where the file is imported."`
}

func (c *exportCmd) Run(g *globals) error {
	if c.File == "-" {
		return c.receive(g, g.io.out)
	}
	path := c.File
	if path == "" {
		path = c.RunID + host.ArchiveSuffix
	}
	if err := isFile(path); err != nil {
		return err
	}
	// A missing run or a broken connection leaves the old file unchanged. The new file has mode 0600.
	f, err := os.CreateTemp(filepath.Dir(path), ".wfrun-*")
	if err != nil {
		return err
	}
	err = errors.Join(c.receive(g, f), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	_, err = fmt.Fprintln(g.io.out, oneLine(path))
	if c.Move {
		_, _ = fmt.Fprintf(g.io.err, "%s is set aside: adopt it with wfhost import FILE --adopt, or take it back with wfhost unpause "+
			"%[1]s --moved\n", oneLine(c.RunID))
	}
	return err
}

// isFile refuses an existing path that is not a regular file. The rename would replace a device, and with a folder it would
// fail only after the run has been set aside.
func isFile(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Mode().IsRegular() {
		return nil //nolint:nilerr // what is not there is made, and creating it says what else is wrong
	}
	what := "no regular file"
	if info.IsDir() {
		what = "a folder"
	}
	return &exitCode{exitUsage, fmt.Errorf("<file> must be a file, or the name of a new one, got %q, which is %s", path, what)}
}

// receive receives the exported run from the server.
func (c *exportCmd) receive(g *globals, w io.Writer) error {
	if !c.Move {
		return g.receiveExport(http.MethodGet, c.RunID, "/export", c.query(), w)
	}
	err := g.receiveExport(http.MethodPost, c.RunID, "/move", c.query(), w)
	if e, ok := errors.AsType[*client.Error](err); err != nil && (!ok || e.Status >= http.StatusInternalServerError) { // it may be
		err = fmt.Errorf("%w; wfhost show %s says whether it is set aside: export it again, or take it back with wfhost unpause %[2]s "+
			"--moved", err, c.RunID)
	}
	return err
}

// query returns the options that reduce the export.
func (c *exportCmd) query() url.Values {
	q := withModule(!c.WithoutModule)
	if c.NewestIteration {
		q.Set("newest_iteration", "true")
	}
	return q
}

func withModule(module bool) url.Values {
	q := url.Values{}
	if !module {
		q.Set("module", "false")
	}
	return q
}

// receiveExport receives an export from the server.
func (g *globals) receiveExport(method, id, path string, q url.Values, w io.Writer) error {
	return g.download(g.ctx, method, runPath(id, path), q, nil, "export", w)
}

type replayCmd struct {
	Of     string `arg:"" name:"run" help:"File with an exported run, - for standard input, or id of a run of the server."`
	Module string `help:"Replay it against this .wasm file or Go folder; default: the module of the run." placeholder:"PATH"`
	Strict bool   `help:"With --module: inputs of steps and lengths of sleeps must be those of the journal, too."`
	Trace  bool   `help:"Show each call of the workflow, and what it got."`
}

func (c *replayCmd) Run(g *globals) (err error) {
	a, err := c.read(g)
	if err != nil {
		return err
	}
	opts := host.ReplayOptions{Strict: c.Strict}
	if c.Module != "" {
		opts.Module, _, err = module(g.ctx, c.Module)
		if err != nil {
			return err
		}
	}
	out := &checkPrinter{g: g}
	var failed error // of a write
	if c.Trace {
		opts.Trace = func(call host.TraceCall) {
			if failed == nil {
				failed = c.show(out, &call)
			}
		}
	}
	h, closed, err := g.replayHost()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closed()) }()
	r, err := h.ReplayArchive(g.ctx, a, opts)
	err = errors.Join(err, failed)
	if err != nil {
		return err
	}
	if err := out.report(r); err != nil {
		return err
	}
	switch r.Outcome {
	case host.CheckCompatible:
		return nil
	case host.CheckDiverges:
		return &exitCode{exitMismatch, fmt.Errorf("run %s: %s", r.RunID, r.Reason)}
	}
	return &exitCode{exitError, fmt.Errorf("run %s was not replayed to its end: %s", r.RunID, r.Reason)}
}

// show prints a call of the trace.
func (c *replayCmd) show(out *checkPrinter, call *host.TraceCall) error {
	switch out.g.Format {
	case "json":
		return out.jsonLine(call)
	case "ids":
		return nil
	}
	_, err := fmt.Fprintln(out.g.io.out, oneLine(fmt.Sprintf("%6d  %s(%s) = %s", call.Entry, call.Call, call.Asked, call.Got)))
	return err
}

// read reads the archive from a file, or exports a run from the server if there is no such file.
func (c *replayCmd) read(g *globals) (*host.Archive, error) {
	if c.Of == "-" {
		return host.ReadArchive(g.io.in)
	}
	f, err := os.Open(c.Of)
	if err == nil {
		a, err := host.ReadArchive(f)
		err = errors.Join(err, f.Close())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Of, err)
		}
		return a, nil
	}
	if !os.IsNotExist(err) {
		return nil, err
	}
	if strings.HasSuffix(c.Of, host.ArchiveSuffix) || strings.ContainsRune(c.Of, filepath.Separator) { // it is a path, not an id
		return nil, &exitCode{exitNotFound, fmt.Errorf("%s: there is no such file", c.Of)}
	}
	r, w := io.Pipe()
	go func() {
		w.CloseWithError(g.receiveExport(http.MethodGet, c.Of, "/export", withModule(c.Module == ""), w))
	}()
	a, err := host.ReadArchive(r)
	return a, errors.Join(err, r.Close())
}

// replayHost opens a host without runs for replaying archives. Their modules may be untrusted, so they are compiled in a
// separate process with limits.
func (g *globals) replayHost() (h *host.Host, closed func() error, err error) {
	dir, err := os.MkdirTemp("", "wfhost-replay-")
	if err != nil {
		return nil, nil, err
	}
	h, err = host.Open(g.ctx, host.Config{Dir: dir, CacheDir: compiledModules(nil), CacheBytes: compiledBytes,
		Store: memstore.New().Open(), Partitions: []int{}, Compiler: host.SelfCompiler()})
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return h, func() error { return errors.Join(h.Close(), os.RemoveAll(dir)) }, nil
}
