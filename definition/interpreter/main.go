// Command interpreter is the guest that performs definitions. It is an ordinary module that uses the SDK. `wfhost define` puts
// a definition into its data (package module), and the resulting module has a workflow with the definition's name.
package main

import (
	"encoding/binary"
	"fmt"

	"github.com/wfhost/wfhost/definition"
	"github.com/wfhost/wfhost/definition/interpret"
)

// slot is the room for a definition. It begins with module.Marker. The marker is repeated here because the guest must not
// import the package that embeds the interpreter; a test compares the two. The rest is zero, so it is not in the file.
var slot = [32 + 4 + definition.MaxBytes]byte{
	'w', 'f', 'h', 'o', 's', 't', ' ', 'd', 'e', 'f', 'i', 'n', 'i', 't', 'i', 'o', 'n', ' ',
	's', 'l', 'o', 't', ' ', 1, 0xa7, 0x3c, 0x91, 0x5e, 0xd2, 0x48, 0xb6, 0x0f,
}

func main() {}

// init registers the workflow. The parsed definition is part of the memory image of each instance.
func init() {
	const head = 32 + 4
	n := binary.LittleEndian.Uint32(slot[32:head])
	if n == 0 || n > definition.MaxBytes {
		panic("this is the interpreter of definitions, without a definition: wfhost define FILE makes a module of both")
	}
	d, err := definition.ParseJSON(slot[head : head+n])
	if err != nil {
		panic(fmt.Sprintf("the definition in this module cannot be performed: %v", err))
	}
	interpret.Register(d, slot[head:head+n])
}
