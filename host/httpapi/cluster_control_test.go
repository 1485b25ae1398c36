package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/client"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// TestClusterControls acts on runs at each host of a cluster, also where a request names two runs of different hosts.
func TestClusterControls(t *testing.T) {
	f := newFleet(t, 3)
	for name, test := range map[string]func(*testing.T){"hooks": f.hooks, "stopping host": f.stopping} {
		t.Run(name, func(t *testing.T) {
			defer func(whole *testing.T) { f.t = whole }(f.t)
			f.t = t
			test(t)
		})
	}
}

// waitForHook uploads a workflow that waits for a delivery to its hook, under a token that is its own, or a given one.
func (f *fleet) waitForHook(workflow, token string) {
	f.t.Helper()
	m := wasmgen.New(0)
	m.Text("decision").Text(token).I32(0).I32(0).Call(abi.FnHookStart).Drop()
	m.Text("nap").I64(1).Call(abi.FnSleep).Drop()
	m.Text("decision").I64(-1).I32(0).I32(0).Call(abi.FnSignalWait).Drop()
	_, err := f.next().h.Upload(f.t.Context(), workflow, m.I32(0).Export(abi.ExportRun).Bytes())
	f.ok(err)
}

// token returns the token of the hook of a run.
func (f *fleet) token(run string) string {
	f.t.Helper()
	for e, err := range f.any().FollowJournal(f.t.Context(), run, -1, 0) {
		f.ok(err)
		if e.Kind == "hook_ready" {
			var token string
			f.ok(json.Unmarshal(e.Data, &token))
			return token
		}
	}
	f.t.Fatalf("run %s has no hook", run)
	return ""
}

// hooks delivers to hooks of runs at all hosts. The token of a hook that was generated is nowhere but in the run's journal.
func (f *fleet) hooks(t *testing.T) {
	f.waitForHook("generated", "")
	for i := range 6 {
		id := fmt.Sprint("hooks-", i)
		_, err := f.any().Start(t.Context(), "generated", nil, client.StartOptions{ID: id})
		f.ok(err)
		if code := f.callOf(f.hosts[i%3], http.MethodPost, "/v1/hooks/"+f.token(id), "{}", nil); code != http.StatusAccepted {
			t.Fatalf("a delivery to the hook of run %s: %d", id, code)
		}
		r, err := f.any().Wait(t.Context(), id)
		f.ok(err)
		if r.Status != "completed" {
			t.Errorf("%+v", r)
		}
	}
}

// stopping asks a host for a result, and has the host end its waiting requests, as it does when it stops.
func (f *fleet) stopping(t *testing.T) {
	f.naps("1h")
	_, err := f.any().Start(t.Context(), "nap-1h", nil, client.StartOptions{ID: "stopping"})
	f.ok(err)
	for _, x := range f.hosts {
		_, elsewhere, err := x.h.Owner(t.Context(), "stopping")
		f.ok(err)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/v1/runs/stopping/result?wait=30s", nil)
		r.Header.Set("Authorization", "Bearer "+local)
		w := httptest.NewRecorder()
		x.api.ServeHTTP(w, r)
		cancel()
		if want := map[bool]int{true: http.StatusServiceUnavailable, false: http.StatusAccepted}[elsewhere]; w.Code != want {
			t.Errorf("it answers %d %s, want %d", w.Code, w.Body, want)
		}
	}
}
