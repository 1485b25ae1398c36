package guestsdk_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	guestsdk "github.com/wfhost/wfhost/guest-sdk"
)

// TestCalls compares the calls that the SDKs declare with the ABI: each is there once, with as many values as it takes.
func TestCalls(t *testing.T) {
	for _, c := range []struct {
		path, pattern string
		missing       string // what the SDK does without
	}{
		{"rust/src/sys.rs", `(?s)(?:#\[link_name = "(\w+)"\]\s+)?pub fn (\w+)\(([^)]*)\)`, ""},
		{"assemblyscript/assembly/sys.ts", `@external\("workflow_v1", "(\w+)"\) export declare function (\w+)\(([^)]*)\)`,
			"sleep sleep_until sleep_text step_do signal_wait child_run next_event wait_event"},
	} {
		b, err := os.ReadFile(c.path)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]int{}
		for _, m := range regexp.MustCompile(c.pattern).FindAllStringSubmatch(string(b), -1) {
			name := m[1]
			if name == "" {
				name = m[2]
			}
			n := strings.Count(m[3], ":")
			if sig, ok := abi.Functions[name]; !ok || n != len(sig.Params) {
				t.Errorf("%s: %s takes %d values, the ABI says %d", c.path, name, n, len(sig.Params))
			}
			found[name]++
		}
		for name := range abi.Functions {
			want := 1
			if strings.Contains(" "+c.missing+" ", " "+name+" ") {
				want = 0
			}
			if found[name] != want {
				t.Errorf("%s: %s is there %d times, want %d", c.path, name, found[name], want)
			}
		}
	}
}

// TestWrite writes what a project needs.
func TestWrite(t *testing.T) {
	for lang, files := range map[string][]string{
		"c": {"workflow.h"}, "cpp": {"workflow.h", "workflow.hpp"}, "rust": {"Cargo.toml", "src/lib.rs", "src/sys.rs"},
		"as": {"index.ts", "json.ts", "sys.ts"},
	} {
		dir := t.TempDir()
		if err := guestsdk.Write(lang, dir); err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if info, err := os.Stat(filepath.Join(dir, f)); err != nil || info.Size() == 0 {
				t.Errorf("%s: %s: %v", lang, f, err)
			}
		}
	}
	if err := guestsdk.Write("cobol", t.TempDir()); err == nil {
		t.Error("there is an SDK for cobol")
	}
}
