package host_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// arg pushes one argument: a pointer and a length, or a number.
type arg func(m *wasmgen.Module)

func txt(s string) arg    { return func(m *wasmgen.Module) { m.Text(s) } }
func num(v int64) arg     { return func(m *wasmgen.Module) { m.I64(v) } }
func small(v int32) arg   { return func(m *wasmgen.Module) { m.I32(v) } }
func at(p, n int32) arg   { return func(m *wasmgen.Module) { m.I32(p).I32(n) } }
func zeros(n int) arg     { return at(8192, int32(n)) } // memory that was never written
func letters(n int) arg   { return txt(strings.Repeat("x", n)) }
func outside(n int32) arg { return at(-8, n) }

// wrong is a wrong value and its expected answer; trapped stands for a trap.
type wrong struct {
	what string
	arg  arg
	code abi.Code
}

const trapped = abi.Code(1000)

// kinds has right and wrong values for each kind of argument.
var kinds = map[string]struct {
	good  arg
	wrong []wrong
}{
	"name": {txt("n"), []wrong{{"empty", at(0, 0), abi.InvalidArgument}, {"too long", letters(257), abi.InvalidArgument},
		{"control", txt("a\n"), abi.InvalidArgument}, {"NUL", txt("a\x00b"), abi.InvalidArgument}, {"not UTF-8", txt("\xff\xfe"), abi.InvalidArgument},
		{"wasi/", txt("wasi/x"), abi.InvalidArgument}, {"host/", txt("host/x"), abi.InvalidArgument}, {"outside", outside(16), trapped},
		{"4 GiB", at(16, -1), trapped}}},
	"handler": {txt("host/ok"), []wrong{{"empty", at(0, 0), abi.InvalidArgument}, {"unknown", txt("nobody"), abi.UnknownHandler},
		{"unknown of the host", txt("host/nobody"), abi.UnknownHandler}, {"not granted", txt("host/denied"), abi.Denied},
		{"outside", outside(16), trapped}}},
	"payload":  {txt("{}"), []wrong{{"too large", zeros(abi.MaxPayloadBytes + 1), abi.TooLarge}, {"outside", outside(16), trapped}}},
	"step":     {at(0, 0), options(`{"attempts":"x"}`)},
	"child":    {at(0, 0), append(options(`{"on_end":"never"}`), options(`{"id":"a b"}`)...)},
	"hook":     {at(0, 0), options(`{"status":500}`)},
	"continue": {at(0, 0), options(`{"version":7}`)},
	"out":      {at(64, 64), []wrong{{"outside", outside(16), trapped}, {"4 GiB", at(16, -1), trapped}}},
	"ms":       {num(1), []wrong{{"negative", num(-1), abi.InvalidDuration}, {"for ever", num(math.MaxInt64), abi.InvalidDuration}}},
	"ns":       {num(1), nil},
	"timeout":  {num(1), []wrong{{"for ever", num(math.MaxInt64), abi.InvalidDuration}}},
	"instant":  {num(1), []wrong{{"year 292 million", num(math.MaxInt64), abi.InvalidDate}}},
	"text": {txt("1ms"), []wrong{{"empty", at(0, 0), abi.InvalidDuration}, {"bare", txt("5"), abi.InvalidDuration}, {"months", txt("1mo"), abi.InvalidDuration},
		{"no month", txt("2030-13-01T00:00:00Z"), abi.InvalidDate}, {"outside", outside(16), trapped}}},
	"workflow": {txt("w"), []wrong{{"empty", at(0, 0), abi.InvalidArgument}, {"spaces", txt("a b"), abi.InvalidArgument}, {"outside", outside(9), trapped}}},
	"run":      {txt("r"), []wrong{{"empty", at(0, 0), abi.InvalidArgument}, {"spaces", txt("a b"), abi.InvalidArgument}, {"too long", letters(129), abi.InvalidArgument}, {"outside", outside(9), trapped}}},
	"token":    {at(0, 0), []wrong{{"short", txt("short"), abi.InvalidArgument}, {"spaces", txt("longer than eight"), abi.InvalidArgument}, {"too long", letters(129), abi.InvalidArgument}, {"outside", outside(9), trapped}}},
	"value": {txt("v"), []wrong{{"too large", letters(abi.MaxAttributeBytes + 1), abi.TooLarge}, {"control", txt("a\x00"), abi.InvalidArgument},
		{"not UTF-8", txt("\xff"), abi.InvalidArgument}, {"outside", outside(9), trapped}}},
	"handle":  {num(1), []wrong{{"zero", num(0), abi.UnknownHandle}, {"negative", num(math.MinInt64), abi.UnknownHandle}, {"never made", num(99), abi.UnknownHandle}}},
	"maximum": {num(1), []wrong{{"negative", num(-1), abi.InvalidArgument}, {"too large", num(1 << 40), abi.InvalidArgument}}},
	"policy":  {small(0), []wrong{{"2", small(2), abi.InvalidArgument}, {"-1", small(-1), abi.InvalidArgument}}},
	"level":   {small(9), nil}, // counts as the nearest
	"ok":      {small(0), nil},
	"buffer":  {at(64, 16), []wrong{{"outside", outside(16), trapped}}},
	"request": {at(0, 0), []wrong{{"outside", outside(16), trapped}}},
	"handles": {at(0, 0), []wrong{{"outside", outside(2), trapped}, {"too many", at(8192, abi.MaxAwaitHandles+1), abi.InvalidArgument},
		{"no handle", at(8192, 1), abi.UnknownHandle}, {"a count without end", at(8192, -1), abi.InvalidArgument}}},
}

