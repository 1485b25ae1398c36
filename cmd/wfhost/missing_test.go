package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host"
)

// TestMissingFiles returns the exit code for a missing file, and creates none.
func TestMissingFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("w.wasm", []byte("\x00asm\x01\x00\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string]string{
		"stat gone: no such file or directory":             "restore gone --data new",
		"open gone: no such file or directory":             "import gone",
		"gone holds no data of wfhost":                     "keys forget k --data gone",
		"gone holds neither data of wfhost nor a backup":   "verify gone",
		"gone: there is no such file or folder":            "run gone",
		"gone holds no data of wfhost\n":                   "upgrade-store --data gone",
		"--input-file: open gone: no such file":            "start w --input-file gone",
		"gone holds neither data of wfhost nor a backup\n": "keys list gone",
	} {
		if code, _, errs := command(strings.Fields(args)...); code != exitNotFound || !strings.HasPrefix(errs, "wfhost: "+want) {
			t.Errorf("%s: %d %q, want %q", args, code, errs, want)
		}
	}
	if list, err := os.ReadDir("."); err != nil || len(list) != 1 {
		t.Errorf("left behind: %v, %v", list, err)
	}
}

// TestServerAddress refuses invalid server addresses, also when they are saved in an environment.
func TestServerAddress(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for address, want := range map[string]string{
		"ftp://x":      `--server must be an address such as https://wf.example.com:7777, got "ftp://x"`,
		"unix:///sock": `--server must be an address such as https://wf.example.com:7777, got "unix:///sock"`,
		"http://":      `--server must be an address such as https://wf.example.com:7777, got "http://"`,
		"http://a b":   `--server must be an address such as https://wf.example.com:7777, got "http://a b"`,
		"example.com":  `--server must begin with https:// or http:// where it is not this machine, got "example.com"`,
	} {
		for _, args := range [][]string{{"runs"}, {"env", "set", "prod"}} {
			code, out, errs := command(append([]string{"--server", address}, args...)...)
			if code != exitUsage || out != "" || !strings.HasPrefix(errs, "wfhost: "+want) {
				t.Errorf("%s, %s: %d %q %q, want %q", address, args, code, out, errs, want)
			}
		}
	}
}

// TestCheckText shows a missing run without its other fields.
func TestCheckText(t *testing.T) {
	gone := host.RunCheck{RunID: "gone", Outcome: host.CheckNotChecked, Reason: "there is no such run"}
	if got := checkText(&gone); got != "gone  not checked: there is no such run" {
		t.Error(got)
	}
}

// TestExportPlace refuses an output path that exists and is not a regular file, before any request. Otherwise the run
// would be set aside without an archive, or a device would be replaced by a file.
func TestExportPlace(t *testing.T) {
	t.Setenv("WFHOST_TOKEN", "x")
	t.Chdir(t.TempDir())
	if err := os.Mkdir("folder", 0o700); err != nil {
		t.Fatal(err)
	}
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"status":404,"code":"not_found","detail":"run \"r\": not found"}`))
	}))
	defer s.Close()
	for _, args := range [][]string{{"export", "r", "folder"}, {"export", "r", "folder", "--move"}} {
		code, _, errs := command(append([]string{"--server", s.URL}, args...)...)
		if want := "wfhost: <file> must be a file, or the name of a new one, got \"folder\", which is a folder\n"; code != exitUsage ||
			errs != want || asked != 0 {
			t.Errorf("%q: %d %q, asked %d times", args, code, errs, asked)
		}
	}
	code, _, errs := command("--server", s.URL, "export", "r", "--move") // it is not set aside
	if code != exitNotFound || errs != "wfhost: run \"r\": not found\n" {
		t.Errorf("%d %q", code, errs)
	}
	if list, err := os.ReadDir("."); err != nil || len(list) != 1 {
		t.Errorf("left behind: %v, %v", list, err)
	}
}
