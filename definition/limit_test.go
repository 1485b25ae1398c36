package definition_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/definition"
	"github.com/wfhost/wfhost/definition/yamltext"
)

// TestWork refuses definitions that the interpreter could not load within the fuel of its start-up. The whole
// definition gets one fault.
func TestWork(t *testing.T) {
	pattern := "input matches '" + strings.Repeat("x{900}", 12) + "'"
	set := func(values ...string) string {
		return list(`{name: a, type: set, values: {of: ["` + strings.Join(values, `", "`) + `"]}}`)
	}
	many := func(n int, e string) string { return set(strings.Split(strings.Repeat(e+"\n", n), "\n")...) }
	for name, c := range map[string]struct{ text, want string }{
		"short ones":       {many(12_000, "${1}"), "more than 5333 parts, the limit of a definition"},
		"with bytes":       {set(strings.Repeat("x", 100_000)+"${1}", strings.Repeat("${1}", 1100)), "its expressions have 2202 parts"},
		"patterns":         {many(2, "${"+pattern+"}"), "more than 20000 instructions, the limit of a definition"},
		"one of patterns":  {set("${" + pattern + " or " + pattern + "}"), "its patterns have more than 20000 instructions"},
		"pattern of parts": {set("${input matches ('(x{90}){10}' + '" + strings.Repeat("(x{30}){30}", 24) + "')}"), "its patterns have more than 20000"},
		"none":             {many(1000, "${1}"), ""},
	} {
		_, faults := parse(c.text)
		switch {
		case c.want == "" && faults != nil:
			t.Errorf("%s: %v", name, faults)
		case c.want != "" && (len(faults) != 1 || !strings.Contains(faults[0].Message, c.want)):
			t.Errorf("%s: %v, want %s", name, faults, c.want)
		}
	}
}

// TestCheckSchemas has schemas checked where they stand.
func TestCheckSchemas(t *testing.T) {
	n, err := yamltext.Read([]byte("name: x\ninput_schema: {type: good}\noutput_schema: {type: bad}\nsteps:\n  - {name: a, type: event, schema: {a: 1}}\n  - {name: b, type: approval}"))
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	_, err = definition.Parse(n, definition.CheckSchemas(func(text []byte) error {
		seen = append(seen, string(text))
		if strings.Contains(string(text), "bad") {
			return errors.New("the schema is none")
		}
		return nil
	}))
	if faults := definition.AsFaults(err); len(faults) != 1 || faults[0].Error() != "line 3: /output_schema: the schema is none" {
		t.Error(faults)
	}
	if strings.Join(seen, " ") != `{"type":"good"} {"type":"bad"} {"a":1} `+definition.DecisionSchema {
		t.Error(seen)
	}
}
