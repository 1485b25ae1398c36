package main

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type configCmd struct {
	Check configCheckCmd `cmd:"" help:"Check files of serve --config: every name and value, and whether they go together."`
	Show  configShowCmd  `cmd:"" help:"Show each flag of serve with the value that it would have, and where that is from."`
}

type configCheckCmd struct {
	Files []string `arg:"" name:"file" help:"Files with flags of serve, in YAML or JSON." type:"path"`
}

// Run prints all mistakes in each file, and exits with exitUsage if there are any.
func (c *configCheckCmd) Run(g *globals) error {
	bad := 0
	for _, path := range c.Files {
		faults := g.checkConfig(path)
		for _, f := range faults {
			_, _ = fmt.Fprintf(g.io.err, "%s: %s\n", path, indented(f.Error()))
		}
		if len(faults) > 0 {
			bad++
			continue
		}
		if _, err := fmt.Fprintf(g.io.out, "%s: ok\n", path); err != nil {
			return err
		}
	}
	if bad > 0 {
		return &exitCode{exitUsage, fmt.Errorf("%d of %d files would be refused by wfhost serve --config", bad, len(c.Files))}
	}
	return nil
}

// checkConfig returns the mistakes in a file that can be found without opening the files it names or listening.
func (g *globals) checkConfig(path string) []error {
	parser, root, err := newParser(g.io, func(int) {})
	if err != nil {
		return []error{err}
	}
	serve := root.serve(parser)
	for _, f := range serve.Flags { // the check must not depend on this environment
		f.Envs, f.Tag.Envs = nil, nil
	}
	members, err := configMembers(path)
	if err != nil {
		return []error{err}
	}
	var faults []error
	var all []string
	for _, m := range members {
		flag := ownFlag(serve, m.Key)
		if flag == nil || flag.Name == "config" {
			faults = append(faults, fmt.Errorf("line %d: %w", m.Value.Line, unknownFlag(parser, serve, m.Key)))
			continue
		}
		value, err := configValue(m.Value, flag)
		if err != nil {
			faults = append(faults, fmt.Errorf("line %d: %s: %w", m.Value.Line, m.Key, err))
			continue
		}
		args := argsOf(flag, value)
		if err := parseServe(parser, root, args, (*serveCmd).checkEach); err != nil {
			faults = append(faults, fmt.Errorf("line %d: %w", m.Value.Line, err))
			continue
		}
		all = append(all, args...)
	}
	if len(faults) > 0 {
		return faults
	}
	if err := parseServe(parser, root, all, (*serveCmd).check); err != nil {
		return []error{err}
	}
	return nil
}

// parseServe parses flags of serve without the environment and checks them.
func parseServe(parser *kong.Kong, root *cli, args []string, check func(*serveCmd) error) error {
	root.Serve = serveCmd{}
	if _, err := parser.Parse(append([]string{"serve"}, args...)); err != nil {
		return err
	}
	return check(&root.Serve)
}

// argsOf returns a value of a file as command line arguments.
func argsOf(flag *kong.Flag, value any) []string {
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	args := make([]string, 0, len(list))
	for _, v := range list {
		args = append(args, fmt.Sprintf("--%s=%v", flag.Name, v))
	}
	return args
}

// unknownFlag returns the error for an unknown flag of serve, with a suggestion.
func unknownFlag(parser *kong.Kong, serve *kong.Node, name string) error {
	err := fmt.Errorf("%q is no flag of serve", name)
	if name == "" || strings.ContainsAny(name, " =") {
		return err
	}
	_, unknown := parser.Parse([]string{"serve", "--" + name + "=x"})
	if unknown == nil {
		return err // a flag of all commands
	}
	if _, hint, ok := strings.Cut(unknown.Error(), "did you mean "); ok {
		guess := strings.Trim(strings.TrimRight(hint, "?"), `"`)
		if ownFlag(serve, strings.TrimPrefix(guess, "--")) != nil {
			return fmt.Errorf("%w; did you mean %q?", err, strings.TrimPrefix(guess, "--"))
		}
	}
	return err
}

// ownFlag returns a command's own flag by name, nil if there is none.
func ownFlag(of *kong.Node, name string) *kong.Flag {
	n := slices.IndexFunc(of.Flags, func(f *kong.Flag) bool { return f.Name == name })
	if n < 0 {
		return nil
	}
	return of.Flags[n]
}

type configShowCmd struct {
	Flags []string `arg:"" optional:"" passthrough:"all" help:"Flags as they are given to serve, --config among them."`
}

// setting is a flag of serve with its value.
type setting struct {
	Name  string `json:"name"`
	Value string `json:"value"` // as on the command line; values of a repeatable flag are separated by spaces
	From  string `json:"from"`  // flag, environment, file or default
}

// Run shows the settings that serve would use with the same flags and environment. It shows no secrets, since the flags of
// serve only say where secrets are.
func (c *configShowCmd) Run(g *globals) error {
	parser, root, err := newParser(g.io, func(int) {})
	if err != nil {
		return err
	}
	args := append([]string{"serve"}, c.Flags...)
	parsed, err := parser.Parse(args)
	if err == nil {
		err = root.Serve.check()
	}
	if err != nil {
		return &exitCode{exitUsage, err}
	}
	var inFile map[string]bool
	if root.Serve.Config != "" {
		inFile, err = namesIn(string(root.Serve.Config))
		if err != nil {
			return err
		}
	}
	given := map[string]bool{}
	for _, p := range parsed.Path {
		if p.Flag != nil && !p.Resolved {
			given[p.Flag.Name] = true
		}
	}
	list := []setting{}
	for _, f := range root.serve(parser).Flags {
		list = append(list, setting{Name: f.Name, Value: valueOf(f), From: fromOf(f, given, inFile)})
	}
	if g.Format == "json" {
		return g.json(list)
	}
	rows := make([][]string, 0, len(list))
	for _, s := range list {
		rows = append(rows, []string{s.Name, oneLine(s.Value), s.From})
	}
	return g.table("flag\tvalue\tfrom", rows)
}

// fromOf returns where the value of a flag comes from, in order of precedence.
func fromOf(f *kong.Flag, given, inFile map[string]bool) string {
	set := func(name string) bool { _, ok := os.LookupEnv(name); return ok }
	switch {
	case given[f.Name]:
		return "flag"
	case slices.ContainsFunc(f.Envs, set):
		return "environment"
	case inFile[f.Name]:
		return "file"
	}
	return "default"
}

func valueOf(f *kong.Flag) string {
	v := f.Target
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	if v.Kind() != reflect.Slice {
		return fmt.Sprint(v.Interface())
	}
	var all []string
	for i := range v.Len() {
		all = append(all, fmt.Sprint(v.Index(i).Interface()))
	}
	return strings.Join(all, " ")
}

func namesIn(path string) (map[string]bool, error) {
	members, err := configMembers(path)
	names := map[string]bool{}
	for _, m := range members {
		names[m.Key] = true
	}
	return names, err
}

// check refuses invalid flags and invalid combinations.
func (c *serveCmd) check() error {
	if err := errors.Join(c.checkListen(), c.checkMetrics(), c.traceFlags.check(), c.checkEach()); err != nil {
		return &exitCode{exitUsage, err}
	}
	return nil
}

// serve returns the model of the command serve.
func (*cli) serve(parser *kong.Kong) *kong.Node {
	for _, n := range parser.Model.Children {
		if n.Name == "serve" {
			return n
		}
	}
	return nil
}
