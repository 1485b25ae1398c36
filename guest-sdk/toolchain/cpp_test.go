package toolchain_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	guestsdk "github.com/wfhost/wfhost/guest-sdk"
	"github.com/wfhost/wfhost/host"
)

// cpp compiles a program of testdata.
func cpp(t *testing.T, name string) []byte {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("testdata/cpp", name))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := guestsdk.Write("cpp", filepath.Join(dir, "wfhost")); err != nil {
		t.Fatal(err)
	}
	project(t, dir, map[string]string{"main.cpp": string(source)})
	return compile(t, dir)
}

// TestCPPTasks runs coroutines, some of which are destroyed while they wait: they do not go on.
func TestCPPTasks(t *testing.T) {
	wasm := cpp(t, "tasks.cpp")
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
	t.Run("updates", func(t *testing.T) { testUpdates(t, wasm) })
}

// testUpdates sends updates after the wait for one was dropped, after another was withdrawn by a cancel, and while two are open.
func testUpdates(t *testing.T, wasm []byte) {
	h := began(t, wasm, "updates", "null")
	h.Advance(time.Hour)
	for _, word := range []string{"a", "", "b", "c", "d", "e"} {
		if word == "" {
			cancel(t, h)
			h.Settle()
		} else if u, err := h.Update(t.Context(), "run", "word", word); err != nil || string(u.Result) != strconv.Quote(word) {
			t.Fatalf("%s: %s, %v", word, u.Result, err)
		}
	}
	r := h.Finish("run")
	if got := seen(t, h); r.Status != host.Completed || got != "a\nnone\nb\nc\nd\ne" {
		t.Errorf("the run is %s, seen is %q", r.Status, got)
	}
	if err := h.Replay(t.Context(), "run"); err != nil {
		t.Error(err)
	}
}