func options(own string) []wrong {
	return []wrong{{"not JSON", txt("{"), abi.InvalidArgument}, {"a list", txt("[]"), abi.InvalidArgument}, {"unknown field", txt(`{"nope":1}`), abi.InvalidArgument},
		{"own: " + own, txt(own), abi.InvalidArgument}, {"something after", txt("{} x"), abi.InvalidArgument}, {"null", txt("null"), abi.InvalidArgument},
		{"too large", txt(`{"x":"` + strings.Repeat("y", abi.MaxOptionBytes) + `"}`), abi.InvalidArgument}, {"outside", outside(16), trapped}}
}

// functions says what each function takes.
var functions = map[string][]string{
	abi.FnInput: {"out"}, abi.FnInfo: {"out"}, abi.FnNow: {}, abi.FnRandom: {"buffer"}, abi.FnLast: {"out"},
	abi.FnSleep: {"name", "ms"}, abi.FnSleepUntil: {"name", "instant"}, abi.FnSleepText: {"name", "text"},
	abi.FnSleepStart: {"name", "ms"}, abi.FnSleepUntilStart: {"name", "instant"}, abi.FnSleepTextStart: {"name", "text"},
	abi.FnStepDo: {"name", "handler", "payload", "step", "out"}, abi.FnStepStart: {"name", "handler", "payload", "step"},
	abi.FnStepBegin: {"name", "step"}, abi.FnStepEnd: {"ok", "request"},
	abi.FnSignalWait: {"name", "timeout", "out"}, abi.FnSignalStart: {"name", "timeout"},
	abi.FnSignalSend: {"name", "run", "name", "payload"},
	abi.FnChildRun:   {"name", "workflow", "payload", "child", "out"}, abi.FnChildStart: {"name", "workflow", "payload", "child"},
	abi.FnChildID: {"handle", "out"}, abi.FnHookStart: {"name", "token", "hook"}, abi.FnAwait: {"handles"},
	abi.FnResult: {"handle", "out"}, abi.FnCancel: {"handle"}, abi.FnVersion: {"name", "maximum"}, abi.FnFetch: {"request", "out"},
	abi.FnComplete: {"payload"}, abi.FnFail: {"payload"}, abi.FnContinueAsNew: {"payload", "continue"}, abi.FnLog: {"level", "request"},
	abi.FnEmit: {"name", "payload"}, abi.FnSetAttribute: {"name", "value"}, abi.FnCancelPolicy: {"policy"},
	abi.FnQueryReply: {"ok", "request"}, abi.FnUpdateReply: {"handle", "ok", "payload"}, abi.FnNextEvent: {}, abi.FnWaitEvent: {"ns"},
}

// callOnce is a workflow that calls a function and completes with the answer.
func callOnce(fn string, args []arg, body bool) []byte {
	m := wasmgen.New(1)
	m.Pages = 48
	push := func() {
		for _, a := range args {
			a(m)
		}
		m.Call(fn)
	}
	answers := len(abi.Functions[fn].Results) > 0
	if body {
		m.Text("body").Text(`{"attempts":1}`).Call(abi.FnStepBegin).Set(0)
		m.Get(0).IfZero64()
		if answers {
			m.I32(16)
		}
		push()
		if answers {
			m.Store64()
		}
		m.I32(0).I32(16).I32(8).Call(abi.FnStepEnd).End()
		m.I32(32).Get(0).Store64().I32(32).I32(1).Call(abi.FnAwait).Drop()
		m.Get(0).I32(16).I32(8).Call(abi.FnResult).Drop()
	} else {
		if answers {
			m.I32(16)
		}
		push()
		if answers {
			m.Store64()
		}
	}
	m.I32(16).I32(8).Call(abi.FnComplete).Drop()
	return m.I32(0).Export(abi.ExportRun).Bytes()
}

// caller is a host that runs modules made by callOnce.
type caller struct {
	*hosttest.Host
	t *testing.T
	n int
}

func newCaller(t *testing.T) *caller {
	return &caller{t: t, Host: hosttest.New(t, hosttest.WithHandlers(func(h *host.Host) {
		for _, name := range []string{"ok", "denied"} {
			host.HandleStep(h, name, func(context.Context, any) (int, error) { return 1, nil })
		}
	}))}
}

