package host_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// completeLast completes a run with the newest answer as its result.
func completeLast(m *wasmgen.Module) []byte {
	return m.I32(0).I32(0).I32(4000).Call(abi.FnLast).Wrap().Call(abi.FnComplete).Drop().I32(0).Export(abi.ExportRun).Bytes()
}

// TestWhatBindingsAreTold makes calls like a binding written from ABI.md, and reads the text of errors as it does.
func TestWhatBindingsAreTold(t *testing.T) {
	h := hosttest.New(t)
	child := func(workflow string) []byte {
		return completeLast(wasmgen.New(0).Text("kid").Text(workflow).Text("").Text("").I32(0).I32(0).Call(abi.FnChildRun).Drop())
	}
	fails := func(text string) []byte {
		return wasmgen.New(0).Text(text).Call(abi.FnFail).Drop().I32(3).Export(abi.ExportRun).Bytes()
	}
	modules := map[string][]byte{
		"cancelled": completeLast(wasmgen.New(0).I32(abi.CancelCooperative).Call(abi.FnCancelPolicy).Drop().
			Text("first").I64(1).Call(abi.FnSleepStart).Drop().Text("nap").I64(1_000_000).Call(abi.FnSleep).Drop().
			I32(1).Text("words").Call(abi.FnLog).Drop().I32(0).I32(0).Call(abi.FnInput).Drop()),
		"parent of nobody": child("nobody"), "parent of text": child("text"), "parent of object": child("object"),
		"text": fails("plain words"), "object": fails(`{"message":"own form","answer":42}`),
		"number": wasmgen.New(0).I32(7).Export(abi.ExportRun).Bytes(),
		"exit":   wasmgen.New(0).I32(8).Call("wasi:proc_exit").I32(0).Export(abi.ExportRun).Bytes(),
		"trap":   wasmgen.New(0).Op(0).Export(abi.ExportRun).Bytes(),
	}
	for name, want := range map[string]abi.Error{
		"cancelled":        {Code: abi.Cancelled, Message: "the run was asked to cancel", Handle: 2},
		"parent of nobody": {Code: abi.ChildFailed, Kind: "failed", Name: "kid", Message: `"nobody"`, Details: map[string]any{}},
		"parent of text":   {Code: abi.ChildFailed, Kind: "failed", Name: "kid", Details: "plain words"},
		"parent of object": {Code: abi.ChildFailed, Kind: "failed", Name: "kid", Message: "own form", Details: map[string]any{}},
		"number":           {Code: abi.StepFailed, Message: "the workflow returned 7"},
		"exit":             {Code: abi.StepFailed, Message: "the workflow returned 8"},
		"trap":             {Code: abi.StepFailed, Kind: abi.KindTrap, Message: "unreachable", Details: map[string]any{}},
	} {
		for _, of := range []string{name, strings.TrimPrefix(name, "parent of ")} {
			if wasm := modules[of]; wasm != nil {
				if _, err := h.Upload(ctx, strings.ReplaceAll(of, " ", "-"), wasm); err != nil {
					t.Fatal(of, err)
				}
			}
		}
		run, err := h.Start(ctx, strings.ReplaceAll(name, " ", "-"), nil)
		if err != nil {
			t.Fatal(name, err)
		}
		if name == "cancelled" {
			h.Advance(time.Second)
			if _, err := h.Cancel(ctx, run.ID); err != nil {
				t.Fatal(err)
			}
		}
		h.Finish(run.ID)
		out, err := h.ResultRaw(ctx, run.ID)
		if failed, ok := errors.AsType[*host.RunError](err); ok {
			out = failed.JSON
		}
		var got abi.Error
		if err := json.Unmarshal(out, &got); err != nil {
			t.Errorf("%s: %s: %v", name, out, err)
			continue
		}
		if raw, ok := got.Details.(json.RawMessage); ok { // as what was decoded has them
			got.Details = nil
			if err := json.Unmarshal(raw, &got.Details); err != nil {
				t.Errorf("%s: %s: %v", name, raw, err)
			}
		}
		_, object := got.Details.(map[string]any)
		if _, wantObject := want.Details.(map[string]any); got.Code != want.Code || got.Kind != want.Kind || got.Name != want.Name ||
			got.Handle != want.Handle || !strings.Contains(got.Message, want.Message) || object != wantObject ||
			!object && got.Details != want.Details {
			t.Errorf("%s: %s, want %+v", name, out, want)
		}
	}
}
