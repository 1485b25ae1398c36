package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// commands returns the names of all commands.
func commands() []string {
	var names []string
	t := reflect.TypeFor[cli]()
	for field := range t.Fields() {
		if _, ok := field.Tag.Lookup("cmd"); ok && field.Tag.Get("hidden") == "" {
			name := field.Tag.Get("name")
			if name == "" {
				name = strings.ToLower(field.Name)
			}
			names = append(names, name)
		}
	}
	return names
}

// The scripts call "wfhost complete -- WORD…" with the words behind wfhost; the last word is the one to complete. The command
// prints the candidates, one per line. If there are none, the shell completes file names.
const (
	bashScript = `_wfhost() {
  local IFS=$'\n'
  COMPREPLY=($(compgen -W "$(wfhost complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}"))
  [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -F _wfhost wfhost
`
	zshScript = `#compdef wfhost
_wfhost() {
  local -a found
  found=("${(@f)$(wfhost complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  [[ -n "$found" ]] && compadd -a found || _files
}
compdef _wfhost wfhost
`
	fishScript = `complete -c wfhost -a '(wfhost complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
`
)

func (c *completionCmd) Run(g *globals) error {
	script := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[c.Shell]
	_, err := fmt.Fprint(g.io.out, script)
	return err
}

type completeCmd struct {
	Words []string `arg:"" optional:"" passthrough:"" help:"The words, of which the last one is to be completed."`
}

// Limits of a completion, since the shell waits for it.
const (
	completeWithin = 2 * time.Second
	completeIDs    = 100 // of the newest runs
)

func (c *completeCmd) Run(g *globals, k *kong.Kong) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		words = []string{""}
	}
	last := words[len(words)-1]
	for _, text := range g.completions(k.Model.Node, words[:len(words)-1], last) {
		if strings.HasPrefix(text, last) {
			_, _ = fmt.Fprintln(g.io.out, text)
		}
	}
	return nil
}

// completions returns the candidates for the word last, which follows words. Some may not begin with last: the caller drops them.
func (g *globals) completions(node *kong.Node, words []string, last string) []string {
	var awaits *kong.Flag // the flag whose value comes next
	args := 0             // arguments of the command so far
	for _, word := range words {
		name, value, given := strings.Cut(strings.TrimLeft(word, "-"), "=")
		switch {
		case awaits != nil:
			g.remember(awaits, word)
			awaits = nil
		case strings.HasPrefix(word, "-"):
			if f := flagOf(node, name); f != nil && given {
				g.remember(f, value)
			} else if f != nil && !f.IsBool() {
				awaits = f
			}
		case child(node, word) != nil:
			node = child(node, word)
		default:
			args++
		}
	}
	switch {
	case awaits != nil:
		return valuesOf(awaits)
	case strings.HasPrefix(last, "-"):
		return flagNames(node)
	case len(node.Children) > 0:
		return childNames(node)
	case args < len(node.Positional) && node.Positional[args].Name == "run":
		return g.runIDs()
	case args < len(node.Positional) && node.Positional[args].Enum != "":
		return strings.Split(node.Positional[args].Enum, ",")
	case args < len(node.Positional) && node.Positional[args].Name == "workflow":
		return g.workflowNames()
	}
	return nil
}

// remember applies the flags that select the server.
func (g *globals) remember(f *kong.Flag, value string) {
	switch f.Name {
	case "server":
		if server, err := withScheme(value); err == nil {
			g.Server = server
		}
	case "env":
		if e, err := readEnvironment(value); err == nil {
			g.Env, g.Server, g.Namespace, g.Token, g.TokenFile, g.CA = value, e.Server, e.Namespace, e.Token, e.TokenFile, e.CA
		}
	case "namespace":
		g.Namespace = value
	case "token":
		g.Token = value
	case "token-file":
		g.TokenFile = value
	case "ca":
		g.CA = value
	}
}

func child(node *kong.Node, name string) *kong.Node {
	for _, c := range node.Children {
		if c.Type == kong.CommandNode && c.Name == name {
			return c
		}
	}
	return nil
}

func childNames(node *kong.Node) (names []string) {
	for _, c := range node.Children {
		if c.Type == kong.CommandNode && !c.Hidden {
			names = append(names, c.Name)
		}
	}
	return names
}

// flagOf returns a flag of a command, or of all commands, by name or letter; nil if there is none.
func flagOf(node *kong.Node, name string) *kong.Flag {
	for _, group := range node.AllFlags(false) {
		for _, f := range group {
			if f.Name == name || f.Short != 0 && string(f.Short) == name {
				return f
			}
		}
	}
	return nil
}

func flagNames(node *kong.Node) (names []string) {
	for _, group := range node.AllFlags(true) {
		for _, f := range group {
			names = append(names, "--"+f.Name)
		}
	}
	slices.Sort(names)
	return names
}

// valuesOf returns the possible values of a flag, none if they are not enumerable.
func valuesOf(f *kong.Flag) []string {
	switch {
	case f.Name == "status":
		return runStatuses()
	case f.Name == "env":
		return environmentNames()
	case f.Enum != "":
		return strings.Split(f.Enum, ",")
	}
	return nil
}

// ask reads a list for a completion and ignores errors.
func (g *globals) ask(path string, query url.Values, into any) {
	ctx, stop := context.WithTimeout(g.ctx, completeWithin)
	defer stop()
	_, _, _ = g.callContext(ctx, http.MethodGet, path, query, nil, into)
}

// runIDs returns the ids of the newest runs.
func (g *globals) runIDs() (ids []string) {
	var runs []host.Run
	g.ask("/v1/runs", url.Values{"limit": {fmt.Sprint(completeIDs)}}, httpapi.ItemsOf(&runs))
	for _, r := range runs {
		ids = append(ids, r.ID)
	}
	return ids
}

func (g *globals) workflowNames() (names []string) {
	var versions []host.Version
	g.ask("/v1/workflows", nil, httpapi.ItemsOf(&versions))
	for _, v := range versions {
		names = append(names, v.Workflow)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
