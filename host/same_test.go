package host_test

import (
	"errors"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// TestSameInput repeats a start with the same id: an input in another encoding counts as the same, and a different
// input is refused.
func TestSameInput(t *testing.T) {
	p := hosttest.New(t)
	_, err := p.Upload(ctx, "nap", napModule())
	do(t, err)
	_, err = p.StartRaw(ctx, "nap", []byte(`{"to":"Ada & <Bob>","n":1}`), host.WithRunID("a"))
	do(t, err)
	for _, input := range []string{`{"n": 1, "to": "Ada \u0026 \u003cBob\u003E"}`, `{"\u0074o":"Ada & <Bob>","n":1}`} {
		if r, err := p.StartRaw(ctx, "nap", []byte(input), host.WithRunID("a")); err != nil || !r.Existed {
			t.Errorf("%s: %+v, %v", input, r, err)
		}
	}
	for _, input := range []string{`{"to":"Ada \\u0026 <Bob>","n":1}`, `{"to":"Ada & <Bob>","n":1.0}`} {
		if _, err := p.StartRaw(ctx, "nap", []byte(input), host.WithRunID("a")); !errors.Is(err, host.ErrConflict) {
			t.Errorf("%s: %v", input, err)
		}
	}
}
