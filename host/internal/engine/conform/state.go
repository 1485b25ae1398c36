package conform

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// section returns a section with n items.
func section(id byte, n int, items ...byte) []byte {
	b := append(binary.AppendUvarint(nil, uint64(n)), items...)
	return append(binary.AppendUvarint([]byte{id}, uint64(len(b))), b...)
}

// body returns a function body without locals.
func body(ops ...byte) []byte {
	b := append(append([]byte{0}, ops...), 0x0b)
	return append(binary.AppendUvarint(nil, uint64(len(b))), b...)
}

// starting returns a module with a start function, data, _initialize and mutable globals of all number types. Its
// entry point returns 42, which the start function has stored in a global, plus a byte of its data. If the module
// must not be recyclable, it changes its table.
func starting(recyclable bool) []byte {
	b := []byte("\x00asm\x01\x00\x00\x00")
	b = append(b, section(1, 2, 0x60, 0, 1, 0x7f, 0x60, 0, 0)...)
	b = append(b, section(3, 3, 0, 1, 1)...)
	b = append(b, section(4, 1, 0x70, 0, 3)...)
	b = append(b, section(5, 1, 0, 2)...)
	b = append(b, section(6, 5,
		0x7f, 1, 0x41, 0, 0x0b,
		0x7e, 1, 0x42, 0x7f, 0x0b,
		0x7d, 1, 0x43, 1, 0, 0xa0, 0x7f, 0x0b, // a signalling NaN
		0x7c, 1, 0x44, 1, 0, 0, 0, 0, 0, 0xf4, 0xff, 0x0b,
		0x7f, 0, 0x41, 9, 0x0b)...)
	var exports []byte
	export := func(name string, kind, i byte) {
		exports = append(append(append(exports, byte(len(name))), name...), kind, i)
	}
	export(abi.ExportRun, 0, 0)
	export(abi.ExportInitialize, 0, 2)
	export(abi.ExportMemory, 2, 0)
	b = append(b, section(7, 3, exports...)...)
	b = append(b, 8, 1, 1) // the start function
	b = append(b, section(9, 1, 0, 0x41, 0, 0x0b, 1, 0)...)
	run := []byte{0x23, 0, 0x41, 3, 0x2d, 0, 0, 0x6a}
	if !recyclable {
		run = append(run, 0x41, 1, 0xd2, 0, 0x26, 0) // table.set
	}
	// It sets the first global to 42, and the third one to 0/0.
	start := body(0x41, 42, 0x24, 0, 0x43, 0, 0, 0, 0, 0x43, 0, 0, 0, 0, 0x95, 0x24, 2)
	initialize := body(0x41, 10, 0x23, 0, 0x3a, 0, 0)
	b = append(b, section(10, 3, append(append(body(run...), start...), initialize...)...)...)
	return append(b, section(11, 2, append([]byte{0, 0x41, 0, 0x0b, 5}, "abcdeXX"[:5]+"\x00\x41\x01\x0b\x01c"...)...)...)
}

// numbers checks that numbers keep their bits unless an instruction computes with them: in locals, globals, memory,
// parameters.
func numbers(t *testing.T, e engine.Engine) {
	m := wasmgen.New(1)
	for i, bits := range operands64 {
		m.I32(int32(8*i)).I64(int64(bits)).Op(0xbf, 0x39, 3, 0) // as a float
	}
	for i, bits := range operands32 {
		m.I32(int32(1000+4*i)).I64(int64(bits)).Wrap().Op(0xbe, 0x38, 2, 0)
	}
	m.I32(0).I32(2000).Call(abi.FnComplete).Drop()
	h := newHost()
	if _, err := run(t, e, m.I32(0).Export(abi.ExportRun).Bytes(), h); err != nil {
		t.Fatal(err)
	}
	for i, bits := range operands64 {
		if got := binary.LittleEndian.Uint64(h.completed[8*i:]); got != bits {
			t.Errorf("%x has become %x", bits, got)
		}
	}
	for i, bits := range operands32 {
		if got := binary.LittleEndian.Uint32(h.completed[1000+4*i:]); got != bits {
			t.Errorf("%x has become %x", bits, got)
		}
	}
}

