package toolchain_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	guestsdk "github.com/wfhost/wfhost/guest-sdk"
	"github.com/wfhost/wfhost/host"
)

// TestCPPTasks runs coroutines, some of which are destroyed while they wait: they do not go on.
func TestCPPTasks(t *testing.T) {
	source, err := os.ReadFile("testdata/cpp/tasks.cpp")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := guestsdk.Write("cpp", filepath.Join(dir, "wfhost")); err != nil {
		t.Fatal(err)
	}
	project(t, dir, map[string]string{"main.cpp": string(source)})
	wasm := compile(t, dir)
	for workflow, want := range map[string]struct{ result, seen string }{
		"beside":   {"2", "one OK\ntwo OK"},
		"outlived": {"true", ""},
		"left":     {"true", "task OK"},
		"races":    {"truefalse", ""},
	} {
		t.Run(workflow, func(t *testing.T) {
			h := began(t, wasm, workflow, "null")
			r := h.Finish("run")
			got, err := h.ResultRaw(t.Context(), "run")
			if r.Status != host.Completed || string(got) != want.result {
				t.Errorf("the run is %s, its result %s, want %s: %v", r.Status, got, want.result, err)
			}
			if got := seen(t, h); got != want.seen {
				t.Errorf("seen is %q, want %q", got, want.seen)
			}
		})
	}
	for workflow, want := range map[string]string{"dropped": "", "replaced": "after it OK", "gone": "task CANCELLED"} {
		t.Run(workflow, func(t *testing.T) {
			h := began(t, wasm, workflow, "null")
			h.Advance(time.Hour)
			cancel(t, h)
			if r := h.Finish("run"); r.Status != host.Cancelled {
				_, err := h.ResultRaw(t.Context(), "run")
				t.Errorf("the run is %s: %v", r.Status, err)
			}
			if got := seen(t, h); got != want {
				t.Errorf("seen is %q, want %q", got, want)
			}
		})
	}
	t.Run("told", func(t *testing.T) { testTold(t, wasm) })
	t.Run("leaves", func(t *testing.T) { testLeaves(t, wasm) })
}
