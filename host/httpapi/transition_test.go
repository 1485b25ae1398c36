package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/httpapi"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/store"
)

// workflows produce runs that reach a status by themselves, and stay there.
var workflows = map[string]func(m *wasmgen.Module) *wasmgen.Module{
	"sleeping": func(m *wasmgen.Module) *wasmgen.Module {
		return m.Text("nap").I64(86_400_000).Call(abi.FnSleep).Drop().I32(0)
	},
	"waiting": func(m *wasmgen.Module) *wasmgen.Module {
		return m.Text("go").I64(-1).I32(0).I32(0).Call(abi.FnSignalWait).Drop().I32(0)
	},
	"completed": func(m *wasmgen.Module) *wasmgen.Module { return m.I32(0) },
	"failed":    func(m *wasmgen.Module) *wasmgen.Module { return m.I32(1) },
}

// makeStuck starts runs, and changes their status in the store to stuck.
func makeStuck(t *testing.T, h *hosttest.Host, ids []string) {
	t.Helper()
	ctx := t.Context()
	for _, id := range ids {
		if _, err := h.Start(ctx, "sleeping", nil, host.WithRunID(id)); err != nil {
			t.Fatal(err)
		}
	}
	h.Settle()
	h.Kill()
	s := h.Data.Open()
	for _, id := range ids {
		st, err := s.State(ctx, store.RunKey{ID: id})
		if err != nil {
			t.Fatal(err)
		}
		p, err := s.Acquire(ctx, st.Run.Partition(), "test", 0)
		if err != nil {
			t.Fatal(err)
		}
		st.Status, st.Reason, st.WakeUnixMs = store.Stuck, "a reason", store.NoWake
		if err := p.Commit(ctx, []store.RunCommit{{Run: st.Run, Expect: st.Length, State: st}}); err != nil {
			t.Fatal(err)
		}
	}
	h.Reopen()
	h.Settle()
}

// TestIllegalTransitions requests every action in every status. An action that does not fit is refused with status
// 409 and a sentence, and changes nothing.
func TestIllegalTransitions(t *testing.T) {
	ctx := context.Background()
	h := hosttest.New(t)
	for name, code := range workflows {
		if _, err := h.Upload(ctx, name, code(wasmgen.New(0)).Export(abi.ExportRun).Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	const actions = 8
	var stuck []string
	for n := range actions {
		stuck = append(stuck, fmt.Sprintf("stuck%d", n))
	}
	makeStuck(t, h, stuck)
	s := httptest.NewServer(httpapi.New(h.Host, httpapi.Access{Open: true}))
	defer s.Close()
	call := func(method, path string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, method, s.URL+path, strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		var p struct {
			Detail string `json:"detail"`
			Count  int    `json:"count"`
		}
		_ = json.NewDecoder(res.Body).Decode(&p) // some answers have no body
		h.Settle()
		if p.Detail == "" {
			p.Detail = fmt.Sprint("count ", p.Count)
		}
		return res.StatusCode, p.Detail
	}
	n := 0
	in := func(status string) string { // a new run in that status
		t.Helper()
		if status == "stuck" {
			id := stuck[0]
			stuck = stuck[1:]
			return id
		}
		n++
		id := fmt.Sprintf("r%d", n)
		workflow := status
		if workflows[status] == nil {
			workflow = "sleeping"
		}
		if _, err := h.Start(ctx, workflow, nil, host.WithRunID(id)); err != nil {
			t.Fatal(err)
		}
		h.Settle()
		switch status {
		case "paused":
			_, _ = h.Pause(ctx, id)
		case "cancelled":
			_, _ = h.Cancel(ctx, id)
		case "terminated":
			_ = h.Terminate(ctx, id)
		}
		h.Settle()
		if r, err := h.Get(ctx, id); err != nil || r.Status.String() != status {
			t.Fatalf("%s, want %s: %v", r.Status, status, err)
		}
		return id
	}
	columns := []string{"sleeping", "waiting", "paused", "stuck", "completed", "failed", "cancelled", "terminated"}
	for action, want := range map[string][8]int{
		"cancel":    {200, 200, 200, 200, 409, 409, 409, 409},
		"terminate": {200, 200, 200, 200, 409, 409, 409, 409},
		"pause":     {200, 200, 200, 409, 409, 409, 409, 409},
		"unpause":   {200, 200, 200, 409, 409, 409, 409, 409},
		"wake":      {200, 200, 200, 409, 409, 409, 409, 409},
		"retry":     {409, 409, 409, 200, 409, 200, 409, 409},
		"signals/x": {202, 202, 202, 202, 409, 409, 409, 409},
		"":          {409, 409, 409, 409, 204, 204, 204, 204}, // DELETE
	} {
		for i, status := range columns {
			id := in(status)
			method, path := http.MethodPost, "/v1/runs/"+id+"/"+action
			if action == "" {
				method, path = http.MethodDelete, "/v1/runs/"+id
			}
			code, detail := call(method, path)
			if code != want[i] || code == http.StatusConflict && len(strings.Fields(detail)) < 4 {
				t.Errorf("%s %s of a run that is %s: %d %q, want %d", method, action, status, code, detail, want[i])
			}
			if r, err := h.Get(ctx, id); code == http.StatusConflict && (err != nil || r.Status.String() != status) {
				t.Errorf("%s of a run that is %s was refused and made it %s: %v", action, status, r.Status, err)
			}
		}
	}
}
