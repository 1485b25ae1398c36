package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// block gives the lines of README.md between a fence and its end.
func block(t *testing.T, readme, fence string) string {
	t.Helper()
	_, rest, ok := strings.Cut(readme, fence+"\n")
	text, _, end := strings.Cut(rest, "```")
	if !ok || !end {
		t.Fatalf("README.md has no block %q", fence)
	}
	return text
}

// TestTutorial types the commands of the README's tutorial.
func TestTutorial(t *testing.T) {
	b, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := string(b)
	// The workflow is built within this module, where its import is found.
	dir, err := os.MkdirTemp(".", "tutorial-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Mkdir(filepath.Join(dir, "nap"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "nap", "main.go"), []byte(block(t, readme, "```go")), 0o600); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	// A busy machine may need more than the second that the text gives a server, and no server outlives the test.
	script := strings.ReplaceAll(block(t, readme, "```sh tutorial"), "server=$!\n",
		"server=$!\nuntil (: </dev/tcp/"+strings.Replace(address, ":", "/", 1)+") 2>/dev/null; do sleep 0.1; done\n")
	script = strings.Replace(script, "kill -9 $server\n", "kill -9 $server\nwait $server || true\n", 1) // or its port still answers
	cmd := exec.Command("bash", "-euc", "trap 'kill $server' EXIT\n"+script)
	cmd.WaitDelay = 10 * time.Second
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(binary(t))+":"+os.Getenv("PATH"), "WFHOST_LISTEN="+address,
		"WFHOST_SERVER=http://"+address)
	out, err := cmd.CombinedOutput()
	text := string(out)
	if err != nil || strings.Count(text, "hello Ada, and good morning") < 3 || !strings.Contains(text, "sleeping") &&
		!strings.Contains(text, "waiting") || strings.Count(text, "step_result") != 1 {
		t.Fatalf("%v\n%s", err, text)
	}
}