// outcome returns the answer of the call, trapped, or the run's other outcome.
func (c *caller) outcome(wasm []byte) (abi.Code, string) {
	c.t.Helper()
	c.n++
	name := fmt.Sprint("call-", c.n)
	if _, err := c.Upload(ctx, name, wasm, host.AllowStep("ok")); err != nil {
		c.t.Fatal(err)
	}
	r, err := c.Start(ctx, name, 7, host.WithRunID(name))
	if err != nil {
		c.t.Fatal(err)
	}
	r = c.Finish(r.ID)
	if r.Status != host.Completed {
		_, err := c.ResultRaw(ctx, name)
		if re, ok := errors.AsType[*host.RunError](err); ok && re.Failure != nil && re.Failure.Kind == "trap" {
			return trapped, err.Error()
		}
		how := fmt.Sprint(r.Status, " ", r.Reason, " ", err)
		if re, ok := errors.AsType[*host.RunError](err); ok {
			how += " " + string(re.JSON)
		}
		return -1, how
	}
	b, err := c.ResultRaw(ctx, name)
	if err != nil || len(b) != 8 {
		c.t.Fatal(b, err)
	}
	if err := c.Replay(ctx, name); err != nil {
		c.t.Fatalf("%s: %v", name, err)
	}
	return abi.Code(-int64(binary.LittleEndian.Uint64(b))), "answered"
}

// TestWrongCalls calls every function with every kind of wrong argument, one at a time, from a handwritten module.
func TestWrongCalls(t *testing.T) {
	if names := slices.Sorted(maps.Keys(functions)); !slices.Equal(names, slices.Sorted(maps.Keys(abi.Functions))) {
		t.Fatalf("functions without arguments here: %v", names)
	}
	c := newCaller(t)
	cases := 0
	for _, fn := range slices.Sorted(maps.Keys(functions)) {
		for i, kind := range functions[fn] {
			for _, w := range kinds[kind].wrong {
				var args []arg
				for _, k := range functions[fn] {
					args = append(args, kinds[k].good)
				}
				args[i] = w.arg
				got, how := c.outcome(callOnce(fn, args, false))
				cases++
				want := w.code
				switch {
				case fn == abi.FnContinueAsNew && want != trapped: // never returns: the refusal ends the run
					if got != -1 || !strings.Contains(how, want.String()) {
						t.Errorf("%s, %s %s: %v (%s)", fn, kind, w.what, got, how)
					}
					continue
				case (fn == abi.FnChildID || fn == abi.FnResult) && kind == "out":
					want = abi.UnknownHandle // the missing handle 1 is found first
				case fn == abi.FnUpdateReply && want == abi.TooLarge:
					want = abi.UnknownHandle
				case fn == abi.FnFetch && kind == "out":
					want = abi.NotHere
				case kind == "out" && (fn == abi.FnSignalWait || fn == abi.FnChildRun):
					want = map[string]abi.Code{abi.FnSignalWait: abi.Timeout, abi.FnChildRun: abi.ChildFailed}[fn]
				}
				if got != want {
					t.Errorf("%s, %s %s: %v (%s), want %v", fn, kind, w.what, got, how, want)
				}
			}
		}
	}
	t.Logf("%d wrong calls", cases)
}

// TestCallsInBodies calls every function in a body: the workflow's functions answer NOT_HERE.
func TestCallsInBodies(t *testing.T) {
	c := newCaller(t)
	here := map[string]abi.Code{abi.FnInput: -1, abi.FnInfo: 0, abi.FnNow: 0, abi.FnRandom: 0, abi.FnLast: 0, abi.FnLog: 0,
		abi.FnFetch: abi.InvalidArgument, abi.FnNextEvent: 0, abi.FnWaitEvent: 0}
	for _, fn := range slices.Sorted(maps.Keys(functions)) {
		var args []arg
		for _, k := range functions[fn] {
			args = append(args, kinds[k].good)
		}
		got, how := c.outcome(callOnce(fn, args, true))
		want, ok := here[fn]
		switch {
		case fn == abi.FnStepEnd || fn == abi.FnQueryReply || fn == abi.FnContinueAsNew: // never return
			if got != 0 && got != -1 {
				t.Errorf("%s in a body: %v (%s)", fn, got, how)
			}
		case ok && want == 0 && (got <= 0 || fn == abi.FnNow): // a length, or an instant, which is not an error code
		case ok && got == want:
		case ok || got != abi.NotHere:
			t.Errorf("%s in a body: %v (%s)", fn, got, how)
		}
	}
}

// TestOutsideOfBodies makes calls in a workflow that are only for bodies and queries.
func TestOutsideOfBodies(t *testing.T) {
	c := newCaller(t)
	for _, fn := range []string{abi.FnStepEnd, abi.FnQueryReply} {
		got, how := c.outcome(callOnce(fn, []arg{small(0), at(0, 0)}, false))
		if got != trapped || !strings.Contains(how, fn+" was called outside of a ") {
			t.Errorf("%s: %v (%s)", fn, got, how)
		}
	}
	if got, how := c.outcome(callOnce(abi.FnFetch, []arg{at(0, 0), at(64, 64)}, false)); got != abi.NotHere {
		t.Errorf("fetch: %v (%s)", got, how)
	}
}
