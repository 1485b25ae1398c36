package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// untilWriter records the output, and calls found when it contains text.
type untilWriter struct {
	text  string
	found func()

	mu  sync.Mutex
	all bytes.Buffer
}

func (w *untilWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all.Write(p)
	if strings.Contains(w.all.String(), w.text) {
		w.found()
	}
	return len(p), nil
}

// TestRunSaysForWhatItWaits runs workflows whose steps call a missing handler, and interrupts them when they report
// that.
func TestRunSaysForWhatItWaits(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"mail.ts":   `import { call } from "@wfhost/workflow"; export default async () => await call("host/mail", 1);`,
		"twice.ts":  `import { call } from "@wfhost/workflow"; export default () => Promise.all([call("host/mail"), call("host/mail")]);`,
		"parent.ts": `import { call, child, workflow } from "@wfhost/workflow"; workflow("kid", () => call("host/mail")); workflow("parent", () => child("kid"));`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		handler string
		args    []string
	}{
		{"mail", []string{filepath.Join(dir, "mail.ts"), "--id", "r", "--skip-sleep"}},
		{"mail", []string{filepath.Join(dir, "mail.ts"), "--id", "r", "--quiet"}},
		{"mail", []string{filepath.Join(dir, "twice.ts"), "--id", "r", "--skip-sleep", "--data", filepath.Join(dir, "data")}},
		{"mail", []string{filepath.Join(dir, "parent.ts"), "--id", "r", "--workflow", "parent"}},
		{"charge", []string{orderFolder, "--id", "r", "--skip-sleep", "--input", `{"order":"a-1","cents":1250}`}},
	} {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute) // far longer than it takes
		want := " waits for the handler " + c.handler + ", which is not there; to add it: --handler " + c.handler +
			"=URL --handler-secret SOURCE, or, without --skip-sleep, --worker-handler " + c.handler + "; see wfhost run --help\n"
		errs := &untilWriter{text: want, found: stop}
		code := execute(ctx, append([]string{"run"}, c.args...), stdio{in: strings.NewReader(""), out: &bytes.Buffer{}, err: errs})
		stop()
		got := errs.all.String()
		if code != exitInterrupted || strings.Count(got, want) != 1 || !strings.Contains(got, "wfhost: run r") {
			t.Errorf("%v: %d %s", c.args, code, got)
		}
	}
}
