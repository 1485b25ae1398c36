package interpret_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/definition"
	"github.com/wfhost/wfhost/definition/module"
	"github.com/wfhost/wfhost/definition/yamltext"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// TestLargest uploads the largest valid definitions: the interpreter loads each within the fuel of its start-up.
func TestLargest(t *testing.T) {
	if testing.Short() {
		t.Skip("each upload compiles a module")
	}
	nested := strings.Repeat("sum(map(input,{", 80) + "1" + strings.Repeat("}))", 80) // the slowest form per byte
	expressions := func(n int) (text string) {
		for i := range n {
			text += fmt.Sprintf("- {name: b%d, type: set, values: {x: '${%s}'}}\n", i, nested)
		}
		return text
	}
	events := ""
	for i := range 980 {
		events += fmt.Sprintf("- {name: a%d, type: event, schema: {title: '%s'}}\n", i, strings.Repeat("x", 63))
	}
	steps := "name: x\nsteps:\n"
	h := hosttest.New(t)
	for name, c := range map[string]struct{ text, larger string }{
		"bytes":       {steps + events + expressions(4), steps + events + expressions(5)},
		"expressions": {steps + expressions(14), steps + expressions(15)},
	} {
		n, err := yamltext.Read([]byte(c.larger))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := definition.Parse(n); err == nil || !strings.Contains(err.Error(), "parts") {
			t.Errorf("%s: %v", name, err)
		}
		d := read(t, c.text)
		n, err = yamltext.Read([]byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		wasm, err := module.Make(hosttest.Build(t, "../interpreter"), n.JSON())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.UploadAll(t.Context(), d.Name, wasm, host.AllowStep("*")); err != nil {
			t.Errorf("%s: %.300v", name, err)
		}
	}
}
