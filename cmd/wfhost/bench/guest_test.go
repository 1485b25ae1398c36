package bench

import (
	"context"
	"errors"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/typescript"
)

// story runs a workflow of a guest to its end. It returns the journal, and what the recorder of a measurement got.
func story(t *testing.T, wasm []byte, workflow string, in []byte) string {
	t.Helper()
	h := hosttest.New(t, hosttest.WithHandlers(func(h *host.Host) {
		h.HandleRawStep(stepName, func(context.Context, []byte) ([]byte, error) { return nil, nil })
	}))
	ctx := t.Context()
	if _, err := h.Upload(ctx, workflow, wasm, host.AllowStep("*")); err != nil {
		t.Fatal(err)
	}
	if _, err := h.StartRaw(ctx, workflow, in, host.WithRunID("r")); err != nil {
		t.Fatal(err)
	}
	if workflow == "signal" || workflow == "mixed" {
		h.Settle()
		if err := h.SignalRaw(ctx, "r", signalName, nil); err != nil {
			t.Fatal(err)
		}
	}
	h.Finish("r")
	var told []string
	for e, err := range h.Journal(ctx, "r", 0) {
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, e.Kind.String()+" "+e.Name)
	}
	return strings.Join(told, ", ")
}

// TestGuests runs every workflow on all four guests, with equal results.
func TestGuests(t *testing.T) {
	soon := hosttest.Epoch.Add(time.Hour).UnixMilli()
	inputs := map[string][]byte{"empty": nil, "steps": input(3), "bodies": input(3), "sleep": input(soon, soon+5, soon+5),
		"sleepstep": input(soon, soon+5), "wake": input(0, 2, 7, 1), "calls": input(11, 2, 1000), "signal": input()}
	want := map[string]string{
		"steps":  "step 00000000, step_result , step 00000001, step_result , step 00000002, step_result , completed ",
		"bodies": "body 00000000, step_result , body 00000001, step_result , body 00000002, step_result , completed ",
		"sleep":  "sleep 00000000, timer , sleep 00000001, timer , sleep 00000002, timer , completed ",
		"sleepstep": "step 00000000, step_result , sleep 00000001, timer , step 00000002, step_result , sleep 00000003, timer , " +
			"step 00000004, step_result , completed ",
		"wake": "sleep 00000000, timer , sleep 00000001, timer , step 00000002, step_result , sleep 00000003, timer , " +
			"step 00000004, step_result , completed ",
		"signal": "signal_wait go, signal_accepted go, signal , completed ",
	}
	golang := hosttest.Build(t, "../../../examples/bench")
	script, _, err := typescript.Build(t.Context(), "../../../examples/bench/bench.ts")
	if err != nil {
		t.Fatal(err)
	}
	for _, workflow := range slices.Sorted(maps.Keys(smallGuests)) {
		t.Run(workflow, func(t *testing.T) {
			in, ok := inputs[workflow]
			if !ok {
				t.Fatal("this workflow has no test")
			}
			wasm, err := smallGuest(workflow)
			if err != nil {
				t.Fatal(err)
			}
			small := story(t, wasm, workflow, in)
			if !strings.HasSuffix(small, want[workflow]) {
				t.Errorf("small: %s", small)
			}
			if in == nil {
				in = []byte("[]")
			}
			if got := story(t, golang, workflow, in); got != small {
				t.Errorf("go:    %s\nsmall: %s", got, small)
			}
			if got := story(t, script, workflow, in); got != small {
				t.Errorf("ts:    %s\nsmall: %s", got, small)
			}
			if _, err := exec.LookPath("clang"); err != nil {
				t.Skip("SKIPPED: clang is not installed, so the guest in C was not tested")
			}
			c, err := compileC(t.Context(), workflow)
			if err != nil {
				t.Fatal(err)
			}
			if got := story(t, c, workflow, in); got != small {
				t.Errorf("c:     %s\nsmall: %s", got, small)
			}
		})
	}
	want["mixed"] = "body 00000000, step_result , step 00000001, step_result , step 00000002, step_result , signal_wait go, signal_accepted go, " +
		"signal , child 00000003, child_result , sleep 00000004, timer , step 00000005, step_result , " +
		"completed "
	for language, wasm := range map[string][]byte{"go": golang, "ts": script} {
		if got := story(t, wasm, "mixed", input(60_000, 700, 2, 1, 1)); !strings.HasSuffix(got, want["mixed"]) {
			t.Errorf("%s: mixed: %s", language, got)
		}
	}
	if _, err := smallGuest("nope"); !errors.Is(err, ErrNoWorkflow) {
		t.Error(err)
	}
}
