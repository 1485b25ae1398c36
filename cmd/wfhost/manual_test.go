package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A manualCommand is a command line of wfhost in the manual.
type manualCommand struct {
	at   string
	args []string
}

// words splits a line of shell into commands and words. It handles quotes, comments, pipes and redirections, and
// nothing else. A substitution $(…) is one word.
func words(line string) [][]string {
	var commands [][]string
	var args []string
	var word strings.Builder
	open, quote := false, rune(0)
	endWord := func() {
		if open {
			args = append(args, word.String())
		}
		word.Reset()
		open = false
	}
	endCommand := func() {
		endWord()
		if len(args) > 0 {
			commands = append(commands, args)
		}
		args = nil
	}
	depth := 0
	for _, r := range line {
		switch {
		case depth > 0:
			if r == ')' {
				depth--
			} else if r == '(' {
				depth++
			}
			word.WriteRune(r)
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, open = r, true
		case r == '(' && strings.HasSuffix(word.String(), "$"):
			depth++
			word.WriteRune(r)
		case r == '#' && !open:
			endCommand()
			return commands
		case strings.ContainsRune("|;&()", r):
			endCommand()
		case r == ' ' || r == '\t':
			endWord()
		default:
			word.WriteRune(r)
			open = true
		}
	}
	endCommand()
	return commands
}

// ofWfhost returns the arguments of a wfhost command, without leading assignments and trailing redirections.
func ofWfhost(command []string) ([]string, bool) {
	for len(command) > 0 && (regexp.MustCompile(`^[A-Z_]+=`).MatchString(command[0]) || command[0] == "$") {
		command = command[1:]
	}
	if len(command) > 0 && command[0] == "go" && slices.Contains(command, "./cmd/wfhost") && slices.Contains(command, "run") {
		command = command[slices.Index(command, "./cmd/wfhost"):]
		command[0] = "wfhost"
	}
	if len(command) == 0 || command[0] != "wfhost" {
		return nil, false
	}
	for i, w := range command {
		if strings.HasPrefix(w, ">") || strings.HasPrefix(w, "2>") || strings.HasPrefix(w, "<") {
			command = command[:i]
			break
		}
	}
	return command[1:], true
}

// documentedCommands returns the commands in the code blocks of a page.
func documentedCommands(page, text string) []manualCommand {
	var all []manualCommand
	fence := ""
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if strings.HasPrefix(line, "```") {
			if fence == "" {
				fence = line
			} else {
				fence = ""
			}
			continue
		}
		if !strings.HasPrefix(fence, "```sh") && fence != "```" && !strings.HasPrefix(line, "    ") {
			continue
		}
		at := fmt.Sprintf("%s:%d", page, i+1)
		for strings.HasSuffix(line, "\\") && i+1 < len(lines) {
			i++
			line = strings.TrimSuffix(line, "\\") + lines[i]
		}
		for _, command := range words(line) {
			if args, ok := ofWfhost(command); ok {
				all = append(all, manualCommand{at, args})
			}
		}
	}
	return all
}

// pages returns the texts of the manual's pages.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"../../*.md", "../../docs/*/*.md", "../../examples/*/README.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range found {
			b, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			all[strings.TrimPrefix(page, "../../")] = string(b)
		}
	}
	return all
}

// TestDocumentedCommands parses each command of the manual with wfhost's parser and runs none. TestTutorials runs the
// commands of tutorials, and the scripts in testdata run others. The rest need a server with the runs, keys or
// certificates of their page.
func TestDocumentedCommands(t *testing.T) {
	n := 0
	all := pages(t)
	for _, page := range slices.Sorted(maps.Keys(all)) {
		if page == "CHANGELOG.md" { // which may name what is no more
			continue
		}
		for _, d := range documentedCommands(page, all[page]) {
			n++
			var out bytes.Buffer
			helped := false
			p, _, err := newParser(stdio{out: &out, err: &out}, func(int) { helped = true })
			if err != nil {
				t.Fatal(err)
			}
			if len(d.args) > 0 && d.args[0] == "help" {
				d.args = append(d.args[1:], "--help")
			}
			if _, err := p.Parse(d.args); err != nil && !helped {
				t.Errorf("%s: wfhost %s: %v", d.at, strings.Join(d.args, " "), err)
			}
		}
	}
	if n < 150 {
		t.Errorf("only %d commands were found", n)
	}
}

// TestMentionedCommands checks the commands and flags that the manual mentions within sentences.
func TestMentionedCommands(t *testing.T) {
	span := regexp.MustCompile("`(?:[A-Z_]+=\\S+ )*wfhost ([^`]+)`")
	flag := regexp.MustCompile(`(?:^|[ \[|])--([a-z][a-z-]*)`)
	known := commands()
	var help bytes.Buffer
	for page, text := range pages(t) {
		if page == "CHANGELOG.md" || page == "RATIONALE.md" {
			continue
		}
		for _, m := range span.FindAllStringSubmatch(text, -1) {
			words := strings.Fields(m[1])
			at := 0
			for at < len(words) && strings.HasPrefix(words[at], "--") { // flags of all commands
				at += 2
			}
			if at >= len(words) || words[at] == "help" || strings.ToUpper(words[at]) == words[at] {
				continue
			}
			if !slices.Contains(known, words[at]) {
				t.Errorf("%s: `wfhost %s`: there is no command %s", page, m[1], words[at])
				continue
			}
			help.Reset()
			for _, sub := range [][]string{{words[at]}, words[at:min(at+2, len(words))]} {
				p, _, err := newParser(stdio{out: &help, err: &help}, func(int) {})
				if err != nil {
					t.Fatal(err)
				}
				_, _ = p.Parse(append(slices.Clone(sub), "--help")) // the second word may be no command
			}
			for _, f := range flag.FindAllStringSubmatch(m[1], -1) {
				name := strings.TrimSuffix(f[1], "-")
				if !strings.Contains(help.String(), "--"+name) && !strings.Contains(help.String(), "--[no-]"+name) {
					t.Errorf("%s: `wfhost %s`: %s has no flag --%s", page, m[1], words[at], name)
				}
			}
		}
	}
}

// TestExitPage compares docs/interfaces/errors.md with the exit statuses.
func TestExitPage(t *testing.T) {
	_, section, _ := strings.Cut(pages(t)["docs/interfaces/errors.md"], "## Exit statuses")
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(section, -1) {
		listed[m[1]] = true
	}
	for _, e := range exits {
		if !listed[strconv.Itoa(e.code)] {
			t.Errorf("the page does not have the exit status %d", e.code)
		}
	}
	if len(listed) != len(exits) {
		t.Errorf("the page has %d exit statuses, there are %d", len(listed), len(exits))
	}
}
