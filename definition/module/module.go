// Package module makes modules from definitions: the interpreter with a definition in its data. The result is an ordinary
// module. Its digest covers both, so a run keeps its interpreter until it ends.
package module

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/wfhost/wfhost/definition"
	"github.com/wfhost/wfhost/internal/segment"
)

// built has the interpreter if make has built it; see the file README in the folder.
//
//go:embed built
var built embed.FS

// maxInterpreterBytes limits the size of an interpreter, which is a module.
const maxInterpreterBytes = 32 << 20

// Interpreter returns the interpreter in this program. It returns false if the program was built without one.
func Interpreter() ([]byte, bool) {
	packed, err := built.ReadFile("built/interpreter.wasm.gz")
	if err != nil {
		return nil, false
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, false
	}
	wasm, err := io.ReadAll(io.LimitReader(z, maxInterpreterBytes))
	return wasm, err == nil
}

// Marker marks the room for a definition in the data of an interpreter. The room has SlotBytes, including the marker. The
// marker is followed by the length of the definition, in four bytes, little endian, and by its JSON.
var Marker = [32]byte{'w', 'f', 'h', 'o', 's', 't', ' ', 'd', 'e', 'f', 'i', 'n', 'i', 't', 'i', 'o', 'n', ' ',
	's', 'l', 'o', 't', ' ', 1, 0xa7, 0x3c, 0x91, 0x5e, 0xd2, 0x48, 0xb6, 0x0f}

// SlotBytes is the room for the marker and a definition.
const SlotBytes = len(Marker) + 4 + definition.MaxBytes

// ErrNoInterpreter is the error for a module that has no room for a definition, or already has a definition.
var ErrNoInterpreter = errors.New("the module is no interpreter of definitions")

// Make returns a module that performs a definition. text is the JSON of the definition. Make adds a data segment to the
// interpreter, for the memory after the marker.
func Make(interpreter, text []byte) ([]byte, error) {
	if len(text) > definition.MaxBytes {
		return nil, fmt.Errorf("the definition has %d bytes, the limit is %d", len(text), definition.MaxBytes)
	}
	packed := binary.LittleEndian.AppendUint32(nil, uint32(len(text)))
	out, err := segment.Append(interpreter, segment.Keep, append(packed, text...), func(data []byte) (uint32, error) {
		at, err := find(data)
		return uint32(at) + uint32(len(Marker)), err
	})
	if errors.Is(err, segment.ErrModule) {
		return nil, ErrNoInterpreter
	}
	return out, err
}

// find returns the address of the marker in memory. body is the data section.
func find(body []byte) (at int32, err error) {
	count, n := binary.Uvarint(body)
	if n <= 0 {
		return 0, ErrNoInterpreter
	}
	body = body[n:]
	found := 0
	for range count {
		if len(body) < 2 || body[0] != 0 || body[1] != segment.I32Const {
			return 0, fmt.Errorf("%w: its segments have other forms than Go's", ErrNoInterpreter)
		}
		offset, n := signed(body[2:])
		if n == 0 || len(body) < 3+n || body[2+n] != segment.End {
			return 0, ErrNoInterpreter
		}
		body = body[3+n:]
		size, m := binary.Uvarint(body)
		if m <= 0 || size > uint64(len(body)-m) {
			return 0, ErrNoInterpreter
		}
		held := body[m : m+int(size)]
		body = body[m+int(size):]
		if i := bytes.Index(held, Marker[:]); i >= 0 {
			found++
			at = int32(offset) + int32(i)
		} else if found > 0 && int32(offset) == at+int32(len(Marker)) {
			return 0, fmt.Errorf("%w: it has a definition already", ErrNoInterpreter)
		}
	}
	if found != 1 {
		return 0, fmt.Errorf("%w: it has %d places for a definition", ErrNoInterpreter, found)
	}
	return at, nil
}

// signed reads a signed LEB128 number of at most 5 bytes, and returns its length, 0 if there is none.
func signed(b []byte) (v int64, n int) {
	const most = 5
	for shift := 0; n < len(b) && n < most; shift += 7 {
		c := b[n]
		n++
		v |= int64(c&0x7f) << shift
		if c&0x80 == 0 {
			if c&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			return v, n
		}
	}
	return 0, 0
}
