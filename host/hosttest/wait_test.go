package hosttest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// paying is a workflow that sleeps for a day, calls the handler "charge", and returns its result.
func paying(t *testing.T) *Host {
	t.Helper()
	h := New(t)
	m := wasmgen.New(1)
	m.Text("nap").I64(24 * 3600_000).Call(abi.FnSleep).Drop()
	m.Text("charge").Text("host/charge").Text("1200").I32(0).I32(0).I32(64).I32(16).Call(abi.FnStepDo).Set(0)
	m.I32(64).Get(0).Wrap().Call(abi.FnComplete).Drop().I32(0).Export(abi.ExportRun)
	if _, err := h.Upload(t.Context(), "order", m.Bytes(), host.AllowStep("charge")); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Start(t.Context(), "order", nil, host.WithRunID("a")); err != nil {
		t.Fatal(err)
	}
	return h
}

// TestHandlersSurviveACrash registers a handler on the host, as docs/workflows/testing.md does, and crashes the host
// in every way.
func TestHandlersSurviveACrash(t *testing.T) {
	for name, crash := range map[string]func(h *Host){
		"Crash":           func(h *Host) { h.Crash(); h.Crash() },
		"Kill and Reopen": func(h *Host) { h.Kill(); h.Reopen() },
		"Reopen":          func(h *Host) { h.Reopen() },
		"CrashAt":         func(h *Host) { h.CrashAt(0, false); h.Advance(24 * time.Hour); h.Reopen() },
	} {
		t.Run(name, func(t *testing.T) {
			h := paying(t)
			host.HandleStep(h.Host, "charge", func(context.Context, int) (string, error) { return "wrong", nil })
			host.HandleStep(h.Host, "charge", func(context.Context, int) (string, error) { return "paid", nil }) // in its place
			h.Advance(time.Hour)
			crash(h)
			h.Advance(48 * time.Hour)
			if got, err := host.Result[string](t.Context(), h, "a"); err != nil || got != "paid" {
				t.Error(got, err)
			}
		})
	}
}

// TestWaitsEnd waits for runs that will never end: the error says why.
func TestWaitsEnd(t *testing.T) {
	h := paying(t)
	h.patience = 2 * time.Second
	wait := func(want string) {
		t.Helper()
		_, err := host.Result[string](t.Context(), h, "a")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	wait("run a is sleeping (")
	h.Advance(48 * time.Hour)
	wait(`run a is waiting (handler "host/charge" is not registered here), nothing happens in the host`)
	h.CrashAt(0, false)
	host.HandleStep(h.Host, "charge", func(context.Context, int) (string, error) { return "paid", nil })
	h.Settle()
	wait("it has crashed")
	h.Kill()
	if _, err := h.Wait(t.Context(), "a"); !errors.Is(err, host.ErrClosed) {
		t.Error(err)
	}
	h.Reopen()
	if got, err := host.Result[string](t.Context(), h, "a"); err != nil || got != "paid" {
		t.Error(got, err)
	}
}
