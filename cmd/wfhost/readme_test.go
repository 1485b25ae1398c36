package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// fileName matches the first line of a Go block that the reader saves as a file.
var fileName = regexp.MustCompile(`^// ([a-z_/]+\.go)$`)

// typed returns the script of a page, in the page's order: it writes each Go block that begins with a file name, and
// runs each "sh tutorial" block.
func typed(text string) string {
	var script, block strings.Builder
	fence := ""
	for line := range strings.Lines(text) {
		bare := strings.TrimSuffix(line, "\n")
		switch {
		case fence == "" && strings.HasPrefix(bare, "```"):
			fence = bare
			block.Reset()
		case fence == "":
		case bare != "```":
			block.WriteString(line)
		default:
			first, _, _ := strings.Cut(block.String(), "\n")
			if name := fileName.FindStringSubmatch(first); fence == "```go" && name != nil {
				fmt.Fprintf(&script, "mkdir -p %s\nbase64 -d >%s <<<%s\n", filepath.Dir(name[1]), name[1],
					base64.StdEncoding.EncodeToString([]byte(block.String())))
			} else if fence == "```sh tutorial" {
				script.WriteString(block.String())
			}
			fence = ""
		}
	}
	return script.String()
}

// TestTutorials runs the scripts of the pages with tutorials.
func TestTutorials(t *testing.T) {
	for _, c := range []struct {
		page string
		has  map[string]int // minimum number of occurrences of each text in the output
	}{
		{"README.md", map[string]int{"hello Ada, and good morning": 3, `step_result`: 1}},
		{"docs/learn/tutorial.md", map[string]int{"hello Ada, and good morning": 1, "lamp is shipped, approved by Ada, payment of 1200 cents": 2,
			"waits for the signal": 0, "1 compatible": 1}},
	} {
		t.Run(c.page, func(t *testing.T) {
			text := perform(t, filepath.Join("..", "..", c.page))
			for want, n := range c.has {
				if got := strings.Count(text, want); got < n {
					t.Errorf("%q was printed %d times, want %d", want, got, n)
				}
			}
			if !strings.Contains(text, "sleeping") && !strings.Contains(text, "waiting") {
				t.Error("no run was shown asleep or waiting")
			}
			if t.Failed() || os.Getenv("SHOW") != "" {
				t.Log(text)
			}
		})
	}
}

// perform runs the script of a page and returns its output.
func perform(t *testing.T, page string) string {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	script := typed(string(b))
	if !strings.Contains(script, "wfhost serve") {
		t.Fatalf("%s has nothing to type", page)
	}
	// Build the workflows within this module, where their import is found.
	dir, err := os.MkdirTemp(".", "tutorial-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	address := freeAddress(t)
	// Wait longer for the server than the page does, since the machine may be busy, and stop the server after the test.
	script = strings.ReplaceAll(script, "server=$!\n",
		"server=$!\nuntil (: </dev/tcp/"+strings.Replace(address, ":", "/", 1)+") 2>/dev/null; do sleep 0.1; done\n")
	script = strings.ReplaceAll(script, "kill -9 $server\n", "kill -9 $server\nwait $server || true\n") // or its port still answers
	cmd := exec.Command("bash", "-euc", "trap 'kill $server' EXIT\n"+script)
	cmd.WaitDelay = 10 * time.Second
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(binary(t))+":"+os.Getenv("PATH"), "WFHOST_LISTEN="+address,
		"WFHOST_SERVER=http://"+address)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}
