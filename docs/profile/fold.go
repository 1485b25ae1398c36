package main

import (
	"bufio"
	"errors"
	"io"
	"regexp"
	"strings"
	"time"
)

// frame is a function in all stacks that are the same up to it.
type frame struct {
	name   string
	time   time.Duration // of the stacks that hold it
	callee map[string]*frame
}

// add counts a stack, its outermost function last.
func (f *frame) add(stack []string, d time.Duration) {
	f.time += d
	if len(stack) == 0 {
		return
	}
	name, rest := stack[len(stack)-1], stack[:len(stack)-1]
	if f.callee == nil {
		f.callee = map[string]*frame{}
	}
	if f.callee[name] == nil {
		f.callee[name] = &frame{name: name}
	}
	f.callee[name].add(rest, d)
}

// guestCode names what the profiler cannot look into: code that wazero compiled.
const guestCode = "the guest's own code"

// fold reads what go tool pprof -traces prints: stacks after lines of dashes, each begun by its time, which labels may
// precede.
func fold(r io.Reader) (*frame, error) {
	all := &frame{name: "all"}
	var stack []string
	var spent time.Duration
	end := func() {
		if len(stack) > 0 {
			if stack[0] == guestCode {
				stack = stack[:1] // its callers are not known
			}
			all.add(stack, spent)
		}
		stack = nil
	}
	begun := false
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		value, name, ok := strings.Cut(strings.TrimLeft(line, " "), "   ")
		switch d, err := time.ParseDuration(value); {
		case strings.HasPrefix(line, "-----"):
			end()
			begun = true
		case begun && len(stack) == 0 && ok && err == nil:
			stack, spent = []string{function(name)}, d
		case len(stack) > 0:
			stack = append(stack, function(strings.TrimSpace(line)))
		}
	}
	end()
	if all.time == 0 {
		return nil, errors.Join(lines.Err(), errors.New("it holds no stacks: want what go tool pprof -traces -unit ms prints"))
	}
	return all, lines.Err()
}

// typeArgs are those of a generic function, as innermost brackets.
var typeArgs = regexp.MustCompile(`\[[^][]*\]`)

// function gives a name without what no reader needs.
func function(name string) string {
	name = strings.TrimSuffix(name, " (inline)")
	for old := ""; old != name; {
		old, name = name, typeArgs.ReplaceAllString(name, "")
	}
	if name == "runtime._ExternalCode" {
		return guestCode
	}
	return strings.TrimPrefix(strings.TrimPrefix(name, "github.com/"), "wfhost/")
}
