package wazero

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/wfhost/wfhost/host/internal/engine"
)

type instance struct {
	m         *module
	mod       api.Module
	linear    *linear // nil: the instance is used once
	globals   []api.MutableGlobal
	fuel      api.MutableGlobal // nil: the module counts none
	functions map[string]function
	forkable  bool // in the call that goes on, or the next one
	forked    bool // since it was taken
	broken    bool // it did not end by a suspension or a return
	act       activation
	stack     [1]uint64
}

// function is an export that was looked up, with its stack.
type function struct {
	api.Function
	results int
}

// findGlobals looks the exported mutable globals up. The fuel counter is the last one.
func (in *instance) findGlobals() {
	for _, g := range in.m.rewritten.Globals {
		mg, _ := in.mod.ExportedGlobal(g.Export).(api.MutableGlobal)
		in.globals = append(in.globals, mg)
	}
	if name := in.m.rewritten.Fuel; name != "" {
		in.fuel, _ = in.mod.ExportedGlobal(name).(api.MutableGlobal)
		in.globals = append(in.globals, in.fuel)
	}
}

// idle gives about what an idle instance takes.
func (in *instance) idle() int64 { return instanceBytes + in.linear.kept }

func (in *instance) Resident() int64 {
	if in.linear == nil {
		return instanceBytes + int64(in.mod.Memory().Size())
	}
	return instanceBytes + in.linear.resident()
}

func (in *instance) restoreGlobals() {
	for i, g := range in.globals {
		g.Set(in.linear.im.globals[i])
	}
}

// Release resets the instance and puts it into the pool, or closes it.
func (in *instance) Release(ctx context.Context) {
	if in.forked { // each fork leaves its stack larger than before
		clear(in.functions)
	}
	in.act, in.forkable, in.forked = activation{}, false, false
	if in.linear == nil || in.broken || in.mod.IsClosed() || !in.reset() || !in.m.machine.pool.put(ctx, in) {
		in.close(ctx)
	}
}

func (in *instance) close(ctx context.Context) {
	_ = in.mod.Close(context.WithoutCancel(ctx)) // nothing to flush, and nobody to tell
}

// reset makes memory and globals those of the image. Tables do not change in a module that has one. wazero cannot
// shrink a memory, but takes over what a grow gives it, which is where it is cut.
func (in *instance) reset() bool {
	if !in.resize(len(in.linear.im.memory), in.linear.restore) {
		return false
	}
	in.restoreGlobals()
	return true
}

// resize makes the memory what set makes of it, and gives it a size that it had before.
func (in *instance) resize(size int, set func()) bool {
	base := first(in.linear.base)
	set()
	if first(in.linear.base) != base || int(in.mod.Memory().Size()) != size {
		in.linear.cut = size
		_, ok := in.mod.Memory().Grow(1)
		in.linear.cut = 0
		return ok && int(in.mod.Memory().Size()) == size
	}
	return true
}

// first gives the address of a slice, nil if it has no memory.
func first(b []byte) *byte {
	if cap(b) == 0 {
		return nil
	}
	return &b[:1][0]
}

// Memory gives the linear memory itself, valid until the guest runs again. Tests look at it.
func (in *instance) Memory() []byte {
	mem := in.mod.Memory()
	b, _ := mem.Read(0, mem.Size())
	return b
}

func (in *instance) Hash() (sum [32]byte) {
	h := sha256.New()
	h.Write(in.Memory())
	for _, g := range in.globals {
		_ = binary.Write(h, binary.LittleEndian, g.Get()) // a hash takes everything
	}
	return [32]byte(h.Sum(sum[:0]))
}

func (in *instance) function(export string) (function, error) {
	fn, ok := in.functions[export]
	if !ok {
		f := in.mod.ExportedFunction(export)
		if f == nil {
			return fn, fmt.Errorf("the module does not export %s", export)
		}
		fn = function{f, len(f.Definition().ResultTypes())}
		in.functions[export] = fn
	}
	return fn, nil
}

func (in *instance) Call(ctx context.Context, export string, h engine.Host) (int32, error) {
	fn, err := in.function(export)
	if err != nil {
		return 0, err
	}
	a := &in.act
	*a = activation{Context: ctx, in: in, host: h}
	in.broken = true // until it has ended as it should
	// One slot for the result. wazero writes it through a bare pointer, so it must outlive the call.
	in.stack[0] = 0
	var call context.Context = a
	if in.forkable {
		call = experimental.WithSnapshotter(a)
	}
	err = fn.CallWithStack(call, in.stack[:])
	runtime.KeepAlive(in)
	if err != nil {
		in.broken = a.stop == nil
		exit := &engine.Exit{}
		if a.stop != nil && errors.As(a.stop, &exit) {
			return int32(exit.Code), nil
		}
		return 0, a.explain(ctx, err, engine.TrapGuest)
	}
	in.broken = false
	if fn.results == 0 {
		return 0, nil
	}
	return int32(uint32(in.stack[0])), nil
}
