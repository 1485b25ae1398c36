package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/httpapi"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// serving is a host with its API, and a workflow "w".
func serving(t *testing.T, m *wasmgen.Module) (h *hosttest.Host, call func(method, path, body string) (int, string)) {
	t.Helper()
	h = hosttest.New(t)
	if _, err := h.Upload(context.Background(), "w", m.Export(abi.ExportRun).Bytes()); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(httpapi.New(h.Host, httpapi.Access{Open: true}))
	t.Cleanup(s.Close)
	return h, func(method, path, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(context.Background(), method, s.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(method, path, err)
		}
		defer func() { _ = res.Body.Close() }()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		h.Settle()
		return res.StatusCode, string(b)
	}
}

// TestEveryInstantIsShown sleeps until instants that RFC 3339 cannot express, and reads the journal.
func TestEveryInstantIsShown(t *testing.T) {
	for ms, due := range map[int64]string{-1e15: "0000-01-01T00:00:00.000Z", math.MinInt64: "0000-01-01T00:00:00.000Z", -1: "1969-12-31T23:59:59.999Z",
		abi.MinUnixMs: "0000-01-01T00:00:00.000Z", abi.MinUnixMs + 1: "0000-01-01T00:00:00.001Z", abi.MaxUnixMs: "9999-12-31T23:59:59.999Z"} {
		_, call := serving(t, wasmgen.New(0).Text("nap").I64(ms).Call(abi.FnSleepUntil).Drop().I32(0))
		if status, body := call(http.MethodPost, "/v1/workflows/w/runs", `{"id":"r"}`); status != http.StatusCreated {
			t.Fatal(status, body)
		}
		status, body := call(http.MethodGet, "/v1/runs/r/journal", "")
		var entries []httpapi.Entry
		if err := json.Unmarshal([]byte(body), httpapi.ItemsOf(&entries)); err != nil || status != http.StatusOK || len(entries) < 3 {
			t.Fatalf("until %d: %d %.200q %v", ms, status, body, err)
		}
		if !strings.Contains(body, fmt.Sprintf("%q:%q", "due", due)) {
			t.Errorf("until %d: %s, want %s", ms, body, due)
		}
		for _, path := range []string{"/v1/runs/r", "/v1/runs", "/v1/timers", "/v1/timers?within=2000000d"} {
			if status, body := call(http.MethodGet, path, ""); status != http.StatusOK || !json.Valid([]byte(body)) {
				t.Errorf("until %d: %s: %d %s", ms, path, status, body)
			}
		}
	}
}

// TestCenturies sends durations that exceed a time.Duration.
func TestCenturies(t *testing.T) {
	h, call := serving(t, wasmgen.New(0).Text("nap").I64(1000).Call(abi.FnSleep).Drop().I32(0))
	for body, want := range map[string]host.Run{
		`{"id":"in","in":"110000d"}`:                  {Status: host.Sleeping, Wake: hosttest.Epoch.AddDate(0, 0, 110_000)},
		`{"id":"timeout","timeout":"110000d"}`:        {Status: host.Sleeping, Wake: hosttest.Epoch.Add(time.Second)},
		`{"id":"both","in":"1d","timeout":"300000d"}`: {Status: host.Sleeping, Wake: hosttest.Epoch.AddDate(0, 0, 1)},
	} {
		status, answer := call(http.MethodPost, "/v1/workflows/w/runs", body)
		if status != http.StatusCreated {
			t.Errorf("%s: %d %s", body, status, answer)
			continue
		}
		var r host.Run
		if err := json.Unmarshal([]byte(answer), &r); err != nil {
			t.Fatal(err)
		}
		r, err := h.Get(context.Background(), r.ID)
		if r.Status != want.Status || !r.Wake.Equal(want.Wake) || err != nil {
			t.Errorf("%s: %s until %s, want %s until %s", body, r.Status, r.Wake, want.Status, want.Wake)
		}
	}
	for body, want := range map[string]string{
		`{"in":"2920000d"}`:                   "beyond the end of year 9999",
		`{"in":"9999999999d"}`:                "the limit is 2932896d23h59m59s999ms",
		`{"in":"1d","timeout":"2920000d"}`:    "beyond the end of year 9999",
		`{"timeout":"99999999999999999999d"}`: "the limit is 2932896d23h59m59s999ms",
	} {
		if status, answer := call(http.MethodPost, "/v1/workflows/w/runs", body); status != http.StatusBadRequest || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s, want %q", body, status, answer, want)
		}
	}
	from := hosttest.Epoch.AddDate(0, 0, 110_000)
	if status, body := call(http.MethodGet, "/v1/timers?within=111000d", ""); status != http.StatusOK || !strings.Contains(body, from.Format("2006-01-02T15:04:05.000Z")) {
		t.Errorf("timers: %d %s", status, body)
	}
}
