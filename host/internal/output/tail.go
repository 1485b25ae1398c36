package output

import (
	"bytes"
	"strings"
)

// Descriptors to which guests print.
const (
	Stdout = 1
	Stderr = 2
)

// Bounds of what is told of the last words of a guest: some lines of a message, but not all stacks that follow it.
const (
	maxTailBytes = 8 << 10 // of which the message is looked for
	maxSaidLines = 3
	maxSaidBytes = 1 << 10
)

// Tail keeps the end of what a guest prints to descriptor 2. The zero value is empty.
type Tail struct{ b []byte }

// Write adds what is printed.
func (t *Tail) Write(p []byte) {
	if over := len(p) - maxTailBytes; over > 0 {
		p = p[over:]
	}
	if over := len(t.b) + len(p) - maxTailBytes; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	t.b = append(t.b, p...)
}

// Explain returns why a guest broke down: what it said last, and the message; the message alone if it said nothing.
func (t *Tail) Explain(message string) string {
	if said := t.said(); said != "" {
		return said + " (" + message + ")"
	}
	return message
}

// reasons begin the line in which the run-time of Go says why it ends. Stacks follow, behind an empty line.
var reasons = []string{"panic: ", "fatal error: "}

// said returns the message of the run-time of Go, if there is one, or else the last lines.
func (t *Tail) said() string {
	text := strings.ToValidUTF8(string(t.b), "\uFFFD")
	at := -1
	for _, r := range reasons {
		at = max(at, strings.LastIndex("\n"+text, "\n"+r))
	}
	var lines []string
	if at >= 0 {
		message, _, _ := strings.Cut(text[at:], "\n\n")
		lines = nonEmpty(message)
		lines = lines[:min(len(lines), maxSaidLines)]
	} else {
		lines = nonEmpty(text)
		lines = lines[max(len(lines)-maxSaidLines, 0):]
	}
	said := strings.Join(lines, "\n")
	if len(said) > maxSaidBytes {
		said = strings.ToValidUTF8(said[:maxSaidBytes], "") + "…"
	}
	return said
}

func nonEmpty(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// copied returns a tail that shares nothing with this one.
func (t *Tail) copied() Tail { return Tail{bytes.Clone(t.b)} }
