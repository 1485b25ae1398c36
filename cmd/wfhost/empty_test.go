package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// TestNothingGiven refuses empty names and folders before anything is sent or written.
func TestNothingGiven(t *testing.T) {
	t.Setenv("WFHOST_TOKEN", "x")
	t.Chdir(t.TempDir())
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { t.Errorf("asked for %s", r.URL) }))
	defer s.Close()
	for _, c := range []struct {
		want string
		args []string
	}{
		{"<run>", []string{"cancel", ""}},
		{"<run>", []string{"show", ""}},
		{"<run>", []string{"export", ""}},
		{"<name>", []string{"wake", "r", ""}},
		{"<name>", []string{"signal", "r", "", "1"}},
		{"<token>", []string{"deliver", "", "1"}},
		{"<place>", []string{"backup", ""}},
		{"<path>", []string{"upload", ""}},
		{"<schedule>", []string{"schedule", "show", ""}},
		{"<workflow>", []string{"workflow", ""}},
		{"--id", []string{"start", "w", "--id", ""}},
		{"--id", []string{"start", "w", "--id="}},
		{"--get", []string{"update", "r", "u", "--get", ""}},
		{"--key", []string{"signal", "r", "s", "1", "--key", ""}},
		{"--from", []string{"restart", "r", "--from", ""}},
		{"--workflow", []string{"bulk", "cancel", "--status", "sleeping", "--workflow", ""}},
		{"--status", []string{"bulk", "cancel", "--workflow", "w", "--status", ""}},
		{"--namespace", []string{"--namespace", "", "runs"}},
		{"--token", []string{"--token", "", "runs"}},
		{"--data", []string{"serve", "--data", ""}},
		{"--data", []string{"restore", "b", "--data", ""}},
		{"--data", []string{"backup", "b", "--data", ""}},
		{"--data", []string{"upgrade-store", "--data", ""}},
		{"--encryption-keys", []string{"serve", "--encryption-keys", ""}},
	} {
		code, out, errs := command(append([]string{"--server", s.URL}, c.args...)...)
		if want := "wfhost: " + c.want + " must not be empty, got \"\"\n"; code != exitUsage || out != "" || errs != want {
			t.Errorf("%q: %d %q %q, want %q", c.args, code, out, errs, want)
		}
	}
	t.Setenv("WFHOST_DATA", "")
	if code, _, errs := command("serve"); code != exitUsage || !strings.HasPrefix(errs, "wfhost: --data must not be empty") {
		t.Errorf("WFHOST_DATA: %d %q", code, errs)
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestMayBeEmpty sends a request without the optional values that are empty.
func TestMayBeEmpty(t *testing.T) {
	t.Setenv("WFHOST_TOKEN", "x")
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		_, _ = w.Write([]byte(`{"items":[]}`))
	}))
	defer s.Close()
	for _, args := range [][]string{{"signal", "r", "s", ""}, {"runs", "--cursor", "", "--since", ""},
		{"start", "w", "--timeout", "", "--memo", ""}} {
		asked = 0
		if code, _, errs := command(append([]string{"--server", s.URL}, args...)...); code != exitOK || asked != 1 {
			t.Errorf("%q: %d %q, asked %d times", args, code, errs, asked)
		}
	}
}

// TestAttributeText sends the value of an attribute unchanged, even if it contains separators.
func TestAttributeText(t *testing.T) {
	t.Setenv("WFHOST_TOKEN", "x")
	var got string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.URL.Query().Get("attr.note")
		_, _ = w.Write([]byte(`{"items":[]}`))
	}))
	defer s.Close()
	const note = "a;b=c,d=e"
	if code, _, errs := command("--server", s.URL, "runs", "--attr", "note="+note, "--attr", "x=1"); code != exitOK || got != note {
		t.Errorf("%d %q, %q was sent", code, errs, got)
	}
}
