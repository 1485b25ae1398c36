package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/definition"
	definitionmodule "github.com/wfhost/wfhost/definition/module"
	"github.com/wfhost/wfhost/definition/schema"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
)

type defineCmd struct {
	Path   string `arg:"" optional:"" help:"A definition in JSON (.json) or YAML (.yaml, .yml), or - for standard input."`
	Check  bool   `help:"Only check it." xor:"what"`
	Graph  bool   `help:"Print it as a diagram of Mermaid." xor:"what"`
	Schema bool   `help:"Print the JSON Schema of definitions, for editors." xor:"what"`
	Out    string `short:"o" name:"out" help:"Write the module to this file in place of uploading it." xor:"what" placeholder:"FILE"`

	Interpreter string `help:"Module of the interpreter; default: that in wfhost, else built by Go." type:"path" placeholder:"FILE"`

	AllowStep   []string `help:"Handler of the host that the workflow may call; repeatable, * for all."`
	AllowHTTP   []string `name:"allow-http" help:"Host it may request, [scheme://]host[:port]." placeholder:"HOST" type:"http"`
	AllowSecret []string `sep:"none" help:"Secret that it may send there; repeatable." placeholder:"NAME=HOST,HEADER" type:"secret"`
	Migrate     bool     `help:"Then have the live runs that fit the new version go on under it, and list the others."`
}

func (c *defineCmd) Run(g *globals) error {
	if c.Schema {
		_, err := g.io.out.Write(schema.Text)
		return err
	}
	if c.Path == "" {
		return &exitCode{exitUsage, errors.New("a file with a definition is needed, or --schema")}
	}
	f, err := g.readDefinition(c.Path)
	if err != nil {
		return err
	}
	for _, w := range f.d.Warnings {
		_, _ = fmt.Fprintf(g.io.err, "%s:%d: %s: warning: %s\n", c.Path, w.Line, w.Pointer, oneLine(w.Message))
	}
	switch {
	case c.Check:
		return c.say(g, f)
	case c.Graph:
		_, err := fmt.Fprint(g.io.out, printable(f.d.Mermaid()))
		return err
	}
	wasm, err := f.module(g.ctx, c.Interpreter)
	if err != nil {
		return err
	}
	if c.Out != "" {
		if err := os.WriteFile(c.Out, wasm, 0o644); err != nil {
			return err
		}
		_, err := fmt.Fprintf(g.io.out, "%s  %d bytes  workflow: %s\n", c.Out, len(wasm), f.d.Name)
		return err
	}
	up := uploadCmd{Path: c.Path, AllowStep: c.AllowStep, AllowHTTP: c.AllowHTTP, AllowSecret: c.AllowSecret, Migrate: c.Migrate}
	versions, err := up.put(g, wasm, f.d.Name)
	for _, v := range versions {
		f.ungranted(g, v)
	}
	return err
}

// say describes a valid definition.
func (c *defineCmd) say(g *globals, f *definitionFile) error {
	if g.Format == "json" {
		return g.json(httpapi.DescriptionOf(f.d))
	}
	calls := ""
	if h := f.d.Handlers(); len(h) > 0 {
		calls = ", calls " + oneLine(strings.Join(h, ", "))
	}
	steps := "1 step"
	if n := len(f.d.Steps); n != 1 {
		steps = fmt.Sprint(n, " steps")
	}
	_, err := fmt.Fprintf(g.io.out, "%s: workflow %s, %s%s\n", c.Path, f.d.Name, steps, calls)
	return err
}

// ungranted lists the handlers that a definition calls but its version may not call. A run would fail there.
func (f *definitionFile) ungranted(g *globals, v host.Version) {
	var missing []string
	for _, h := range f.d.Missing(v.Steps) {
		missing = append(missing, "--allow-step "+h)
	}
	if len(missing) > 0 {
		_, _ = fmt.Fprintf(g.io.err, "%s@%d calls handlers that it may not call; to allow it: %s\n", v.Workflow, v.Number,
			oneLine(strings.Join(missing, " ")))
	}
}

// definitionFile is a valid definition that was read from a file.
type definitionFile struct {
	d    *definition.Definition
	json []byte
}

// isDefinition reports whether a path has the extension of a definition.
func isDefinition(path string) bool {
	return slices.Contains([]string{".json", ".yaml", ".yml"}, strings.ToLower(filepath.Ext(path)))
}

// readDefinition reads and checks a definition.
func (g *globals) readDefinition(path string) (*definitionFile, error) {
	text, err := func() ([]byte, error) {
		if path == "-" {
			return readBounded("standard input", g.io.in)
		}
		r, err := os.Open(path)
		if err != nil {
			return nil, &exitCode{exitNotFound, fmt.Errorf("%s: there is no such file", path)}
		}
		defer func() { _ = r.Close() }() // only read
		return readBounded(path, r)
	}()
	if err != nil {
		return nil, err
	}
	return parseDefinition(path, text)
}

// parseDefinition checks a definition. A .json file is JSON; everything else is YAML, which includes JSON.
func parseDefinition(path string, text []byte) (*definitionFile, error) {
	d, json, err := httpapi.ReadDefinition(text, strings.EqualFold(filepath.Ext(path), ".json"))
	if err != nil {
		var lines []string
		for _, f := range definition.AsFaults(err) {
			where := ""
			if f.Pointer != "" {
				where = f.Pointer + ": "
			}
			lines = append(lines, fmt.Sprintf("%s:%d: %s%s", path, f.Line, where, f.Message))
		}
		return nil, errors.New(strings.Join(lines, "\n"))
	}
	return &definitionFile{d: d, json: json}, nil
}

// module makes the module of a definition.
func (f *definitionFile) module(ctx context.Context, file string) ([]byte, error) {
	wasm, err := interpreter(ctx, file)
	if err != nil {
		return nil, err
	}
	return definitionmodule.Make(wasm, f.json)
}

// interpreterPackage is the guest that interprets definitions.
const interpreterPackage = "github.com/wfhost/wfhost/definition/interpreter"

// interpreter returns the interpreter: from a file if one is given, else the one built into this program. Without both it
// builds one from the folder where this program was built, or from the module of the current folder.
func interpreter(ctx context.Context, file string) ([]byte, error) {
	if file != "" {
		wasm, _, err := module(ctx, file)
		return wasm, err
	}
	if wasm, ok := definitionmodule.Interpreter(); ok {
		return wasm, nil
	}
	if _, source, _, ok := runtime.Caller(0); ok && filepath.IsAbs(source) {
		dir := filepath.Join(filepath.Dir(source), "..", "..", "definition", "interpreter")
		if _, err := os.Stat(dir); err == nil {
			return compile(ctx, dir)
		}
	}
	if _, err := exec.LookPath("go"); err == nil {
		if out, err := goCommand(ctx, ".", "list", "-f", "{{.Dir}}", interpreterPackage).Output(); err == nil {
			return compile(ctx, strings.TrimSpace(string(out)))
		}
	}
	return nil, errors.New("this wfhost has no interpreter of definitions in it (make build puts it in), and finds no source " +
		"to build it from: run it in a folder whose Go module requires github.com/wfhost/wfhost, or give a module by --interpreter")
}
