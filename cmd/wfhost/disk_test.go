package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestServeWithAFullDisk restarts a server with a reserve larger than any disk. The server refuses new work with
// status 507 and a sentence that does not reveal its folders to strangers. It still answers reads, and ends and
// deletes runs.
func TestServeWithAFullDisk(t *testing.T) {
	exe, address, data := binary(t), freeAddress(t), t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	try := func(args ...string) (code int, out string) {
		var b bytes.Buffer
		code = execute(ctx, append([]string{"--server", "http://" + address}, args...), stdio{in: strings.NewReader(""), out: &b, err: &b})
		return code, b.String()
	}
	run := func(want int, says string, args ...string) {
		t.Helper()
		if code, out := try(args...); code != want || !strings.Contains(out, says) {
			t.Fatalf("%v: exit code %d, want %d, saying %q:\n%s", args, code, want, says, out)
		}
	}
	stop := startServer(t, exe, data, address)
	defer func() { stop(false) }()
	run(exitOK, "s01@1", "upload", "../../host/testdata/s01")
	run(exitOK, "hooked", "upload", "../../host/testdata/primitives")
	run(exitOK, "r1", "start", "s01", "--id", "r1", "--input", "86400000")
	run(exitOK, "r2", "start", "hooked", "--id", "r2", "--input", `"a-token-of-ones-own"`)
	for out := ""; !strings.Contains(out, "waiting"); {
		_, out = try("show", "r2")
		if ctx.Err() != nil {
			t.Fatal(out)
		}
	}
	stop(false)
	stop = startServer(t, exe, data, address, "--disk-reserve", "1000000000000000")
	const full = " are kept for the runs that are there; nothing new is accepted until there is room"
	run(exitError, full, "start", "s01", "--input", "1")
	run(exitError, full, "signal", "r2", "delivery", `"x"`)
	run(exitError, full, "upload", "../../host/testdata/v2")
	run(exitError, "the server has no room for this", "deliver", "a-token-of-ones-own", `"x"`)
	for path, want := range map[string]string{"/v1/hooks/a-token-of-ones-own": `507 "code":"disk_full"`,
		"/v1/runs/r2/signals/delivery": `507 "code":"disk_full"`, "/readyz": `200 "disk_full":true`} {
		method := http.MethodPost
		if path == "/readyz" {
			method = http.MethodGet
		}
		req, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, strings.NewReader(`"x"`))
		if err != nil {
			t.Fatal(err)
		}
		authorize(t, req)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if status, text, _ := strings.Cut(want, " "); err != nil || !strings.HasPrefix(res.Status, status) ||
			!strings.Contains(string(b), text) || strings.Contains(path, "hooks") && strings.Contains(string(b), data) {
			t.Errorf("%s: %s %s, want %s", path, res.Status, b, want)
		}
	}
	run(exitOK, "", "wake", "r1")
	run(exitOK, `"ab"`, "result", "r1", "--wait")
	run(exitOK, "", "delete", "r1")
	run(exitOK, "", "terminate", "r2")
}
