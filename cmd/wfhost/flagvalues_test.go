package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestFlagValues refuses invalid values of flags as usage errors that name the flag. No request is sent, except to
// check a cursor, which only the server can do.
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
		{`--at: expected an instant such as 2026-01-31T12:00:00Z, got "tomorrow"`, "start w --at tomorrow"},
		{`--from: expected an instant such as 2026-01-31T12:00:00Z, got "2026-01-31"`, "schedule create s w --every 1h --from 2026-01-31"},
		{"--to: expected an instant", "schedule backfill s --from 2026-01-31T12:00:00Z --to now"},
		{`--log-level: expected debug, info, warn or error, got "loud"`, "serve --log-level loud"},
		{"--drain must not be negative, got -1s", "serve --drain=-1s"},
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
		{"--completed: ended runs must be kept for at least 1m0s, got 30s", "retention set w --completed 30s"},
		{"--keep-failed: expected a number from 0 to 1000000000, got \"-1\"", "retention set w --keep-failed=-1"},
		{"the retention bounds nothing: give an age such as --completed", "retention set w"},
		{"--scope: a scope is one of read, work, run, operate, upload, admin, got \"bogus\"", "tokens create --scope read,bogus"},
		{"--expires: a token lasts for at least 1s, got 0s", "tokens create --scope read --expires 0s"},
		{"--cron: expression \"bogus\"", "schedule create s w --cron bogus"},
		{"--at: expression \"yesterday\"", "schedule create s w --at yesterday"},
		{"--every: expression \"@every 0s\": the interval must be from 1s", "schedule create s w --every 0s"},
		{"--tz: time zone \"Nowhere/X\" is unknown", "schedule create s w --cron @daily --tz Nowhere/X"},
		{"--jitter: the jitter must be at most 24h", "schedule create s w --every 1h --jitter 1000d"},
		{"--catch-up: the catch-up window must be at least", "schedule create s w --every 1h --catch-up 1s"},
		{"--overlap: the overlap policy must be one of", "schedule create s w --every 1h --overlap bogus"},
		{"--overlap: the overlap policy must be one of", "schedule trigger s --overlap bogus"},
		{"--priority: expected a number from -100 to 100", "schedule create s w --every 1h --priority 1000"},
		{"--runs: expected a number from 0", "schedule create s w --every 1h --runs=-1"},
		{"--attr: attribute name must have", "schedule create s w --every 1h --attr =x"},
		{"--n: expected a number from 1 to", "schedule next s --n 0"},
		{"--concurrency: a concurrency is a number from 1", "limits set w --concurrency bogus"},
		{"--rate: a rate is a number from 1", "limits set w --rate bogus"},
		{"these limits limit nothing", "limits set w"},
		{"--priority: expected a number from -100 to 100", "start w --priority 101"},
		{"--attr: attribute name must have", "start w --attr =x"},
		{`--attr: expected KEY=VALUE, got "region"`, "start w --attr region"},
		{`--attr: "region" is given twice, and a run has one value of it`, "start w --attr region=eu --attr region=us"},
		{`--attr: "region" is given twice`, "bulk cancel --attr region=eu --attr region=us"},
		{"--memo: the memo has", "start w --memo \"" + strings.Repeat("x", 3000) + "\""},
		{"--id: run id may hold", "start w --id a/b"},
		{"--id: run id may hold", "restart r --id a/b"},
		{"--id: update id must have", "update r u --id " + strings.Repeat("x", 300)},
		{"--max-runs: expected a number from 0", "namespaces set n --max-runs=-1"},
		{"--namespace: namespace may hold", "--namespace A runs"},
		{"--limit: expected a number from 0 to 10000", "bulk cancel --workflow w --limit 10001"},
		{"--to: expected a number from 1", "migrate w --to 0"},
		{"--cpu: invalid duration", "migrate w --to 1 --cpu bogus"},
		{"--cpu: the replay of a run may compute for at most 10m0s, got 1h", "check x.wasm --cpu 1h"},
		{"--parallel: expected a number from 0 to 16", "migrate w --to 1 --parallel=-1"},
		{"--allow-http: host pattern \"???\" is no host", "upload x.wasm --allow-http a.example.com,???"},
		{"--allow-secret: ", "upload x.wasm --allow-secret bogus"},
		{"--workflow: ", "upload x.wasm --workflow a?b"},
		{"--engines: this program has the engines", "verify d --engines bogus"},
		{"--max-instances must be at least 1, got 0", "serve --max-instances 0"},
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
