package yamltext

import (
	"strings"
	"testing"

	"github.com/wfhost/wfhost/definition"
)

// TestRead reads values of all kinds.
func TestRead(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1":                                  `{"a":1}`,
		"a: [1, -2, 0x10, 1_000, 1.5, +3, 1e3]": `{"a":[1,-2,16,1000,1.5,3,1000]}`,
		"a: true\nb: False\nc: yes\nd: on":      `{"a":true,"b":false,"c":"yes","d":"on"}`,
		"a: null\nb: ~\nc:":                     `{"a":null,"b":null,"c":null}`,
		"a: 2026-04-15T09:00:00Z":               `{"a":"2026-04-15T09:00:00Z"}`,
		"a: 2026-04-15":                         `{"a":"2026-04-15"}`,
		"a: \"1\"\nb: '2'\nc: |\n  x\n  y\n":    `{"a":"1","b":"2","c":"x\ny\n"}`,
		"a: &x {b: 1}\nc: *x":                   `{"a":{"b":1},"c":{"b":1}}`,
		`{"a": [1, "x\u00e9"]}`:                 `{"a":[1,"xé"]}`,
		"# a comment\na: 1 # another":           `{"a":1}`,
		"---\na: 1\n":                           `{"a":1}`,
		"a: [0, -0, 0o755, '0755', 0.5, 01.5]":  `{"a":[0,0,493,"0755",0.5,1.5]}`,
		"a/b: {'~': 1}":                         `{"a/b":{"~":1}}`,
	} {
		n, err := Read([]byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if got := string(n.JSON()); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// TestRefused lists refused texts with the position of the fault.
func TestRefused(t *testing.T) {
	bomb := "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
	for c := 'b'; c < 'h'; c++ {
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+", ", 10) + "]\n"
	}
	texts := "a: &a " + strings.Repeat("x", 60_000) + "\nb: [*a, *a, *a]"
	keys := "a: &a {" + strings.Repeat("x", 60_000) + ": 1}\nb: [*a, *a, *a]"
	for text, want := range map[string]string{
		"":                        "line 1: the definition: the definition is empty",
		"# nothing":               "empty",
		"\xff":                    "UTF-8",
		"a: 1\nb: [1,\n":          "not YAML",
		"a: 1\n---\nb: 2":         "more than one document",
		"a: 1\na: 2":              "line 2: /a: the field \"a\" is there twice",
		"a:\n  1: x":              "line 2: /a: the key \"1\" is not text",
		"? [x]\n: y":              "not text",
		"a: {<<: {b: 1}}":         "merge key",
		"a: !!binary aGk=":        "the tag !!binary",
		"a: !mine x":              "the tag !mine",
		"a: .nan":                 "none of JSON",
		"a: -.inf":                "none of JSON",
		"a: *nobody":              "unknown anchor",
		"a: 010":                  `the number "010" begins with 0, which some readers of YAML take for octal: leave out the 0, or write it as 0o…`,
		"a: [1, -0755]":           `/a/1: the number "-0755" begins with 0`,
		"a: 00":                   "begins with 0",
		"a: 0_7":                  "begins with 0",
		"a: 08":                   "begins with 0",
		"a: 12345678901234567890": "not in the range of 64 bits: write it in quotes if it is a text",
		bomb:                      "more than 20000 values",
		"a: &a [*a]":              "levels deep",
		"a: !!bool maybe":         "\"maybe\" is not a boolean",
		"a: !mine {b: 1}":         "the tag !mine",
		"a: !!set {b}":            "the tag !!set",
		texts:                     "more than 131072 bytes, with what its aliases stand for",
		keys:                      "more than 131072 bytes, with what its aliases stand for",
		strings.Repeat("[", 5000): "not YAML",
		strings.Repeat("a: 1\n", definition.MaxBytes): "the limit is 131072",
	} {
		if n, err := Read([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40q: %v %v, want %s", text, n, err, want)
		}
	}
}

// TestLines says where values stand.
func TestLines(t *testing.T) {
	n, err := Read([]byte("name: x\nsteps:\n  - name: a\n    config:\n      to: b\n"))
	if err != nil {
		t.Fatal(err)
	}
	to := n.Members[1].Value.Items[0].Members[1].Value.Members[0].Value
	if to.Line != 5 || to.Pointer() != "/steps/0/config/to" || n.Members[1].Value.Items[0].Line != 3 {
		t.Fatalf("%+v", to)
	}
}
