package run_test

import (
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

func TestToken(t *testing.T) {
	for _, id := range []string{"a", "order.1", strings.Repeat("x", 200)} {
		n := byte(0)
		tok := run.NewToken(func(p []byte) {
			for i := range p {
				n += 37
				p[i] = n
			}
		}, store.RunKey{ID: id})
		if got, ok := run.RunOfToken(tok); !ok || got != id || strings.ToLower(tok) != tok {
			t.Errorf("%q is of run %q, %v; want %q", tok, got, ok, id)
		}
	}
	for _, tok := range []string{"", "chosen", strings.Repeat("a", 26), strings.Repeat("a", 26) + ".", strings.Repeat("a", 25) + ".run"} {
		if id, ok := run.RunOfToken(tok); ok {
			t.Errorf("%q is of run %q", tok, id)
		}
	}
}
