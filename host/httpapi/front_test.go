package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// asked returns the answer of a handler to GET of a path.
func asked(h http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:7777"+path, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// readinessOf decodes the answer to GET /readyz, and checks its other fields.
func readinessOf(t *testing.T, h http.Handler, path string, status int, retry string) (r Readiness) {
	t.Helper()
	w := asked(h, path)
	if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil || w.Code != status || w.Header().Get("Retry-After") != retry ||
		w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%d %v %s, %v; want %d", w.Code, w.Header(), w.Body, err, status)
	}
	return r
}

// TestFront sends requests to a server while its host opens, while it recovers partitions, and afterwards.
func TestFront(t *testing.T) {
	var heard []string
	f := NewFront("/flows/", func(r Readiness) { heard = append(heard, r.Detail) })
	is := func(want string) {
		t.Helper()
		r := readinessOf(t, f, "/flows/readyz", http.StatusServiceUnavailable, "1")
		got := fmt.Sprintf("%s %s %s", r.Status, r.Stage, r.Detail)
		if r.Done != nil {
			got += fmt.Sprintf(" (%d/%d)", *r.Done, *r.Total)
		}
		if got != want {
			t.Errorf("it is %q, want %q", got, want)
		}
	}
	is("starting opening the store is being opened")
	if w := asked(f, "/flows/healthz"); w.Code != http.StatusOK {
		t.Errorf("the process lives: %d %s", w.Code, w.Body)
	}
	w := asked(f, "/flows/v1/runs")
	var p Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != http.StatusServiceUnavailable || p.Code != "starting" ||
		w.Header().Get("Retry-After") != "1" || !strings.Contains(p.Detail, "the store is being opened") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if w := asked(f, "/flows/", "Accept", "text/html"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Refresh") == "" ||
		!strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		t.Errorf("a browser is told %d %v", w.Code, w.Header())
	}

	e := f.Events(host.NumPartitions)
	e.StoreRaised(3, 64)
	is("starting raising the store is being raised to the format of this release: 3 of 64 partitions (3/64)")
	h := hosttest.New(t, hosttest.WithConfig(func(cfg *host.Config) {
		cfg.Events = host.JoinEvents(cfg.Events, e)
	}))
	is("starting recovering runs are being recovered: 64 of 64 partitions (64/64)")
	if len(heard) != 66 || heard[2] != "runs are being recovered: 1 of 64 partitions" {
		t.Errorf("%d steps: %q", len(heard), heard)
	}

	f.Open(New(h.Host, Access{Open: true}, WithPrefix("/flows")))
	if r := readinessOf(t, f, "/flows/readyz", http.StatusOK, ""); r.Status != Ready || r.Stage != "" {
		t.Errorf("%+v", r)
	}
	if w := asked(f, "/flows/v1/runs"); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	e.PartitionAcquired(3) // which was lost
	if len(heard) != 66 {
		t.Error("a partition that is acquired later is taken for a start")
	}
}

// TestFrontFails reports that a host could not be opened, without the paths of its files.
func TestFrontFails(t *testing.T) {
	f := NewFront("", nil)
	f.Fail(fmt.Errorf("open store: %w", &fs.PathError{Op: "open", Path: "/secret/place", Err: syscall.EIO}))
	if r := readinessOf(t, f, "/readyz", http.StatusServiceUnavailable, ""); r.Status != Failed ||
		r.Detail != "the store could not be opened (input/output error); the server's log says more" {
		t.Errorf("%+v", r)
	}
	if w := asked(f, "/v1/runs"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"store_failed"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	f.Fail(errors.New("/secret/place is odd"))
	if r := readinessOf(t, f, "/readyz", http.StatusServiceUnavailable, ""); strings.Contains(r.Detail, "secret") {
		t.Errorf("%+v", r)
	}
}

// TestReadiness drains a server, and has the store of another one fail.
func TestReadiness(t *testing.T) {
	a := newAPI(t, Access{})
	if r := readinessOf(t, a, "/readyz", http.StatusOK, ""); r.Status != Ready {
		t.Errorf("%+v", r)
	}
	a.Drain()
	if r := readinessOf(t, a, "/readyz?probe=lb-1", http.StatusServiceUnavailable, "1"); r.Status != Draining {
		t.Errorf("%+v", r)
	}

	a = newAPI(t, Access{})
	a.upload("", "quick", wasmgen.New(0).I32(0))
	if err := a.h.Failure(); err != nil {
		t.Errorf("before: %v", err)
	}
	a.h.CrashAt(0, false)
	a.is(a.call(local, http.MethodPost, "/v1/workflows/quick/runs", `{}`), http.StatusServiceUnavailable, "store_failed")
	if err := a.h.Failure(); !errors.Is(err, host.ErrStoreFailed) {
		t.Errorf("after: %v", err)
	}
	if r := readinessOf(t, a, "/readyz", http.StatusServiceUnavailable, ""); r.Status != Failed ||
		!strings.HasPrefix(r.Detail, "the store has failed, and nothing is accepted any more (") {
		t.Errorf("%+v", r)
	}
	if w := asked(a, "/healthz"); w.Code != http.StatusOK {
		t.Errorf("a failed store is no reason to kill the process at once: %d", w.Code)
	}
}
