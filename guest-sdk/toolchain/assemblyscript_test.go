package toolchain_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	guestsdk "github.com/wfhost/wfhost/guest-sdk"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// assemblyScript compiles a program of testdata.
func assemblyScript(t *testing.T, name string) []byte {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("testdata/assemblyscript", name))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := guestsdk.Write("as", filepath.Join(dir, "assembly/wfhost")); err != nil {
		t.Fatal(err)
	}
	project(t, dir, map[string]string{"assembly/index.ts": string(source),
		"asconfig.json": `{"entries": ["assembly/index.ts"], "targets": {"release": {}}, "options": {"runtime": "incremental"}}`})
	return compile(t, dir)
}

// TestAssemblyScriptRandom has Math.random give the same numbers on a replay, and others in another run.
func TestAssemblyScriptRandom(t *testing.T) {
	wasm := assemblyScript(t, "random.ts")
	h := hosttest.New(t)
	if _, err := h.Upload(t.Context(), "chance", wasm); err != nil {
		t.Fatal(err)
	}
	results := map[string]bool{}
	for _, id := range []string{"one", "two"} {
		if _, err := h.StartRaw(t.Context(), "chance", nil, host.WithRunID(id)); err != nil {
			t.Fatal(err)
		}
		h.Finish(id)
		got, err := h.ResultRaw(t.Context(), id)
		if err != nil || !strings.HasPrefix(string(got), "[true,0.") {
			t.Errorf("the result is %s: %v", got, err)
		}
		results[string(got)] = true
	}
	if len(results) != 2 {
		t.Errorf("two runs have the random numbers %v", results)
	}
}

// TestAssemblyScriptDate refuses a module that asks for the machine's clock, with what the host supplies.
func TestAssemblyScriptDate(t *testing.T) {
	wasm := assemblyScript(t, "date.ts")
	_, err := hosttest.New(t).Upload(t.Context(), "clock", wasm)
	const says = "env.Date.now; the host supplies workflow_v1, wasi_snapshot_preview1, and of env abort and seed"
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("the upload says %v", err)
	}
}

// TestAssemblyScriptQuote quotes a text of half a million characters, and reads it again, within the fuel of a run.
func TestAssemblyScriptQuote(t *testing.T) {
	const word = `"\u0001z\u00e9\ud83d\ude00\"\\\n\b"` // 9 units of UTF-16, for which quote needs 22
	var got string
	if err := json.Unmarshal([]byte(result(t, assemblyScript(t, "quote.ts"), "quote", word)), &got); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprint("\x01zé😀\"\\\n\b ", 22<<16+2, " true"); got != want {
		t.Errorf("it has quoted %q, want %q", got, want)
	}
}
