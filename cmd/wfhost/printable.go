package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What guests and callers have supplied is shown by these functions only. Text of theirs must not steer a terminal, and must not
// look as if this command had written it: in a listing, a line is one thing that happened.

// steers reports whether a terminal does something else with a character than show it where it stands: control characters,
// also those above 0x7f; separators of lines; and those that change the direction in which a line is read.
func steers(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == '\u061c' || r == '\u200e' || r == '\u200f' ||
		r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' || r == '\ufeff'
}

// printable escapes what steers in a text of several lines.
func printable(text string) string { return escaped(text, "\n\t") }

// oneLine escapes the ends of lines, too.
func oneLine(text string) string { return escaped(text, "") }

// plural returns how many there are of something: "0 runs", "1 run", "2 entries".
func plural[N int | int64 | uint64](n N, what string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(what, "y"):
		what = strings.TrimSuffix(what, "y") + "ies"
	default:
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}

// indented is printable for a text that stands in a line of this command: its other lines get a mark at their beginning.
func indented(text string) string {
	return strings.ReplaceAll(printable(strings.TrimRight(text, "\n")), "\n", "\n  | ")
}

func escaped(text, except string) string {
	var b strings.Builder
	for i, r := range text {
		switch {
		case strings.ContainsRune(except, r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString("\\n")
		case r == '\t':
			b.WriteString("\\t")
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd"): // a byte of no UTF-8
			_, _ = fmt.Fprintf(&b, "\\x%02x", text[i])
		case steers(r) && r < 0x100:
			_, _ = fmt.Fprintf(&b, "\\x%02x", r)
		case steers(r):
			_, _ = fmt.Fprintf(&b, "\\u%04x", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// printableJSON escapes in JSON what package json does not: it stays the same JSON. Ends of lines between values stay.
func printableJSON(b []byte) []byte {
	if !bytes.ContainsFunc(b, func(r rune) bool { return r != '\n' && steers(r) }) {
		return b
	}
	var out []byte
	for _, r := range string(b) {
		if r == '\n' || r == '\t' || r == '\r' || !steers(r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		out = fmt.Appendf(out, "\\u%04x", r)
	}
	if !json.Valid(out) { // it was none before
		return []byte(printable(string(b)))
	}
	return out
}
