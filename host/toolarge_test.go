package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// fiveMB is the number of bytes that the guests of this file pass: more than one byte over the limit.
const fiveMB = 5<<20 + 2

// bigModule has a memory with enough bytes, and space for an answer at 1024.
func bigModule() *wasmgen.Module {
	m := wasmgen.New(1)
	m.Pages = 128
	return m
}

// lastAsResult completes with the error of the newest call, which it writes to an address with enough space.
func lastAsResult(m *wasmgen.Module, at int32) []byte {
	m.I32(at).I32(2 << 20).Call(abi.FnLast).Set(0)
	m.I32(at).Get(0).Wrap().Call(abi.FnComplete).Drop()
	return m.I32(0).Export(abi.ExportRun).Bytes()
}

// ended runs a module and returns its result or its error.
func ended(t *testing.T, c *caller, wasm []byte) string {
	t.Helper()
	c.n++
	name := fmt.Sprint("big-", c.n)
	if _, err := c.Upload(ctx, name, wasm, host.AllowStep("*")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Start(ctx, name, 7, host.WithRunID(name)); err != nil {
		t.Fatal(err)
	}
	c.Finish(name)
	b, err := c.ResultRaw(ctx, name)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// TestTooLargeTellsTheSize passes payloads of five megabytes: each refusal states their size.
func TestTooLargeTellsTheSize(t *testing.T) {
	c := newCaller(t)
	payload := at(8192, fiveMB)
	for fn, args := range map[string][]arg{
		abi.FnStepStart:    {txt("n"), txt("host/ok"), payload, at(0, 0)},
		abi.FnEmit:         {txt("n"), payload},
		abi.FnComplete:     {payload},
		abi.FnFail:         {payload},
		abi.FnSignalSend:   {txt("n"), txt("r"), txt("s"), payload},
		abi.FnChildStart:   {txt("n"), txt("w"), payload, at(0, 0)},
		abi.FnSetAttribute: {txt("n"), payload},
		abi.FnStepBegin:    {txt("n"), payload}, // its options
	} {
		m := bigModule()
		for _, a := range args {
			a(m)
		}
		got := ended(t, c, lastAsResult(m.Call(fn).Drop(), 1024))
		if want := "5242882 bytes, the limit is "; !strings.Contains(got, want) {
			t.Errorf("%s says %s, want %q", fn, got, want)
		}
	}
	m := bigModule().I32(8192).I32(fiveMB).I32(0).I32(0).Call(abi.FnContinueAsNew) // never comes back
	got := ended(t, c, m.I32(0).Export(abi.ExportRun).Bytes())
	if !strings.Contains(got, "5242882 bytes, the limit is 1048576") {
		t.Errorf("continue_as_new says %s", got)
	}
}

// TestTooLargeBody returns five megabytes from a body, and as the answer to a query.
func TestTooLargeBody(t *testing.T) {
	c := newCaller(t)
	m := bigModule().Text("body").Text("").Call(abi.FnStepBegin).Set(0)
	m.Get(0).IfZero64().I32(0).I32(8192).I32(fiveMB).Call(abi.FnStepEnd).End()
	m.I32(32).Get(0).Store64().I32(32).I32(1).Call(abi.FnAwait).Drop()
	m.Get(0).I32(16).I32(8).Call(abi.FnResult).Drop()
	var e abi.Error
	got := ended(t, c, lastAsResult(m, 1024))
	if err := json.Unmarshal([]byte(got), &e); err != nil || e.Message != `result of step "body" has 5242882 bytes, the limit is 1048576` {
		t.Errorf("the body's failure is %s: %v", got, err)
	}
	q := bigModule().Text("never").I64(-1).Call(abi.FnSignalStart).Set(0)
	q.I32(32).Get(0).Store64().I32(32).I32(1).Call(abi.FnAwait).Drop()
	q.I32(0).I32(8192).I32(fiveMB).Call(abi.FnQueryReply)
	if _, err := c.Upload(ctx, "asked", q.I32(0).Export(abi.ExportRun).Bytes()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Start(ctx, "asked", 1, host.WithRunID("asked")); err != nil {
		t.Fatal(err)
	}
	c.Settle()
	if _, err := c.Query(ctx, "asked", "status", nil); err == nil || !strings.Contains(err.Error(), "the answer has 5242882 bytes, the limit is 1048576") {
		t.Errorf("the query says %v", err)
	}
}

// report makes the module write a failure report whose message of n bytes comes first, and pushes its address and
// length.
func report(m *wasmgen.Module, n int32) *wasmgen.Module {
	const before, after = `{"message":"`, `","type":"Huge","retryable":false}`
	m.I32(8192).Text(before).Op(0xfc, 10, 0, 0)                     // memory.copy
	m.I32(8192+int32(len(before))).I32('x').I32(n).Op(0xfc, 11, 0)  // memory.fill
	m.I32(8192+int32(len(before))+n).Text(after).Op(0xfc, 10, 0, 0) // memory.copy
	return m.I32(8192).I32(int32(len(before)) + n + int32(len(after)))
}

// TestTooLargeReport fails a body and a step function with a report over the limit: the message is truncated, and the
// rest is used. A report that is larger still is not decoded.
func TestTooLargeReport(t *testing.T) {
	c := newCaller(t)
	body := func(n int32) *wasmgen.Module {
		m := bigModule().Text("s").Text(`{"attempts":2}`).Call(abi.FnStepBegin).Set(0).Get(0).IfZero64().I32(1)
		return report(m, n).Call(abi.FnStepEnd).End()
	}
	function := func(n int32) *wasmgen.Module {
		m := report(bigModule(), n).Call(abi.FnFail).Drop().I32(1).Export(abi.ExportStep)
		return m.Text("s").Text("f").I32(0).I32(0).Text(`{"attempts":2}`).Call(abi.FnStepStart).Set(0)
	}
	for name, of := range map[string]func(int32) *wasmgen.Module{"body": body, "function": function} {
		for n, want := range map[int32]struct {
			typ      string
			attempts int
			begins   string
		}{
			1 << 20:            {"Huge", 1, "x"},
			2 << 20:            {"Huge", 1, "x"},
			abi.MaxReportBytes: {"", 2, `{"message":"x`}, // the text around the message exceeds the limit
		} {
			m := of(n)
			m.Pages = 256
			m.I32(32).Get(0).Store64().I32(32).I32(1).Call(abi.FnAwait).Drop()
			m.Get(0).I32(16).I32(8).Call(abi.FnResult).Drop()
			got := ended(t, c, lastAsResult(m, 12<<20))
			var e abi.Error
			if err := json.Unmarshal([]byte(got), &e); err != nil || e.Type != want.typ || e.Attempts != want.attempts ||
				len(e.Message) != 64<<10+len("…") || !strings.HasPrefix(e.Message, want.begins) || !strings.HasSuffix(e.Message, "x…") {
				t.Errorf("%s, %d bytes: type %q, %d attempts, %d bytes: %.200s, %v", name, n, e.Type, e.Attempts, len(e.Message), got, err)
			}
		}
	}
}

// TestTooLargeHandlerError fails a handler with a message over the limit: the workflow can pass on what it gets.
func TestTooLargeHandlerError(t *testing.T) {
	c := newCaller(t)
	host.HandleStep(c.Host.Host, "huge", func(context.Context, any) (int, error) {
		return 0, host.Fatal(errors.New(strings.Repeat("\n", 1<<20)))
	})
	m := bigModule().Text("s").Text("host/huge").I32(0).I32(0).I32(0).I32(0).Call(abi.FnStepStart).Set(0)
	m.I32(32).Get(0).Store64().I32(32).I32(1).Call(abi.FnAwait).Drop()
	m.Get(0).I32(16).I32(8).Call(abi.FnResult).Drop()
	got := ended(t, c, lastAsResult(m, 8192))
	var e abi.Error
	if err := json.Unmarshal([]byte(got), &e); err != nil || len(got) > abi.MaxPayloadBytes || e.Code != abi.StepFailed ||
		e.Name != "s" || len(e.Message) != 64<<10+len("…") {
		t.Errorf("%d bytes: %.200s, %v", len(got), got, err)
	}
}
