package typescript_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/typescript"
)

// TestSharedCode compiles one program. Other programs are uploaded and run where no compiler is available.
func TestSharedCode(t *testing.T) {
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
	perform := func(h *host.Host, file, workflow string) {
		t.Helper()
		wasm, _, err := typescript.Build(t.Context(), "testdata/"+file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.UploadAll(t.Context(), "", wasm); err != nil {
			t.Fatal(err)
		}
		if _, err := h.StartRaw(t.Context(), workflow, nil, host.WithRunID(workflow)); err != nil {
			t.Fatal(err)
		}
		if _, err := h.ResultRaw(t.Context(), workflow); err != nil {
			t.Error(err)
		}
		if err := h.Replay(t.Context(), workflow); err != nil {
			t.Error(err)
		}
	}
	h, end := open()
	perform(h, "platform.js", "platform")
	end()
	h, _ = open("/nothing/here")
	perform(h, "language.ts", "language")
	if _, err := h.UploadAll(t.Context(), "", hosttest.Build(t, "../examples/nightly")); err == nil || errors.Is(err, host.ErrRejected) {
		t.Error("another program was not compiled:", err)
	}
}
