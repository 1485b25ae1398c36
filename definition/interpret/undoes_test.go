package interpret_test

import (
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host"
)

// TestCompensationsSayWhatTheyUndo fails a run that compensates its steps. A restart that would keep one of these
// steps is refused, with the name of the compensation, unless the caller insists.
func TestCompensationsSayWhatTheyUndo(t *testing.T) {
	h := newHosted(t, `
name: orders
steps:
  - {name: reserve, handler: echo, config: 1, compensate: release}
  - {name: items, type: map, items: "${[1, 2]}", handler: echo, config: "${item}", compensate: restock}
  - {name: charge, handler: fail, config: 2}
  - {name: release, handler: echo}
  - {name: restock, handler: echo}
`)
	h.begin("orders", "r", "{}")
	h.ends("r")
	ctx := t.Context()
	for from, want := range map[string]string{"charge": "step \"restock\" may have undone", "reserve": ""} {
		p, err := h.PlanRestart(ctx, "r", host.RestartOptions{From: from})
		if err != nil || (p.Refused != "") != (want != "") || !strings.Contains(p.Refused, want) {
			t.Errorf("from %s: %q, %v", from, p.Refused, err)
		}
		for _, c := range p.Kept {
			if c.Name == "reserve" && c.Note != `undone by step "release"` {
				t.Errorf("from %s: %s: %q", from, c.Name, c.Note)
			}
		}
	}
	if p, err := h.PlanRestart(ctx, "r", host.RestartOptions{From: "charge", KeepUndone: true}); err != nil || p.Refused != "" {
		t.Errorf("%q %v", p.Refused, err)
	}
}
