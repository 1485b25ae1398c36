package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
)

// TestServeListensFirst starts a server while another process still holds its data. The server answers at once that
// it is alive and starting. It refuses requests until the store is open, and only then prints that it serves.
func TestServeListensFirst(t *testing.T) {
	data, address := t.TempDir(), freeAddress(t)
	h, err := host.Open(t.Context(), host.Config{Dir: data, Interpreter: true})
	if err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, "serve", "--data", data, "--listen", address)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ask := func(path string) (*http.Response, string) {
		for {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := http.DefaultClient.Do(req)
			if ctx.Err() != nil {
				t.Fatal("the server does not listen")
			}
			if err != nil { // not yet
				continue
			}
			b, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			return res, string(b)
		}
	}
	ready := func() (r httpapi.Readiness, status int) {
		res, text := ask("/readyz")
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return r, res.StatusCode
	}
	if r, status := ready(); status != http.StatusServiceUnavailable || r.Status != httpapi.Starting || r.Stage != "opening" {
		t.Errorf("%d %+v", status, r)
	}
	if res, text := ask("/healthz"); res.StatusCode != http.StatusOK {
		t.Errorf("%d %s", res.StatusCode, text)
	}
	if res, text := ask("/v1/runs"); res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" ||
		!strings.Contains(text, `"code":"starting"`) {
		t.Errorf("%d %v %s", res.StatusCode, res.Header, text)
	}
	var errs strings.Builder
	if code := execute(ctx, []string{"--server", "http://" + address, "runs"}, stdio{in: strings.NewReader(""), out: io.Discard,
		err: &errs}); code != exitError || !strings.Contains(errs.String(), "the server is starting: the store is being opened") {
		t.Errorf("%d %s", code, errs.String())
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if line, err := p.lines.ReadString('\n'); err != nil || !strings.Contains(line, "wfhost serves") {
		t.Fatalf("%q %v", line, err)
	}
	if r, status := ready(); status != http.StatusOK || r.Status != httpapi.Ready {
		t.Errorf("%d %+v", status, r)
	}
}
