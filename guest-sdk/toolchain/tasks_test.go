package toolchain_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// began is a host with a run of one workflow of a module.
func began(t *testing.T, wasm []byte, workflow, input string, opts ...hosttest.Option) *hosttest.Host {
	t.Helper()
	h := hosttest.New(t, opts...)
	if _, err := h.Upload(t.Context(), workflow, wasm, host.AllowStep("*")); err != nil {
		t.Fatal(err)
	}
	if _, err := h.StartRaw(t.Context(), workflow, []byte(input), host.WithRunID("run")); err != nil {
		t.Fatal(err)
	}
	return h
}

// seen is what a run has emitted, a line each.
func seen(t *testing.T, h *hosttest.Host) string {
	t.Helper()
	var lines []string
	for o, err := range h.Output(t.Context(), "run", "seen", 0) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.Trim(string(o.Data), `"`))
	}
	return strings.Join(lines, "\n")
}

// cancel asks the run to cancel.
func cancel(t *testing.T, h *hosttest.Host) {
	t.Helper()
	if changed, err := h.Cancel(t.Context(), "run"); err != nil || !changed {
		t.Fatalf("cancel: %t, %v", changed, err)
	}
}

// TestRustTasks runs workflows that spawn. None of them may be left where something of it could go on.
func TestRustTasks(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	wasm := compile(t, form(t, "tasks", "", ""))
	for workflow, want := range map[string]string{"turns": "2", "nested": "42", "beside": "3", "ready": "3", "flag": "2", "raised": "1", "woken": "2",
		"yields": "1", "spins": "2", "busy": "1", "all": `"123 after 4 h, 0"`} {
		t.Run(workflow, func(t *testing.T) {
			if got := result(t, wasm, workflow, "null"); got != want {
				t.Errorf("the result is %s, want %s", got, want)
			}
		})
	}
	t.Run("told", func(t *testing.T) { testTold(t, wasm) })
	t.Run("leaves", func(t *testing.T) { testLeaves(t, wasm) })
	t.Run("changes", func(t *testing.T) { testChanges(t, wasm) })
}

func TestAssemblyScriptTold(t *testing.T) { testTold(t, assemblyScript(t, "told.ts")) }

// testTold cancels a run while a step is performed: the step has its own outcome, the sleep beside it is withdrawn, the workflow
// can ask for the cancel, and what it starts then works.
func testTold(t *testing.T, wasm []byte) {
	atWork := make(chan struct{})
	h := began(t, wasm, "told", "null", hosttest.WithHandlers(func(h *host.Host) {
		host.HandleStep(h, "work", func(ctx context.Context, _ any) (string, error) {
			close(atWork)
			<-ctx.Done() // it is told of the cancel
			return "worked", nil
		})
		host.HandleStep(h, "undo", func(context.Context, any) (string, error) { return "undone", nil })
	}))
	<-atWork
	cancel(t, h)
	if r := h.Finish("run"); r.Status != host.Cancelled {
		_, err := h.ResultRaw(t.Context(), "run")
		t.Errorf("the run is %s: %v", r.Status, err)
	}
	if got := seen(t, h); got != "false worked CANCELLED undone true" {
		t.Errorf("seen is %q", got)
	}
}

// testLeaves has a wait go on that is detached, and end when it is dropped: it takes the first of two signals, or it does not.
func testLeaves(t *testing.T, wasm []byte) {
	for detached, want := range map[string]string{"true": `"second"`, "false": `"first"`} {
		h := began(t, wasm, "leaves", detached)
		h.Advance(time.Minute)
		for _, word := range []string{"first", "second"} {
			if err := h.Signal(t.Context(), "run", "word", word); err != nil {
				t.Fatal(err)
			}
		}
		h.Finish("run")
		if got, err := h.ResultRaw(t.Context(), "run"); err != nil || string(got) != want {
			t.Errorf("with detached %s, the result is %s, want %s: %v", detached, got, want, err)
		}
	}
}
