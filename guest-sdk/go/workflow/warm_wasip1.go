package workflow

import (
	"encoding"
	"encoding/json"
	"reflect"
)

// Every instance starts from memory as it is after the init functions of the program, so what is done there is done
// once per module, and no activation pays for it. Register and RegisterStep use that: package json, to which a type that it
// has not met costs more than the replay of dozens of steps, learns theirs, and so do plans; and the heap gets room.

func noteName(string, any) {} // a host names the workflow

// warm makes package json learn the types of a registered function. It calls no method of these types, which may be
// the program's: an empty list of them is enough to learn how they are encoded, and the fields of structs as well.
func warm[In, Out any]() {
	if len(registered.names)+len(registered.stepNames) == 1 {
		makeRoom()
	}
	if codec != (jsonCodec{}) {
		return
	}
	_, _ = planOf(reflect.TypeFor[In]()), planOf(reflect.TypeFor[Out]())
	_, _ = json.Marshal([]In(nil))  // of an empty list, nothing can fail
	_, _ = json.Marshal([]Out(nil)) // the same
	var in any = new(In)
	switch in.(type) {
	case json.Unmarshaler, encoding.TextUnmarshaler:
		return
	}
	_ = json.Unmarshal([]byte("{}"), in) // refused by types that are no objects
}

// unused keeps the compiler from leaving out what is allocated for nothing.
var unused []byte

// makeRoom has the heap grow by a step, which is enough for a short activation: one that grows it writes more pages.
// What is allocated for it is never written, so it takes no memory where instances share the image. No garbage is
// collected: activations wrote more pages after that. A heap that has not grown after a whole step had room.
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
