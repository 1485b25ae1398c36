package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text from guests and callers is displayed only through these functions. It must not control the terminal, and must not look
// like output of this command. In a listing, each line is one event.

// steers reports whether a character can control a terminal: control characters, including those above 0x7f; line separators;
// and characters that change the text direction.
func steers(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == '\u061c' || r == '\u200e' || r == '\u200f' ||
		r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' || r == '\ufeff'
}

// printable escapes control characters in a text of several lines.
func printable(text string) string { return escaped(text, "\n\t") }

// oneLine also escapes line ends.
func oneLine(text string) string { return escaped(text, "") }

// plural returns a count with its noun: "0 runs", "1 run", "2 entries".
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

// indented is like printable, for a text within a line of this command: its further lines are marked at the start.
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
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd"): // an invalid byte in UTF-8
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

// printableJSON escapes the characters that package json leaves, without changing the value. Newlines between values remain.
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
	if !json.Valid(out) { // it was not JSON before
		return []byte(printable(string(b)))
	}
	return out
}
