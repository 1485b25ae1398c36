package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/client"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// TestClusterControls acts on runs at each host of a cluster, also where a request names two runs of different hosts.
func TestClusterControls(t *testing.T) {
	f := newFleet(t, 3)
	for name, test := range map[string]func(*testing.T){"hooks": f.hooks, "stopping host": f.stopping, "restart": f.restarts,
		"debounce": f.debounces, "import": f.imports, "handler limits": f.handlerLimits, "sweep": f.sweeps,
		"migrate": f.migrations} {
		t.Run(name, func(t *testing.T) {
			defer func(whole *testing.T) { f.t = whole }(f.t)
			f.t = t
			test(t)
		})
	}
}

// migrations checks and migrates runs of all hosts at one of them.
func (f *fleet) migrations(t *testing.T) {
	nap := func() *wasmgen.Module { return wasmgen.New(0).Text("nap").Text("1h").Call(abi.FnSleepText).Drop() }
	second := nap().Text("then").Text("1ms").Call(abi.FnSleepText).Drop().I32(0).Export(abi.ExportRun).Bytes()
	for _, wasm := range [][]byte{nap().I32(0).Export(abi.ExportRun).Bytes(), second} {
		_, err := f.hosts[0].h.Upload(t.Context(), "moved", wasm)
		f.ok(err)
	}
	const n = 12
	for i := range n {
		_, err := f.any().Start(t.Context(), "moved", nil, client.StartOptions{ID: fmt.Sprint("migrate-", i), Version: 1})
		f.ok(err)
	}
	for i, x := range []struct {
		body string
		want func(*host.CheckSummary) int64
	}{
		{`{"to":2,"dry_run":true}`, func(s *host.CheckSummary) int64 { return s.Compatible }},
		{`{"to":2}`, func(s *host.CheckSummary) int64 { return s.Migrated }},
		{`{"to":2,"parallel":16}`, func(s *host.CheckSummary) int64 { return s.Unchanged }},
		{`{"to":1,"parallel":16}`, func(s *host.CheckSummary) int64 { return s.Migrated }},
	} {
		var lines jsonLinesOf[CheckLine]
		if code := f.callOf(f.hosts[i%3], http.MethodPost, "/v1/workflows/moved/migrate", x.body, &lines); code != http.StatusOK {
			t.Fatal(code)
		}
		last := lines[len(lines)-1]
		if last.Summary == nil || x.want(last.Summary) != n || last.Summary.Runs != n || len(lines) != n+2 {
			t.Errorf("%s: %d lines, %+v", x.body, len(lines), last.Summary)
		}
	}
	for i := range n {
		r, err := f.hosts[i%3].h.Get(t.Context(), fmt.Sprint("migrate-", i))
		f.ok(err)
		if r.Version != 1 || r.Status != host.Sleeping {
			t.Errorf("%+v", r)
		}
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

// restarts restarts runs under ids that other hosts own. Their hooks and children are at other hosts, too.
func (f *fleet) restarts(t *testing.T) {
	ctx := t.Context()
	f.waitForHook("chosen", "a-chosen-token")
	_, err := f.any().Start(ctx, "chosen", nil, client.StartOptions{ID: "holder"})
	f.ok(err)
	f.token("holder")
	if code := f.call(http.MethodPost, "/v1/runs/holder/restart?id=second&from=nap", "", nil); code != http.StatusConflict {
		t.Errorf("a restart while its hook is held: %d", code)
	}
	f.ok(f.any().Terminate(ctx, "holder"))
	restarted := 0
	for i := range 4 {
		code := f.call(http.MethodPost, fmt.Sprintf("/v1/runs/holder/restart?id=again-%d&from=nap", i), "", nil)
		if code == http.StatusCreated {
			restarted++
		} else if code != http.StatusConflict {
			t.Errorf("restart %d: %d", i, code)
		}
	}
	if restarted != 1 {
		t.Errorf("%d runs have taken over a hook", restarted)
	}
	f.naps("1ms")
	m := wasmgen.New(0)
	m.Text("kid").Text("nap-1ms").I32(0).I32(0).I32(0).I32(0).Call(abi.FnChildStart).Drop()
	m.I32(0).I32(0).Call(abi.FnAwait).Drop()
	m.Text("last").I64(1).Call(abi.FnSleep).Drop()
	_, err = f.next().h.Upload(ctx, "family", m.I32(0).Export(abi.ExportRun).Bytes())
	f.ok(err)
	_, err = f.any().Start(ctx, "family", nil, client.StartOptions{ID: "family"})
	f.ok(err)
	_, err = f.any().Wait(ctx, "family")
	f.ok(err)
	for i := range 9 {
		id := fmt.Sprint("restarts-", i)
		if code := f.callOf(f.hosts[i%3], http.MethodPost, "/v1/runs/family/restart?from=last&id="+id, "", nil); code != http.StatusCreated {
			t.Fatalf("restart %d: %d", i, code)
		}
		r, err := f.any().Wait(ctx, id)
		f.ok(err)
		if r.Status != "completed" {
			t.Errorf("%+v", r)
		}
	}
}

// debounces starts runs at all hosts, which a debounce merges into one.
func (f *fleet) debounces(t *testing.T) {
	f.naps("1h")
	if code := f.call(http.MethodPut, "/v1/start-windows/nap-1h", `{"debounce":"1h","longest":"2h"}`, nil); code >= 300 {
		t.Fatal(code)
	}
	for i := range 12 {
		body := "{}"
		if i%2 == 0 {
			body = fmt.Sprintf(`{"id":"debounces-%d"}`, i)
		}
		var r host.Run
		code := f.callOf(f.hosts[i%3], http.MethodPost, "/v1/workflows/nap-1h/runs", body, &r)
		if want := map[bool]int{true: http.StatusCreated, false: http.StatusOK}[i == 0]; code != want || r.ID != "debounces-0" {
			t.Fatalf("start %d: %d, run %q", i, code, r.ID)
		}
	}
	if code := f.call(http.MethodDelete, "/v1/start-windows/nap-1h", "", nil); code >= 300 {
		t.Error(code)
	}
}

// imports imports runs at each host, into a namespace in which other hosts own them.
func (f *fleet) imports(t *testing.T) {
	f.naps("1h")
	for i := range 6 {
		id := fmt.Sprint("imports-", i)
		_, err := f.any().Start(t.Context(), "nap-1h", nil, client.StartOptions{ID: id})
		f.ok(err)
		file, err := f.any().Export(t.Context(), id)
		f.ok(err)
		b, err := io.ReadAll(file)
		f.ok(errors.Join(err, file.Close()))
		at, err := client.New(f.hosts[i%3].url, client.WithToken(local), client.WithNamespace("copies"))
		f.ok(err)
		for again := range 2 { // the first one of all makes the namespace
			r, err := at.Import(t.Context(), bytes.NewReader(b), client.ImportOptions{})
			if i == 0 && again == 0 && isCode(err, "fenced") {
				continue
			}
			if err != nil || r.Aside != "copy" {
				t.Errorf("import %d: %+v %v", i, r, err)
			}
		}
	}
}

// handlerLimits limits a handler at one host: the attempts of all hosts keep to that. Then another host removes the limit.
func (f *fleet) handlerLimits(t *testing.T) {
	f.steps("print")
	for i, limit := range []string{`{"rate":["2/1h"]}`, ""} {
		method, want := http.MethodPut, 2
		if limit == "" {
			method, want = http.MethodDelete, 10
		}
		if code := f.callOf(f.hosts[i], method, "/v1/handler-limits/print", limit, nil); code >= 300 {
			t.Fatal(code)
		}
		pause(clusterLease)
		for j := 0; limit != "" && j < 12; j++ {
			_, err := f.any().Start(t.Context(), "step-print", nil, client.StartOptions{ID: fmt.Sprint("handlerLimits-", j)})
			f.ok(err)
		}
		taken := 0
		for range 6 {
			var list List[Attempt]
			f.call(http.MethodGet, "/v1/handlers/print/attempts?max=100&wait=300ms&lease=1h&worker=w", "", &list)
			taken += len(list.Items)
		}
		if taken != want {
			t.Errorf("with the limit %q, workers get %d of 12 attempts, want %d", limit, taken, want)
		}
	}
}

// sweeps sweeps at one host, which covers the runs of all of them.
func (f *fleet) sweeps(t *testing.T) {
	f.naps("2ms")
	for i := range 12 {
		id := fmt.Sprint("sweeps-", i)
		_, err := f.any().Start(t.Context(), "nap-2ms", nil, client.StartOptions{ID: id})
		f.ok(err)
		_, err = f.any().Wait(t.Context(), id)
		f.ok(err)
	}
	if code := f.call(http.MethodPut, "/v1/retention/nap-2ms", `{"keep_completed":2}`, nil); code >= 300 {
		t.Fatal(code)
	}
	for _, dry := range []bool{true, true, true, false} {
		var swept host.Swept
		if code := f.call(http.MethodPost, fmt.Sprint("/v1/retention:sweep?dry_run=", dry), "", &swept); code != http.StatusOK {
			t.Error(code)
		}
		if swept.Deleted != 10 || len(swept.Runs) != 10 {
			t.Errorf("a sweep, dry: %v, deletes %d of 12 runs, and lists %d; want 10", dry, swept.Deleted, len(swept.Runs))
		}
	}
}
