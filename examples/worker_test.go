package examples_test

import (
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/httpapi"
)

// TestWorker runs the worker as a process, which charges one order and refuses another one.
func TestWorker(t *testing.T) {
	h := hosttest.New(t)
	if err := h.HandleRemote("charge"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Upload(t.Context(), "order", build(t, "worker/order"), host.AllowStep("charge")); err != nil {
		t.Fatal(err)
	}
	token, _, err := h.Tokens().Create(t.Context(), host.TokenSpec{Scopes: []host.Scope{host.ScopeWork}})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(httpapi.New(h.Host, httpapi.Access{}))
	defer s.Close()
	binary := filepath.Join(t.TempDir(), "worker")
	if out, err := exec.Command("go", "build", "-o", binary, "./worker").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(binary, "-server", s.URL)
	cmd.Env = append(cmd.Environ(), "WFHOST_TOKEN="+token)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	receipt, err := func() (r struct{ Cents int }, err error) {
		run, err := h.Start(t.Context(), "order", map[string]any{"order": "a-1", "cents": 1250})
		if err != nil {
			return r, err
		}
		return host.Result[struct{ Cents int }](t.Context(), h.Host, run.ID)
	}()
	if err != nil || receipt.Cents != 1250 {
		t.Error(receipt, err)
	}
	run, err := h.Start(t.Context(), "order", map[string]any{"order": "a-2"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.ResultRaw(t.Context(), run.ID)
	if err == nil || !strings.Contains(err.Error(), "more than 0 cents, got 0") {
		t.Error(err)
	}
	if err := errors.Join(cmd.Process.Signal(os.Interrupt), cmd.Wait()); err != nil {
		t.Errorf("the worker has not ended well: %v", err)
	}
}
