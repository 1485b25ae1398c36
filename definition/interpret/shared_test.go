package interpret_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// TestSharedCode compiles one definition. Other definitions are uploaded and performed where no compiler is
// available.
func TestSharedCode(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the interpreter")
	}
	dir := t.TempDir()
	open := func(compiler ...string) (h *host.Host, end func()) {
		h, err := host.Open(t.Context(), host.Config{Dir: dir, Compiler: compiler})
		if err != nil {
			t.Fatal(err)
		}
		var ran sync.WaitGroup
		ran.Go(func() { _ = h.Run(t.Context()) })
		end = sync.OnceFunc(func() {
			if err := h.Close(); err != nil {
				t.Error(err)
			}
			ran.Wait()
		})
		t.Cleanup(end)
		return h, end
	}
	perform := func(h *host.Host, name, text, want string) {
		t.Helper()
		if _, err := h.UploadAll(t.Context(), "", built(t, text)); err != nil {
			t.Fatal(err)
		}
		if _, err := h.StartRaw(t.Context(), name, []byte("{}"), host.WithRunID(name)); err != nil {
			t.Fatal(err)
		}
		if got, err := h.ResultRaw(t.Context(), name); err != nil || string(got) != want {
			t.Errorf("%s: %s %v, want %s", name, got, err, want)
		}
		if err := h.Replay(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
	h, end := open()
	perform(h, "one", "{name: one, steps: [{name: a, type: set, values: {n: 1}}]}", `{"n":1}`)
	end()
	h, _ = open("/nothing/here")
	perform(h, "two", "{name: two, steps: [{name: a, type: set, values: {n: 2}}]}", `{"n":2}`)
	long := strings.Repeat("x", 100_000)
	perform(h, "long", "{name: long, vars: {x: "+long+"}, result: '${len(vars.x)}', steps: [{name: a, type: set, values: {n: 3}}]}", "100000")
	if _, err := h.UploadAll(t.Context(), "", hosttest.Build(t, "../../examples/nightly")); err == nil || errors.Is(err, host.ErrRejected) {
		t.Error("another program was not compiled:", err)
	}
}
