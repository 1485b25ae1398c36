package workflow

import (
	"encoding"
	"encoding/json"
)

// Every instance starts from memory as it is after the init functions of the program, so what is done there is done
// once per module, and no activation pays for it. Register and RegisterStep use that: package json, to which a type that it
// has not met costs more than a replay of a hundred steps, learns theirs.

// warm makes package json learn the types of a registered function. It calls no method of these types, which may be
// the program's: an empty list of them is enough to learn how they are encoded, and the fields of structs as well.
func warm[In, Out any]() {
	if codec != (jsonCodec{}) {
		return
	}
	_, _ = json.Marshal([]In(nil))  // of an empty list, nothing can fail
	_, _ = json.Marshal([]Out(nil)) // the same
	var in any = new(In)
	switch in.(type) {
	case json.Unmarshaler, encoding.TextUnmarshaler:
		return
	}
	_ = json.Unmarshal([]byte("{}"), in) // refused by types that are no objects
}
