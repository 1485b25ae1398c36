package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestServeNeedsACompiler: a server that cannot start a compiler process with limits does not start, and creates no
// files.
func TestServeNeedsACompiler(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	var out, errs bytes.Buffer
	code := execute(t.Context(), []string{"serve", "--data", data, "--listen", "127.0.0.1:0"},
		stdio{in: strings.NewReader(""), out: &out, err: &errs, self: func() []string { return nil }})
	if code != exitError || !strings.HasPrefix(errs.String(), "wfhost: uploads would be compiled without limits") {
		t.Errorf("%d %q %q", code, out.String(), errs.String())
	}
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Error(err)
	}
}
