package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/wfhost/wfhost/definition"
	"github.com/wfhost/wfhost/definition/yamltext"
)

// maxConfigBytes bounds the file of --config. All flags of a server with hundreds of handlers are far smaller.
const maxConfigBytes = definition.MaxBytes

// configFile is a YAML or JSON file with flags of the command. The command line and the environment override it.
type configFile string

// BeforeResolve reads the file. kong calls it after parsing the command line.
func (configFile) BeforeResolve(ctx *kong.Context, trace *kong.Path) error {
	path, ok := ctx.FlagValue(trace.Flag).(configFile)
	if !ok || path == "" {
		return nil
	}
	if n := countOf(ctx, trace.Flag); n > 1 {
		return fmt.Errorf("--config is given %d times: one file has all flags, of which the command line may have others", n)
	}
	values, err := readConfig(string(path), ctx.Selected(), trace.Flag)
	if err != nil {
		return fmt.Errorf("--config %s: %w", path, err)
	}
	ctx.AddResolver(kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		set := func(name string) bool { _, ok := os.LookupEnv(name); return ok }
		if slices.ContainsFunc(flag.Envs, set) {
			return nil, nil
		}
		return values[flag], nil
	}))
	return nil
}

// countOf returns how often a flag occurs on the command line.
func countOf(ctx *kong.Context, flag *kong.Flag) (n int) {
	for _, p := range ctx.Path {
		if p.Flag == flag {
			n++
		}
	}
	return n
}

// readConfig reads values for the flags of a command: strings and lists of strings. The flag but, which names the file, is not
// allowed in it.
func readConfig(path string, of *kong.Node, but *kong.Flag) (map[*kong.Flag]any, error) {
	members, err := configMembers(path)
	if err != nil {
		return nil, err
	}
	values := map[*kong.Flag]any{}
	for _, m := range members {
		flag := ownFlag(of, m.Key)
		if flag == nil || flag == but {
			return nil, fmt.Errorf("line %d: %q is no flag of %s", m.Value.Line, m.Key, of.Name)
		}
		values[flag], err = configValue(m.Value, flag)
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", m.Value.Line, m.Key, err)
		}
	}
	return values, nil
}

// configMembers parses a file with flags.
func configMembers(path string) ([]definition.Member, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxConfigBytes {
		return nil, fmt.Errorf("it has more than %d bytes", maxConfigBytes)
	}
	top, err := yamltext.Read(text)
	if fault, ok := errors.AsType[*definition.Fault](err); ok {
		return nil, fmt.Errorf("line %d: %s", fault.Line, strings.Replace(fault.Message, "the definition", "the file", 1))
	}
	if err != nil {
		return nil, err
	}
	if top.Kind != definition.Object {
		return nil, fmt.Errorf("line %d: it should have flags and their values, such as drain: 30s, and is %s", top.Line, top.Kind)
	}
	return top.Members, nil
}

// configValue returns a value as on the command line, or a list for a repeatable flag.
func configValue(n *definition.Node, flag *kong.Flag) (any, error) {
	one := func(n *definition.Node) bool {
		return n.Kind == definition.Text || n.Kind == definition.Number || n.Kind == definition.Bool
	}
	for _, item := range append([]*definition.Node{n}, n.Items...) {
		if item.Kind == definition.Number && takesText(flag) {
			return nil, fmt.Errorf("it should be a text, and is a number, which is read as %s: write it in quotes", item.Text)
		}
	}
	switch {
	case one(n) && !flag.IsCumulative():
		return n.Text, nil
	case !flag.IsCumulative():
		return nil, fmt.Errorf("it should be one value, and is %s", n.Kind)
	case one(n):
		return []any{n.Text}, nil
	case n.Kind != definition.List:
		return nil, fmt.Errorf("it should be a value or a list of values, and is %s", n.Kind)
	}
	list := []any{}
	for _, item := range n.Items {
		if !one(item) {
			return nil, fmt.Errorf("it should be a list of values, and has %s in it", item.Kind)
		}
		list = append(list, item.Text)
	}
	return list, nil
}

// takesText reports whether a flag takes one or several strings. A number in YAML would lose digits: a folder 1.10 becomes 1.1.
func takesText(flag *kong.Flag) bool {
	t := flag.Target.Type()
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t.Kind() == reflect.String
}