// forks makes a guest execute a body in its own instance and undoes that, unless the engine reports that it cannot.
func forks(t *testing.T, e engine.Engine) {
	m := wasmgen.New(2)
	// If the answer is 1, write into memory and end the body.
	m.I32(0).I32(0).Call(abi.FnAwait).Set(0)
	m.Get(0).I64(1).Sub().IfZero64().I32(8).I64(99).Store64().I64(5).Set(1).I32(0).I32(0).I32(0).Call(abi.FnStepEnd).End()
	m.I32(16).Get(0).Store64().I32(24).Get(1).Store64().I32(0).I32(32).Call(abi.FnComplete).Drop()
	in := instance(t, module(t, e, calling(m)))
	defer in.Release(context.Background())
	in.AllowFork()
	h, of := newHost(), newHost()
	of.await = func() (int64, error) { return 1, nil }
	of.stepEnd = engine.ErrUndo
	awaits, forked := 0, false
	h.await = func() (int64, error) {
		awaits++
		if awaits == 1 {
			forked = in.Fork(of)
			if forked {
				return of.await()
			}
		}
		return 2, nil
	}
	if code, err := in.Call(context.Background(), abi.ExportRun, h); err != nil || code != 7 {
		t.Fatal(code, err)
	}
	if forked && awaits != 2 {
		t.Errorf("it waited %d times", awaits)
	}
	if got := h.completed; len(got) != 32 || binary.LittleEndian.Uint64(got[8:]) != 0 || binary.LittleEndian.Uint64(got[16:]) != 2 ||
		binary.LittleEndian.Uint64(got[24:]) != 0 {
		t.Errorf("forked %v: the body is seen: %x", forked, got)
	}
}

// calling makes the code a separate function that the entry point calls: it waits two calls deep, as guests do.
func calling(m *wasmgen.Module) []byte {
	m.I32(7).Export("inner")
	return m.Op(0x10, 3).Export(abi.ExportRun).Bytes()
}

// freezes makes a guest give up its stack and continue in another instance, or replays it if the engine cannot
// freeze.
func freezes(t *testing.T, e engine.Engine) {
	m := wasmgen.New(1)
	for _, export := range []string{abi.ExportRun, abi.ExportThaw} {
		m.While().I64(-1).Call(abi.FnWaitEvent).Set(0)
		m.Get(0).I64(-abi.Freeze.Neg()).Add().IfZero64().I32(0).Op(0x0f).End()
		m.Get(0).I64(8).Mul().Wrap().Get(0).Store64().EndWhile()
		m.I32(0).Export(export)
	}
	mod := module(t, e, m.Bytes())
	give := func(in engine.Instance, export string, want error, events ...int64) {
		t.Helper()
		h := newHost()
		h.events = events
		if _, err := in.Call(context.Background(), export, h); !errors.Is(err, want) {
			t.Fatalf("%v, want %v", err, want)
		}
	}
	never := instance(t, mod)
	defer never.Release(context.Background())
	give(never, abi.ExportRun, errEvents, 1, 2, 3)
	in := instance(t, mod)
	give(in, abi.ExportRun, engine.ErrFreeze, 1, 2, freeze)
	f, ok := in.Freeze()
	in.Release(context.Background())
	if !ok {
		return
	}
	in = instance(t, mod)
	defer in.Release(context.Background())
	if !in.Thaw(f) {
		t.Fatal("it cannot be thawed")
	}
	give(in, abi.ExportThaw, errEvents, 3)
	if in.Hash() != never.Hash() {
		t.Error("a guest that was frozen differs from one that was not")
	}
}
