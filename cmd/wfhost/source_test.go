package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// private writes a file that only its owner can read.
func private(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestSources reads secrets from a file, the environment and a command. Error messages do not reveal them.
func TestSources(t *testing.T) {
	dir := t.TempDir()
	good, open, large := filepath.Join(dir, "good"), filepath.Join(dir, "open"), filepath.Join(dir, "large")
	private(t, good, "hidden")
	private(t, open, "hidden")
	private(t, large, strings.Repeat("x", maxSourceBytes+1))
	if err := os.Chmod(open, 0o640); err != nil {
		t.Fatal(err)
	}
	t.Setenv("WFHOST_TEST_SOURCE", "hidden")
	for _, from := range []string{good, "file:" + good, "env:WFHOST_TEST_SOURCE", "command:cat " + good} {
		if b, err := source(from).read(t.Context(), os.Stderr); err != nil || string(b) != "hidden" {
			t.Errorf("%s: %q, %v", from, b, err)
		}
	}
	for from, want := range map[string]string{
		"file:" + open:             "has mode 0640",
		large:                      "it is longer than 1048576 bytes",
		"command:cat " + large:     "it is longer than 1048576 bytes",
		"command:":                 "names no program",
		"command:/no/such/program": "no such file",
		"env:WFHOST_TEST_NONE":     "the environment has no WFHOST_TEST_NONE",
		filepath.Join(dir, "none"): "no such file",
	} {
		_, err := source(from).read(t.Context(), os.Stderr)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v, want %q", from, err, want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := source("command:sleep 100").read(ended, os.Stderr); err == nil {
		t.Error("a command is waited for whose caller has gone")
	}
}

// TestSecretsChange changes secrets: a change in a file takes effect at once, a change in a command's output after a
// while. If the source fails, the last output of a command is kept, but not the content of a file.
func TestSecretsChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secrets")
	g := &globals{ctx: t.Context(), io: stdio{err: os.Stderr}}
	put := func(v string) { private(t, path, fmt.Sprintf(`{"key":%q}`, v)) }
	put("one")
	file := &secrets{from: source(path), g: g, log: slog.New(slog.DiscardHandler)}
	command := &secrets{from: source("command:cat " + path), g: g, log: slog.New(slog.DiscardHandler)}
	now := time.Unix(0, 0)
	is := func(s *secrets, want string, fails bool) {
		t.Helper()
		all, err := s.all(now)
		if all["key"] != want || (err != nil) != fails {
			t.Errorf("%s at %v: %q, %v; want %q", s.from, now, all["key"], err, want)
		}
	}
	is(file, "one", false)
	is(command, "one", false)
	put("two")
	is(file, "two", false)
	is(command, "one", false)
	now = now.Add(sourceAge)
	is(command, "two", false)
	private(t, path, "[]")
	now = now.Add(sourceAge)
	is(file, "", true)
	is(command, "two", true)
	is(command, "two", false) // it is not run for each use
	put("three")
	now = now.Add(sourceAge)
	is(file, "three", false)
	is(command, "three", false)
	if _, err := g.openSecrets("env:WFHOST_TEST_NONE", file.log); err == nil {
		t.Error("secrets that cannot be read are found out when they are needed")
	}
	if get, err := g.openSecrets(source(path), file.log); err != nil {
		t.Error(err)
	} else if v, ok := get("key"); v != "three" || !ok {
		t.Errorf("%q %v", v, ok)
	} else if _, ok := get("other"); ok {
		t.Error("a secret that there is not")
	}
}
