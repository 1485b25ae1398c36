package examples_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// results lists what each example gives for an input, and how long it sleeps.
var results = map[string]struct {
	input any
	want  string
	took  time.Duration
}{
	"drip":      {map[string]string{"email": "ada@example.com"}, "4", 6 * 24 * time.Hour},
	"reminder":  {map[string]string{"text": "water"}, "", 7 * 24 * time.Hour},
	"launch":    {hosttest.Epoch.Add(time.Hour), `"launched at 2026-01-05T09:00:00Z"`, time.Hour},
	"ratelimit": {[]string{"a", "b", "c"}, "3", 30 * time.Second},
	"poll":      {4, "4", 15 * time.Second},
	"backoff":   {4, `["1s","2s","4s"]`, 7 * time.Second},
	"daily":     {3, `["2026-01-05T09:00:00Z","2026-01-06T09:00:00Z","2026-01-07T09:00:00Z"]`, 49 * time.Hour},
	"nightly":   {map[string]string{"of": "sales"}, `"sales of Monday 2026-01-05"`, 0},
	"parallel":  {[]string{"a", "b"}, `["A","B"]`, 0},
	"plain":     {"Ada", "hello \"Ada\" after 73 hours\n", 73 * time.Hour},
	"hello-c":   {"Ada", `"hello Ada"`, 3 * 24 * time.Hour},
}

// tested lists the examples that have tests of their own.
var tested = []string{"embed", "orders", "approval", "trial", "progress", "cooldown", "fanout", "cleanup", "upgrade", "relay", "bench", "worker",
	"printer", "definitions", "cart", "invoices", "c", "cpp", "rust", "assemblyscript", "typescript"}

func build(t *testing.T, name string) []byte {
	switch name {
	case "plain":
		return hosttest.BuildCommand(t, name)
	case "hello-c":
		for _, tool := range []string{"clang", "wasm-ld"} {
			if _, err := exec.LookPath(tool); err != nil {
				t.Skipf("SKIPPED: %s is not installed, so the C example was not tested", tool)
			}
		}
		out := filepath.Join(t.TempDir(), "hello.wasm")
		cmd := exec.Command("clang", "--target=wasm32", "-mbulk-memory", "-O2", "-Wall", "-Werror", "-nostdlib", "-Wl,--no-entry", "-o", out, "hello-c/hello.c")
		if b, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	return hosttest.Build(t, name)
}

func TestExamples(t *testing.T) {
	folders, err := filepath.Glob("*/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range folders {
		name := filepath.Dir(path)
		t.Run(name, func(t *testing.T) {
			c, ok := results[name]
			if !ok {
				if !slices.Contains(tested, name) {
					t.Fatal("this example has no test")
				}
				return
			}
			h := hosttest.New(t)
			ctx := context.Background()
			if _, err := h.Upload(ctx, name, build(t, name)); err != nil {
				t.Fatal(err)
			}
			run, err := h.Start(ctx, name, c.input)
			if err != nil {
				t.Fatal(err)
			}
			r := h.Finish(run.ID)
			got, err := h.ResultRaw(ctx, run.ID)
			if err != nil || c.want != "" && string(got) != c.want {
				t.Errorf("result %s, %v; want %s", got, err, c.want)
			}
			if r.Status != host.Completed || r.Ended.Sub(hosttest.Epoch) != c.took {
				t.Errorf("%s after %v, want %v", r.Status, r.Ended.Sub(hosttest.Epoch), c.took)
			}
		})
	}
}
