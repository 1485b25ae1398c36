package wazero

import (
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/engine/linear"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// waiting is a guest that waits for events, and for each writes 7 into the page of the event's number. Before event
// 20 it grows its memory. Its whole state is in memory.
func waiting() *wasmgen.Module {
	m := wasmgen.New(1)
	m.Pages = 1
	for _, export := range []string{abi.ExportRun, abi.ExportThaw} {
		m.While().I64(-1).Call(abi.FnWaitEvent).Set(0)
		m.Get(0).I64(-abi.Freeze.Neg()).Add().IfZero64().I32(0).Op(0x0f).End()
		m.Get(0).I64(20).Sub().IfZero64().I32(1).Op(0x40, 0).Drop().End() // memory.grow
		m.Get(0).I64(4096).Mul().Wrap().Op(0x41, 7).Store8().EndWhile()
		m.I32(0).Export(export)
	}
	return m
}

// events answers wait_event with a number or a freeze.
type events struct {
	tester
	next []int64
	in   *instance
	hash [32]byte // where the guest waited last
}

const freeze = -1

var errEvents = errors.New("there are no more events")

func (e *events) WaitEvent(int64) (int64, error) {
	e.hash = e.in.Hash()
	if len(e.next) == 0 {
		return 0, errEvents
	}
	n := e.next[0]
	e.next = e.next[1:]
	if n == freeze {
		return 0, engine.ErrFreeze
	}
	return n, nil
}

// give delivers events to a guest until it is frozen, or there are no more events.
func give(t *testing.T, in *instance, export string, next ...int64) *events {
	t.Helper()
	e := &events{tester: tester{limit: 1 << 60}, next: next, in: in}
	want := errEvents
	if len(next) > 0 && next[len(next)-1] == freeze {
		want = engine.ErrFreeze
	}
	if _, err := in.Call(ctx, export, e); !errors.Is(err, want) {
		t.Fatalf("%s ended with %v, want %v", export, err, want)
	}
	return e
}

// A frozen guest continues in another instance as if it had not been frozen, with the same memory and globals. The
// instance that it left is like new.
func TestFreeze(t *testing.T) {
	_, m := compile(t, Config{}, waiting().Bytes())
	never := take(t, m)
	want := give(t, never, abi.ExportRun, 1, 2, 20, 3, 4)
	in := take(t, m)
	fresh := in.Hash()
	give(t, in, abi.ExportRun, 1, 2, freeze)
	var last engine.Frozen
	for _, next := range [][]int64{{20, freeze}, {freeze}, {3, freeze}} {
		f, ok := in.Freeze()
		if !ok {
			t.Skip("this system does not tell which pages were written")
		}
		other := take(t, m)
		in.Release(ctx)
		if again := take(t, m); again != in || again.Hash() != fresh {
			t.Fatal("the instance of a frozen guest differs from a new one")
		} else {
			again.Release(ctx)
		}
		in, last = other, f
		if !in.Thaw(f) {
			t.Fatal("it cannot be thawed")
		}
		give(t, in, abi.ExportThaw, next...)
	}
	f, _ := in.Freeze()
	in.Release(ctx)
	for range 2 { // as often as one likes
		in = take(t, m)
		if !in.Thaw(f) {
			t.Fatal("it cannot be thawed")
		}
		got := give(t, in, abi.ExportThaw, 4)
		if got.hash != want.hash {
			t.Errorf("hash %x; without freezing %x", got.hash, want.hash)
		}
		in.Release(ctx)
	}
	if n := f.Bytes(); n > 1000 || n < last.Bytes() {
		t.Errorf("a guest that has written four pages is frozen in %d bytes, before the last one in %d", n, last.Bytes())
	}
}

// An instance that was never frozen cannot be saved, and an instance of another module cannot be thawed.
func TestFreezeRefused(t *testing.T) {
	_, m := compile(t, Config{}, waiting().Bytes())
	in := take(t, m)
	give(t, in, abi.ExportRun, 1)
	if _, ok := in.Freeze(); ok {
		t.Error("a guest is frozen that still has its stack")
	}
	in = take(t, m)
	give(t, in, abi.ExportRun, freeze)
	f, ok := in.Freeze()
	if !ok {
		t.Skip("this system does not tell which pages were written")
	}
	_, other := compile(t, Config{}, waiting().I32(0).Export("other").Bytes())
	if take(t, other).Thaw(f) {
		t.Error("the guest of another module is thawed")
	}
	_, again := compile(t, Config{}, waiting().Bytes())
	if !take(t, again).Thaw(f) {
		t.Error("the guest is not thawed after its module was loaded again")
	}
	_, m = compile(t, Config{Reset: linear.ResetCopy}, waiting().Bytes())
	in = take(t, m)
	give(t, in, abi.ExportRun, 1, freeze)
	if _, ok := in.Freeze(); ok {
		t.Error("an instance is frozen of which nobody knows what was written")
	}
	in.Release(ctx)
	if again := take(t, m); again.Hash() != take(t, m).Hash() {
		t.Error("an instance that was not frozen is not made new")
	}
}

// Guests that were frozen before and after their module was loaded again are compared with the same model: a model
// takes more memory than a snapshot, and is not counted.
func TestFreezeSharesAcrossLoads(t *testing.T) {
	e, err := New(ctx, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close(ctx) }()
	models, kept := map[uintptr]bool{}, []engine.Frozen{}
	var m *module
	for range 3 {
		mod, err := e.Compile(ctx, engine.Bytes(waiting().Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		m = mod.(*module)
		for range 2 { // the first one has no model to be compared with
			in := take(t, m)
			give(t, in, abi.ExportRun, 1, 2, freeze)
			f, ok := in.Freeze()
			if !ok {
				t.Skip("this system does not tell which pages were written")
			}
			in.Release(ctx)
			models[reflect.ValueOf(f.(*frozen).memory).FieldByName("from").Pointer()] = true
			kept = append(kept, f)
		}
		if err := m.Close(ctx); err != nil {
			t.Fatal(err)
		}
		runtime.GC()
	}
	if delete(models, 0); len(models) != 1 {
		t.Error(len(models), "memories are kept that guests are compared with")
	}
	_, m = compile(t, Config{}, waiting().Bytes())
	never := take(t, m)
	want := give(t, never, abi.ExportRun, 1, 2, 3)
	for i, f := range kept {
		in := take(t, m)
		if !in.Thaw(f) {
			t.Fatal("it cannot be thawed")
		}
		if got := give(t, in, abi.ExportThaw, 3); got.hash != want.hash {
			t.Errorf("guest %d: hash %x; without freezing %x", i, got.hash, want.hash)
		}
		in.Release(ctx)
	}
}

// A guest that calls the host after it was told to return is ended.
func TestFreezeDisobeyed(t *testing.T) {
	m := wasmgen.New(1)
	m.I64(-1).Call(abi.FnWaitEvent).Drop().Call(abi.FnNow).Drop().I32(0).Export(abi.ExportRun)
	m.I32(0).Export(abi.ExportThaw)
	_, mod := compile(t, Config{}, m.Bytes())
	in := take(t, mod)
	_, err := in.Call(ctx, abi.ExportRun, &events{tester: tester{limit: 1 << 60}, next: []int64{freeze}, in: in})
	var trap *engine.Trap
	if !errors.As(err, &trap) || !strings.Contains(trap.Message, "frozen by wait_event") {
		t.Errorf("it ended with %v", err)
	}
	if _, ok := in.Freeze(); ok {
		t.Error("it is frozen all the same")
	}
}
