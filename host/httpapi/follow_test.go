package httpapi

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// events reads a stream to its end, and returns ids, kinds and data of the events. It calls meanwhile after the first
// event.
func (a *api) events(target, lastID string, meanwhile func()) (list []string) {
	a.t.Helper()
	server := httptest.NewServer(a.API)
	defer server.Close()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, server.URL+target, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+local)
	req.Header.Set("Accept", "text/event-stream")
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		a.t.Fatal(res.StatusCode, res.Header)
	}
	var event []string
	for s := bufio.NewScanner(res.Body); s.Scan(); {
		if s.Text() != "" {
			event = append(event, s.Text())
			continue
		}
		list = append(list, strings.Join(event, " "))
		event = nil
		if len(list) == 1 && meanwhile != nil {
			go meanwhile()
		}
	}
	return list
}

// TestFollow follows a run, its journal and its log until the run ends, and resumes after an event.
func TestFollow(t *testing.T) {
	for target, want := range map[string][]string{
		"/v1/runs/r": {`event: run data: {"id":"r"`, `"status":"completed"`, "event: end data: {}"},
		"/v1/runs/r/journal": {`id: 0.0 event: entry data: {"seq":0,"kind":"started"`, `"kind":"activated"`, `id: 0.2 event: entry data: {"seq":2,"kind":"sleep"`,
			`"kind":"timer"`, `"kind":"completed"`, "event: end data: {}"},
		"/v1/runs/r/logs": {`id: 0 event: log data: {"index":0,"time":"2026-01-05T08:00:00.000Z","level":"info","text":"begins"}`, "event: end data: {}"},
	} {
		a := newAPI(t, Access{})
		a.upload("", "w", wasmgen.New(0).I32(1).Text("begins").Call(abi.FnLog).Drop().Text("nap").I64(60_000).Call(abi.FnSleep).Drop().I32(0))
		a.is(a.call(local, http.MethodPost, "/v1/workflows/w/runs", `{"id":"r"}`), http.StatusCreated, "")
		a.h.Settle()
		got := a.events(target, "", func() { a.h.Advance(time.Minute); a.h.Settle() })
		found := 0
		for _, event := range got {
			if found < len(want) && strings.Contains(event, want[found]) {
				found++
			}
		}
		if found != len(want) || len(got) == 0 || got[len(got)-1] != want[len(want)-1] {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
		switch target {
		case "/v1/runs/r/journal":
			if after := a.events(target, "0.2", nil); len(after) != len(got)-3 || after[0] != got[3] {
				t.Errorf("behind the third one: %q, want %q", after, got[3:])
			}
		case "/v1/runs/r/logs":
			if after := a.events(target, "0", nil); len(after) != 1 {
				t.Errorf("behind the first one: %q", after)
			}
		}
		a.is(a.call(local, http.MethodGet, "/v1/runs/nobody"+strings.TrimPrefix(target, "/v1/runs/r"), "", "Accept", "text/event-stream"), http.StatusNotFound, "not_found")
		if target != "/v1/runs/r" {
			w := a.call(local, http.MethodGet, target, "", "Accept", "text/event-stream", "Last-Event-ID", "x")
			a.is(w, http.StatusBadRequest, "invalid")
		}
	}
}
