package calls

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// Descriptors of the guest's output.
const (
	Stdout = 1
	Stderr = 2
)

// Bounds of the last words that Explain reports: some lines of a message, without all the stacks that follow it.
const (
	maxTailBytes = 8 << 10 // kept to search for the message
	maxSaidLines = 3
	maxSaidBytes = 1 << 10
)

// Tail keeps the end of what a guest prints to descriptor 2. The zero value is empty.
type Tail struct {
	b      []byte
	reason []byte // of the Go runtime; set if the stacks after it have pushed it out of b
}

// Write adds output.
func (t *Tail) Write(p []byte) {
	for part := range slices.Chunk(p, maxTailBytes) {
		t.b = append(t.b, part...)
		if over := len(t.b) - maxTailBytes; over > 0 {
			if at := lastReason(t.b[:over+longestReason]); at >= 0 {
				t.reason = append(t.reason[:0], t.b[at:min(at+maxSaidBytes, len(t.b))]...)
			}
			t.b = append(t.b[:0], t.b[over:]...)
		}
	}
}

// Explain returns the last words of the guest followed by the message, or only the message if the guest printed
// nothing.
func (t *Tail) Explain(message string) string {
	if said := t.said(); said != "" {
		return said + " (" + message + ")"
	}
	return message
}

// reasons are the prefixes of the line in which the Go runtime says why it ends. Stacks follow after an empty line.
var reasons = []string{"panic: ", "fatal error: "}

const longestReason = len("fatal error: ")

// lastReason returns the offset of the last such line, or -1.
func lastReason(text []byte) int {
	at := -1
	for _, r := range reasons {
		if bytes.HasPrefix(text, []byte(r)) {
			at = max(at, 0)
		}
		if i := bytes.LastIndex(text, []byte("\n"+r)); i >= 0 {
			at = max(at, i+1)
		}
	}
	return at
}

// frame matches a Go stack at the end of a text: the file of a frame, after a tab.
var frame = regexp.MustCompile(`(?:^|\n)\t[^\n]*\.(?:go|s):\d+[^\n]*\s*$`)

// endsInStack reports whether the text ends with a Go stack. If not, the guest went on after its reason.
func endsInStack(text []byte) bool { return frame.Match(text[max(len(text)-maxSaidBytes, 0):]) }

// said returns the message of the Go runtime if there is one, or else the last lines.
func (t *Tail) said() string {
	told, at := t.b, lastReason(t.b)
	if at < 0 && len(t.reason) > 0 && endsInStack(t.b) {
		told, at = t.reason, 0
	}
	text := strings.ToValidUTF8(string(told[max(at, 0):]), "\uFFFD")
	var lines []string
	if at >= 0 {
		message, _, _ := strings.Cut(text, "\n\n")
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
		line = strings.TrimSpace(line)
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// copied returns a deep copy.
func (t *Tail) copied() Tail { return Tail{bytes.Clone(t.b), bytes.Clone(t.reason)} }
