package wazero

import (
	"reflect"

	"github.com/tetratelabs/wazero/api"
)

// What an instance takes on the Go heap beside its linear memory, which is not there. wazero tells nobody, so that this
// knows how wazero does it: each element of a table is a pointer, each reference to a function that is made (by a segment
// of elements when the instance is, or by ref.func while it runs) is an object that lives as long as the instance,
// and each function that is called from outside has a stack of its own, which doubles when it is used up, to 100 MB at
// most, and stays large. Tables, references and stacks are counted as they are. The rest is an estimate: constants
// for an instance and its globals, and what Go's allocator and the rounding of sizes add is left out.
const (
	// instanceBytes is what the smallest instance takes, without the stack: wazero's module instance, what the compiled
	// code knows it by, and the functions that are called. Measured.
	instanceBytes = 8 << 10
	// stackBytes is how large a stack is in the beginning; and one that cannot be seen, about.
	stackBytes   = 10 << 10
	pointerBytes = 8       // an element of a table, and one of the list of references
	objectBytes  = 24      // a reference
	globalBytes  = 80 + 24 // the object with the pointer to it, and its value where the code finds it
)

// maxHeapBytes bounds the tables and references of an instance, which is looked at whenever it has used its fuel up: the four
// tables that a module may have, with what is spare in slices that have grown, and a reference for each element of one of them.
const maxHeapBytes = 96 << 20

// Overhead returns what an instance that is new takes on the Go heap, about.
func (m *module) Overhead() int64 {
	r := &m.rewritten
	return instanceBytes + stackBytes + pointerBytes*int64(r.Elements) + (pointerBytes+objectBytes)*int64(r.References) +
		globalBytes*int64(r.GlobalCount)
}

// growing is a slice of wazero's that grows while the instance is used.
type growing struct {
	slice  reflect.Value
	each   int64 // bytes of an element
	object int64 // bytes of what an element points to, if it is the only one
}

// bytes returns what the slice takes.
func (g growing) bytes() int64 { return int64(g.slice.Cap())*g.each + int64(g.slice.Len())*g.object }

// field returns a slice within a structure of wazero's, not ok if that has changed: a test says so.
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

// findHeap finds what the instance has on the Go heap.
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

// unseen is a stack that is not found where it was.
var unseen = growing{slice: reflect.ValueOf(new([stackBytes]byte)[:]), each: 1}

// stackOf finds the stack of a function.
func stackOf(f api.Function) growing {
	if stack, ok := field(reflect.ValueOf(f), "stack"); ok {
		return growing{stack, int64(stack.Type().Elem().Size()), 0}
	}
	return unseen
}

// onHeap returns what the instance takes on the Go heap, about.
func (in *instance) onHeap() int64 {
	return instanceBytes + globalBytes*int64(in.m.rewritten.GlobalCount) + sum(in.heap) + sum(in.stacks) + in.act.fork.bytes()
}

func sum(all []growing) (n int64) {
	for _, g := range all {
		n += g.bytes()
	}
	return n
}

// bytes returns what is kept to undo a fork: copies of the memory and of the stack.
func (f *fork) bytes() int64 {
	if f == nil {
		return 0
	}
	return f.memory.Bytes() + f.copied
}
