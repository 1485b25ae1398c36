package workflow

import (
	"encoding"
	"encoding/json"
	"reflect"
)

// Every instance starts from the memory after the program's init functions. Work in init is done once per module and takes
// no time in activations. Register and RegisterStep use this to fill caches: the first use of a type by package json costs
// more than the replay of dozens of steps. They also make plans and enlarge the heap.

func noteName(string, any) {} // the host knows the name of the workflow

// warm makes package json cache the types of a registered function. It must not call methods of these types, which may be
// the program's. Encoding a nil slice of them is enough: it caches the encoders of the elements and of their fields.
func warm[In, Out any]() {
	if len(registered.names)+len(registered.stepNames) == 1 {
		makeRoom()
	}
	if codec != (jsonCodec{}) {
		return
	}
	_, _ = planOf(reflect.TypeFor[In]()), planOf(reflect.TypeFor[Out]())
	_, _ = json.Marshal([]In(nil))  // cannot fail
	_, _ = json.Marshal([]Out(nil)) // cannot fail
	var in any = new(In)
	switch in.(type) {
	case json.Unmarshaler, encoding.TextUnmarshaler:
		return
	}
	_ = json.Unmarshal([]byte("{}"), in) // fails for types that are not objects
}

// unused keeps the compiler from removing the allocations of makeRoom.
var unused []byte

// makeRoom grows the heap by one step, which is enough for a short activation. An activation that grows the heap itself
// writes more pages. The new pages are never written, so they take no memory where instances share the image. makeRoom does
// not collect garbage: activations wrote more pages when it did. If the heap has not grown after allocating a whole step,
// it already had room.
func makeRoom() {
	const chunk, step = 32 << 10, 512 << 10
	before := memoryPages()
	for range step / chunk {
		unused = make([]byte, chunk)
		if memoryPages() != before {
			break
		}
	}
	unused = nil
}
