package toolchain_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
)

func TestRustLong(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	testLong(t, compile(t, form(t, "long", "", "")))
}

func TestAssemblyScriptLong(t *testing.T) { testLong(t, assemblyScript(t, "long.ts")) }

func TestCPPLong(t *testing.T) { testLong(t, cpp(t, "long.cpp")) }

// testLong has a body, an update and a workflow fail with a message of 2 MiB: the type of the error is kept, and that it is
// fatal. It answers an update with as much. Each sender gets an answer.
func testLong(t *testing.T, wasm []byte) {
	message := "x" + strings.Repeat("é", 1<<15-1) + "…" // 64 KiB, less the byte that would hold half a character
	h := began(t, wasm, "long", "null")
	h.Settle()
	if got, want := seen(t, h), "STEP_FAILED 1 Huge 65538"; got != want {
		t.Fatalf("seen is %q, want %q", got, want)
	}
	for _, c := range []struct {
		word, result string
		failure      abi.Error
	}{
		{"fail", "", abi.Error{Type: "Huge", Message: message}},
		{"answer", "", abi.Error{Code: abi.TooLarge}},
		{"end", `"fine"`, abi.Error{}},
	} {
		u, err := h.Update(t.Context(), "run", "word", c.word, host.UntilAccepted())
		if err != nil {
			t.Fatal(err)
		}
		h.Advance(time.Hour)
		u, err = h.UpdateResult(t.Context(), "run", "word", u.ID, false)
		var f abi.Error
		if failed, ok := errors.AsType[*host.UpdateError](err); ok && failed.Update.Failure != nil {
			u, f = failed.Update, *failed.Update.Failure
		}
		if string(u.Result) != c.result || f.Code != c.failure.Code && c.failure.Code != 0 || f.Type != c.failure.Type ||
			c.failure.Message != "" && f.Message != c.failure.Message {
			t.Errorf("%s: the update is %s, its result %.100s: %.200v", c.word, u.Status, u.Result, err)
		}
	}
	r := h.Finish("run")
	_, err := h.ResultRaw(t.Context(), "run")
	if failed, ok := errors.AsType[*host.RunError](err); !ok || failed.Failure.Type != "Huge" || failed.Failure.Message != message {
		t.Errorf("the run is %s: %.200v", r.Status, err)
	}
	if err := h.Replay(t.Context(), "run"); err != nil {
		t.Error(err)
	}
}
