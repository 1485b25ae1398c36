package abi

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestNames(t *testing.T) {
	step := func(name string) error { return CheckName("step name", name) }
	for _, c := range []struct {
		what    string
		check   func(string) error
		good    []string
		refused map[string]string // name to what the message says
	}{
		{
			"step", step,
			[]string{"a", "Grüße 7/3", "charge card", "process-item-3", "wasi", "wasix/y", "host", "hosts/x", "a/wasi/b",
				strings.Repeat("a", MaxNameBytes), "\u2028", "."},
			map[string]string{
				"":                                 "step name must have 1 to 256 bytes, got 0",
				strings.Repeat("a", 257):           "step name must have 1 to 256 bytes, got 257",
				strings.Repeat("é", 129):           "got 258",
				"a\x00b":                           `step name must not hold control characters, got U+0000 at byte 1 of "a\x00b"`,
				"\n":                               "U+000A",
				"del\x7f":                          "U+007F at byte 3",
				"nel\u0085":                        "U+0085",
				"\xff":                             `step name must be UTF-8, got "\xff"`,
				"wasi/clock":                       `step name must not begin with "wasi/", which is reserved, got "wasi/clock"`,
				"host/mail":                        `step name must not begin with "host/", which is reserved, got "host/mail"`,
				"host/":                            `"host/"`,
				"a\x01" + strings.Repeat("é", 100): `"a\x01` + strings.Repeat("é", 31) + `"…`,
			},
		},
		{
			"handler", CheckHandler,
			[]string{"charge", "host/http", "host/a/b"},
			map[string]string{"": "handler name", "wasi/x": `"wasi/"`, "host/\x00": "U+0000", strings.Repeat("h",
				300): "got 300"},
		},
		{
			"run id", CheckRunID,
			[]string{"a", "order-42", "0193f0c2-7b1e-7c3a", "a.1", "A_b:c~d-e.f", strings.Repeat("z", MaxRunIDBytes), "-", "~"},
			map[string]string{
				"": "run id must have 1 to 128 bytes, got 0", strings.Repeat("z", 129): "got 129",
				"a b": `got " " in "a b"`, "a/b": `"/"`,
				"é": `got "é" in "é"`, "a\xc3": `got "\xc3"`, "a\x00": `"\x00"`, "a%20": `"%"`, "a\n": `"\n"`,
			},
		},
		{
			"namespace", CheckNamespace,
			[]string{"a", "0", "acme", "b-2", "a--b", strings.Repeat("x", MaxNamespaceBytes)},
			map[string]string{"": "namespace must have 1 to 63 bytes, got 0", strings.Repeat("x", 64): "got 64",
				"A": `got "A" in "A"`, "a.b": `got "." in "a.b"`, "-": "begin and end", "-a": "begin and end",
				"a-": `begin and end with a letter or digit, got "a-"`, "é": `namespace may hold the letters a-z, digits and -, got "é"`},
		},
		{
			"workflow", CheckWorkflow,
			[]string{"order", "a", "7", "Order_v2.1-x", strings.Repeat("w", MaxWorkflowBytes)},
			map[string]string{
				"": "workflow name must have 1 to 128 bytes, got 0", strings.Repeat("w", 129): "got 129", ".": "must begin with",
				"..": "must begin with", "-x": `must begin with a letter or digit, got "-x"`, "_x": "must begin with",
				"a/b": `got "/"`,
				"a:b": `":"`, "a b": `" "`, "a~": `"~"`, "ö": `A-Z a-z, digits and ._-, got "ö"`,
			},
		},
	} {
		for _, name := range c.good {
			if err := c.check(name); err != nil {
				t.Errorf("%s %q: %v", c.what, name, err)
			}
		}
		for name, want := range c.refused {
			if err := c.check(name); codeOf(err) != InvalidArgument || !strings.Contains(err.Error(), want) {
				t.Errorf("%s %q: got %v, want INVALID_ARGUMENT with %q", c.what, name, err, want)
			}
		}
	}
}

func TestQuotedIsBoundedAndValid(t *testing.T) {
	for _, text := range []string{"", "a", strings.Repeat("\x00", 500), strings.Repeat("\xff", 500),
		strings.Repeat("€", 500),
		strings.Repeat("a", 63) + "😀" + strings.Repeat("b", 9), strings.Repeat("a", 64)} {
		q := quoted(text)
		if len(q) > 4*maxQuotedBytes+len(`""…`) || !utf8.ValidString(q) || strings.ContainsRune(q, utf8.RuneError) {
			t.Errorf("%.20q… is quoted as %s", text, q)
		}
		if utf8.ValidString(text) && strings.Contains(q, `\x`) && !strings.Contains(text, "\x00") {
			t.Errorf("%.20q… is cut within a character: %s", text, q)
		}
		if cut := strings.HasSuffix(q, "…"); cut != (len(text) > maxQuotedBytes) {
			t.Errorf("%.20q… of %d bytes is quoted as %s", text, len(text), q)
		}
	}
}

// TestCheckMemo keeps memos as they are but for white space, and for what package json escapes for pages.
func TestCheckMemo(t *testing.T) {
	for memo, want := range map[string]string{
		` { "a" : 1e400 , "b" : "x  y" } `: `{"a":1e400,"b":"x  y"}`, `"\u003ca\u003e \u0026 \\u0026 \\\u0026 \" \u00e4"`: `"<a> & \\u0026 \\& \" \u00e4"`,
		`"` + strings.Repeat(`\u0026`, MaxMemoBytes-2) + `"`: `"` + strings.Repeat(`&`, MaxMemoBytes-2) + `"`,
	} {
		if got, err := CheckMemo([]byte(memo)); err != nil || string(got) != want {
			t.Errorf("%.40s: %.40s, %v, want %.40s", memo, got, err, want)
		}
	}
	for _, memo := range []string{"", " ", `"a`, `1 2`, "\"\xff\"", `"` + strings.Repeat("x", MaxMemoBytes-1) + `"`} {
		if got, err := CheckMemo([]byte(memo)); err == nil {
			t.Errorf("%.40q: %.40q", memo, got)
		}
	}
}
