package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestFlagValues refuses values of flags that cannot be as a wrong command line, by the names of the flags. Nothing is sent, but
// for a cursor, which only a server knows.
func TestFlagValues(t *testing.T) {
	t.Setenv("WFHOST_TOKEN", "x")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("cursor") == "" {
			t.Errorf("asked for %s", r.URL)
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"status":400,"code":"invalid","detail":"cursor must be milliseconds"}`))
	}))
	defer s.Close()
	for _, c := range []struct{ want, args string }{
		{`--where: "a!=1"`, "runs --where a!=1"},
		{"--where: a condition is such as", "runs --where a=1 --where b"},
		{`--where: "a=>1"`, "bulk cancel --where a=>1"},
		{"--status: there is no status", "bulk cancel --status bogus"},
		{`--created-from: expected an instant such as 2026-01-31T12:00:00Z, got "yest"`, "runs --created-from yest"},
		{"--created-before: expected an instant", "runs --created-before 2026-01-31"},
		{"--from: expected an instant", "audit --from yest"},
		{"--since: invalid duration", "runs --since 1x"},
		{`--limit: expected a number from 1 to 1000, got "0"`, "runs --limit 0"},
		{"--limit: expected a number from 1 to 1000", "timers --limit 1001"},
		{"--limit: expected a number from 1 to 1000", "timers --limit few"},
		{"--within: invalid duration", "timers --within 5x"},
		{"--in: invalid duration", "start w --in 5x"},
		{"--timeout: invalid duration", "start w --timeout 5"},
		{"--completed: invalid duration", "retention set w --completed 1y"},
		{"--expires: invalid duration", "tokens create --scope read --expires 1y"},
		{"--every: invalid duration", "schedule create s w --every 1x"},
		{"--jitter: invalid duration", "schedule create s w --every 1h --jitter 1x"},
		{"--every: invalid duration", "top --every 1x"},
		{"-n must not be negative, got -1", "top --n=-1"},
		{"--format ids: counts have no ids", "--format ids count"},
		{"--cursor: cursor must be", "runs --cursor xx"},
		{"--cursor: cursor must be", "timers --cursor xx"},
	} {
		code, out, errs := command(append([]string{"--server", s.URL}, strings.Fields(c.args)...)...)
		if code != exitUsage || out != "" || !strings.HasPrefix(errs, "wfhost: "+c.want) {
			t.Errorf("%s: %d %q %q, want %q", c.args, code, out, errs, c.want)
		}
	}
}
