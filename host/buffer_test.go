package host_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// TestBuffersAreTheCallers overwrites each buffer right after passing it to the host or getting it: the run must see
// the content at the time of the call.
func TestBuffersAreTheCallers(t *testing.T) {
	p := newPrims(t)
	input := []byte("5")
	if _, err := p.StartRaw(ctx, "receive", input, host.WithRunID("r"), host.WithStartIn(time.Hour)); err != nil {
		t.Fatal(err)
	}
	copy(input, "1")
	buffer := make([]byte, 3)
	for _, letter := range "abcde" {
		copy(buffer, `"`+string(letter)+`"`)
		if err := p.SignalRaw(ctx, "r", "go", buffer); err != nil {
			t.Fatal(err)
		}
	}
	p.Finish("r")
	if got, err := p.ResultRaw(ctx, "r"); err != nil || string(got) != `"a,b,c,d,e"` {
		t.Errorf("the signals arrived as %s, %v", got, err)
	}
}

// TestBuffersOfHandlers has a handler overwrite its input before its second attempt.
func TestBuffersOfHandlers(t *testing.T) {
	var inputs []string
	h := hosttest.New(t, hosttest.WithHandlers(func(h *host.Host) {
		h.HandleRawStep("greedy", func(_ context.Context, input []byte) ([]byte, error) {
			inputs = append(inputs, string(input))
			clear(input)
			if len(inputs) < 3 {
				return nil, errors.New("not yet")
			}
			return []byte(`"done"`), nil
		})
	}))
	if _, err := h.Upload(ctx, "", hosttest.Build(t, "testdata/scenarios"), host.AllowStep("*")); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Start(ctx, "call", map[string]any{"Handler": "host/greedy"}, host.WithRunID("r")); err != nil {
		t.Fatal(err)
	}
	h.Finish("r")
	if want := []string{`"in"`, `"in"`, `"in"`}; !slices.Equal(inputs, want) {
		t.Errorf("the handler was given %q", inputs)
	}
}
