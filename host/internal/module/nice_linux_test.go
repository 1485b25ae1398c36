package module

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

func init() {
	// Threads from before the limits were set, and later ones.
	builds["asks"] = func(_ context.Context, _ []byte, dir string) error {
		const threads = 8
		ready, done := make(chan bool), make(chan bool)
		defer close(done)
		for range threads {
			go func() {
				runtime.LockOSThread()
				ready <- true
				<-done
			}()
		}
		for range threads {
			<-ready
		}
		all, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		var b strings.Builder
		for _, t := range all {
			id, err := strconv.Atoi(t.Name())
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintln(&b, nicenessOf(id))
		}
		return os.WriteFile(filepath.Join(dir, "built"), []byte(b.String()), 0o600)
	}
}

// TestLowPriority checks the priority of each thread of a child.
func TestLowPriority(t *testing.T) {
	dir := t.TempDir()
	if err := NewCompiler([]string{os.Args[0], "asks"}, tight).Build(t.Context(), nil, dir); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "built"))
	all := strings.Fields(string(b))
	if err != nil || len(all) < 9 {
		t.Fatal(all, err)
	}
	for _, text := range all {
		if n, err := strconv.Atoi(text); err != nil || n != max(niceness, nicenessOf(0)) {
			t.Fatalf("the threads have %v, want %d", all, max(niceness, nicenessOf(0)))
		}
	}
}
