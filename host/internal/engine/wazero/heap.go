package wazero

import (
	"reflect"

	"github.com/tetratelabs/wazero/api"
)

// What an instance takes on the Go heap. Its linear memory is elsewhere. wazero does not report these sizes, so this
// code depends on wazero's internals. An element of a table is a pointer. Each reference to a function, made by a
// segment of elements at instantiation or by ref.func at run time, is an object that lives as long as the instance.
// Each function called from outside has its own stack, which doubles when it is full, up to 100 MB, and never
// shrinks. Tables, references and stacks are measured. The rest is estimated: constants for an instance and its
// globals. The overhead of Go's allocator and of rounded sizes is left out.
const (
	// instanceBytes is what the smallest instance takes without a stack: wazero's module instance, its counterpart
	// for the compiled code, and the called functions. Measured.
	instanceBytes = 8 << 10
	// stackBytes is the initial size of a stack, and the estimate for a stack that cannot be inspected.
	stackBytes   = 10 << 10
	pointerBytes = 8       // an element of a table, or of the list of references
	objectBytes  = 24      // a reference
	globalBytes  = 80 + 24 // the object with the pointer to it, and its value in the compiled code's memory
)

// maxHeapBytes bounds the tables and references of an instance; refuel checks it. It has room for the four tables
// that a module may have, with the spare capacity of grown slices, and a reference for each element of one table.
const maxHeapBytes = 96 << 20

// Overhead estimates what a new instance takes on the Go heap.
func (m *module) Overhead() int64 {
	r := &m.rewritten
	return instanceBytes + stackBytes + pointerBytes*int64(r.Elements) + (pointerBytes+objectBytes)*int64(r.References) +
		globalBytes*int64(r.GlobalCount)
}

// growing is a slice inside of wazero that grows while the instance is used.
type growing struct {
	slice  reflect.Value
	each   int64 // bytes of an element
	object int64 // bytes that an element points to exclusively
}

// bytes returns the size of the slice and of the objects it owns.
func (g growing) bytes() int64 { return int64(g.slice.Cap())*g.each + int64(g.slice.Len())*g.object }

// field returns a slice field of a wazero structure; not ok if wazero has changed, which a test detects.
func field(in reflect.Value, name string) (slice reflect.Value, ok bool) {
	for in.Kind() == reflect.Pointer || in.Kind() == reflect.Interface {
		in = in.Elem()
	}
	if in.Kind() != reflect.Struct {
		return slice, false
	}
	slice = in.FieldByName(name)
	return slice, slice.IsValid() && slice.Kind() == reflect.Slice
}

// findHeap finds the slices of the instance on the Go heap.
func (in *instance) findHeap() {
	in.heap = in.heap[:0]
	mod := reflect.ValueOf(in.mod)
	tables, ok := field(mod, "Tables")
	if !ok {
		return
	}
	for i := range tables.Len() {
		if elements, ok := field(tables.Index(i), "References"); ok {
			in.heap = append(in.heap, growing{elements, pointerBytes, 0})
		}
	}
	engine := mod.Elem().FieldByName("Engine")
	if !engine.IsValid() {
		return
	}
	if references, ok := field(engine, "localFunctionInstances"); ok { // the interpreter has none
		in.heap = append(in.heap, growing{references, pointerBytes, objectBytes})
	}
}

// unseen stands for a stack that is not where it is expected.
var unseen = growing{slice: reflect.ValueOf(new([stackBytes]byte)[:]), each: 1}

// stackOf returns the stack of a function.
func stackOf(f api.Function) growing {
	if stack, ok := field(reflect.ValueOf(f), "stack"); ok {
		return growing{stack, int64(stack.Type().Elem().Size()), 0}
	}
	return unseen
}

// onHeap estimates what the instance takes on the Go heap.
func (in *instance) onHeap() int64 {
	return instanceBytes + globalBytes*int64(in.m.rewritten.GlobalCount) + sum(in.heap) + sum(in.stacks) + in.act.fork.bytes()
}

func sum(all []growing) (n int64) {
	for _, g := range all {
		n += g.bytes()
	}
	return n
}

// bytes returns the size of the saved state: copies of the memory and of the stack.
func (f *fork) bytes() int64 {
	if f == nil {
		return 0
	}
	return f.memory.Bytes() + f.copied
}
