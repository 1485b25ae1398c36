package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store"
)

// steering is text from a guest that imitates lines of this command and contains terminal control sequences.
const steering = "done\n2026-01-05 08:00:00.000  completed \"paid\"\r\x1b[2K\u009b1A\u2028wfhost: \u202eok\x7f\x00\xff\ufeff\u0085\ttab"

// calm fails the test if a text contains control characters other than line ends.
func calm(t *testing.T, what, text string) {
	t.Helper()
	if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && steers(r) }); i >= 0 {
		t.Errorf("%s: %q steers at byte %d", what, text, i)
	}
}

func TestPrintable(t *testing.T) {
	const want = `done\n2026-01-05 08:00:00.000  completed "paid"\x0d\x1b[2K\x9b1A\u2028wfhost: \u202eok\x7f\x00\xff\ufeff\x85\ttab`
	if got := oneLine(steering); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	calm(t, "lines", printable(steering))
	if got := indented("a\nb\n\nc\n"); got != "a\n  | b\n  | \n  | c" {
		t.Errorf("%q", got)
	}
	if got := oneLine("日本 é ￼ \ufffd 😀 “quoted”"); got != "日本 é ￼ \ufffd 😀 “quoted”" {
		t.Errorf("%q", got)
	}
}

func TestPrintableJSON(t *testing.T) {
	plain := []byte("{\n  \"a\": \"b é\"\n}\n")
	if got := printableJSON(plain); !bytes.Equal(got, plain) {
		t.Errorf("%q", got)
	}
	b, err := json.Marshal(steering)
	if err != nil {
		t.Fatal(err)
	}
	got := printableJSON(b)
	calm(t, "JSON", string(got))
	var was, is string
	if json.Unmarshal(b, &was) != nil || json.Unmarshal(got, &is) != nil || was != is {
		t.Errorf("%q is %q", was, is)
	}
	calm(t, "no JSON", string(printableJSON([]byte("\x1b[2K\u009b"))))
}

// TestGuestsCannotFakeLines prints guest text in every form that `run` and `logs` use.
func TestGuestsCannotFakeLines(t *testing.T) {
	var out bytes.Buffer
	g := &globals{io: stdio{out: &out, err: &out}}
	f := &follower{g: g}
	f.line(host.LogLine{UnixMs: 1, Step: steering, Text: steering})
	for _, e := range []host.Entry{{Kind: store.KindStarted, Name: steering}, {Kind: store.KindSleep, Name: steering}, {Kind: store.KindBody, Name: steering},
		{Kind: store.KindStep, Name: "s", Target: steering}, {Kind: store.KindChild, Name: steering, Target: steering}} {
		out.WriteString(story(e) + "\n")
	}
	if err := g.showRun(host.Run{ID: "r", Reason: steering, Attributes: map[string]string{steering: steering}}); err != nil {
		t.Fatal(err)
	}
	if err := g.table("a\tb", [][]string{{steering, "x"}}); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	calm(t, "all of it", text)
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "2026-01-05") || strings.HasPrefix(line, "wfhost:") {
			t.Errorf("the guest has written this line: %q", line)
		}
	}
	if !strings.Contains(text, "\n  | 2026-01-05 08:00:00.000") {
		t.Errorf("the second line of a log is not shown:\n%s", text)
	}
}
