package main

import (
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The command line takes precedence over the environment. Two tokens on the command line are refused.
func TestWhichToken(t *testing.T) {
	var got string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		_, _ = w.Write([]byte(`{"items":[]}`))
	}))
	defer s.Close()
	dir := t.TempDir()
	file := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, x := range []struct {
		envText, envFile string
		args             []string
		want             string
	}{
		{"", "", nil, ""}, {"env", "", nil, "env"}, {"", file("envfile"), nil, "envfile"}, {"env", file("envfile"), nil, "envfile"},
		{"env", file("envfile"), []string{"--token", "flag"}, "flag"},
		{"env", file("envfile"), []string{"--token-file", file("flagfile")}, "flagfile"},
	} {
		t.Setenv("WFHOST_TOKEN", x.envText)
		t.Setenv("WFHOST_TOKEN_FILE", x.envFile)
		got = "none"
		if code, _, errs := command(append([]string{"--server", s.URL, "tokens", "list"}, x.args...)...); code != exitOK || got != x.want {
			t.Errorf("%+v: %d %s, the token was %q", x, code, errs, got)
		}
	}
	code, _, errs := command("--server", s.URL, "tokens", "list", "--token", "a", "--token-file", file("b"))
	if code != exitUsage || !strings.Contains(errs, "cannot both be given") {
		t.Error(code, errs)
	}
	t.Setenv("WFHOST_TOKEN_FILE", filepath.Join(dir, "missing"))
	if code, _, errs := command("--server", s.URL, "tokens", "list"); code != exitDenied || !strings.Contains(errs, "WFHOST_TOKEN_FILE") {
		t.Error(code, errs)
	}
}

// Commands that would lose or leak something are refused before any request. Names are escaped in paths.
func TestRefusedBeforeItIsSent(t *testing.T) {
	t.Setenv("WFHOST_TOKEN", "x")
	var paths []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.EscapedPath())
		w.WriteHeader(http.StatusNoContent)
	}))
	defer s.Close()
	for says, args := range map[string][]string{
		"revoke it by its id":        {"tokens", "revoke", "wfh_0123456789"},
		"lose the text of the token": {"tokens", "create", "--scope", "read", "--format", "ids"},
		"must begin with https://":   {"--server", "example.com:7777", "runs"},
	} {
		if code, _, errs := command(append([]string{"--server", s.URL}, args...)...); code != exitUsage || !strings.Contains(errs, says) {
			t.Errorf("%v: %d %s", args, code, errs)
		}
	}
	if len(paths) > 0 {
		t.Errorf("sent: %v", paths)
	}
	for _, args := range [][]string{{"tokens", "revoke", ".."}, {"retention", "delete", ".."}} {
		if code, _, errs := command(append([]string{"--server", strings.TrimPrefix(s.URL, "http://")}, args...)...); code != exitOK {
			t.Errorf("%v: %d %s", args, code, errs)
		}
	}
	_, _, _ = command("--server", s.URL, "retention", "set", "..", "--keep", "1") // the answer is empty
	if want := "/v1/tokens/%2E%2E /v1/retention/%2E%2E /v1/retention/%2E%2E"; strings.Join(paths, " ") != want {
		t.Errorf("paths %v, want %s", paths, want)
	}
}

// serve refuses flags that are invalid or could never have an effect.
func TestServeRefuses(t *testing.T) {
	for _, c := range []*serveCmd{{Hosts: []string{"api.example.com:443"}}, {Hosts: []string{"https://api.example.com"}}, {Hosts: []string{""}},
		{Hosts: []string{"*.example.com"}}, {AllowOrigin: []string{"app.example.com"}}, {AllowOrigin: []string{"https://app.example.com/"}},
		{AllowOrigin: []string{"https://App.example.com"}}, {AllowOrigin: []string{"https://app.example.com:443"}},
		{AllowOrigin: []string{"*"}}, {AllowOrigin: []string{"https://*.example.com"}}, {AllowOrigin: []string{"null"}}} {
		if c.checkNames() == nil {
			t.Errorf("%q and %q are accepted", c.Hosts, c.AllowOrigin)
		}
	}
	good := &serveCmd{Hosts: []string{"api.example.com", "wf"}, AllowOrigin: []string{"https://app.example.com", "http://localhost:3000"}}
	if err := good.checkNames(); err != nil {
		t.Error(err)
	}
	rated := serveCmd{MaxInstances: 1, CompileCPU: leastCompileTime, CompileTime: leastCompileTime, CompileMemory: leastCompileBytes,
		MaxStreams: 1, MaxConnections: 1, MaxChildren: 1, MaxRuns: 1, JournalBytes: leastJournalBytes, GuestBytes: leastGuestBytes,
		MaxCallsPerHandler: 1, MaxCalls: 1}
	for rate, ok := range map[float64]bool{0: true, 1000: true, -1: false, math.Inf(1): false, math.NaN(): false} {
		rated.Rate = rate
		if err := rated.checkMemory(); (err == nil) != ok {
			t.Errorf("--rate %g: %v", rate, err)
		}
	}
	rated.Rate = 0
	for _, calls := range [][2]int{{0, 1}, {1, 0}, {-1, 1}} {
		rated.MaxCallsPerHandler, rated.MaxCalls = calls[0], calls[1]
		if rated.checkMemory() == nil {
			t.Errorf("%d calls of a handler, and %d of all, are accepted", calls[0], calls[1])
		}
	}
	rated.MaxCallsPerHandler, rated.MaxCalls = 1, 1
	for _, bytes := range []int64{-1, 0, leastGuestBytes - 1} {
		rated.GuestBytes = bytes
		if rated.checkMemory() == nil {
			t.Errorf("--guest-bytes %d is accepted", bytes)
		}
	}
}

// Inputs are sent unchanged, without HTML escapes.
func TestSentAsGiven(t *testing.T) {
	t.Setenv("WFHOST_TOKEN", "x")
	var body []byte
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		_, _ = w.Write([]byte("{}"))
	}))
	defer s.Close()
	const input = `{"to":"Ada & <Bob>"}`
	for _, args := range [][]string{
		{"start", "w", "--input", input},
		{"start", "w", "--memo", input},
		{"start", "w", "--signal", "s=" + input},
		{"schedule", "create", "s", "w", "--every", "1h", "--input", input},
		{"schedule", "create", "s", "w", "--every", "1h", "--memo", input},
	} {
		code, _, errs := command(append([]string{"--server", s.URL}, args...)...)
		if code != exitOK || !strings.Contains(string(body), input) {
			t.Errorf("%v: %d %s, sent: %s", args, code, errs, body)
		}
	}
}
