// Package module makes modules of definitions: the interpreter, with a definition in its data. What comes out is an
// ordinary module: its digest is that of both, so that a run has the interpreter with which it began for as long as it
// lives.
package module

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/wfhost/wfhost/definition"
)

// built has the interpreter if make has put it there; see the file README beside it.
//
//go:embed built
var built embed.FS

// maxInterpreterBytes bounds an interpreter: it is a module.
const maxInterpreterBytes = 32 << 20

// Interpreter returns the interpreter that this program has been built with; false if it has none.
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

// Marker is what an interpreter has in its data where a definition goes, SlotBytes long with its own bytes. The
// definition follows it: its length in four bytes, the least first, and then its JSON.
var Marker = [32]byte{'w', 'f', 'h', 'o', 's', 't', ' ', 'd', 'e', 'f', 'i', 'n', 'i', 't', 'i', 'o', 'n', ' ',
	's', 'l', 'o', 't', ' ', 1, 0xa7, 0x3c, 0x91, 0x5e, 0xd2, 0x48, 0xb6, 0x0f}

// SlotBytes is the room of the marker and a definition.
const SlotBytes = len(Marker) + 4 + definition.MaxBytes

// ErrNoInterpreter is for modules that have no place for a definition, or one already.
var ErrNoInterpreter = errors.New("the module is no interpreter of definitions")

// Sections of a module (WebAssembly Core Specification 2.0, 5.5).
const (
	headBytes = 8
	data      = 11
	dataCount = 12
)

// Make returns a module that performs a definition, given as JSON. It adds a segment of data to the interpreter, behind
// the marker.
func Make(interpreter, text []byte) ([]byte, error) {
	if len(text) > definition.MaxBytes {
		return nil, fmt.Errorf("the definition has %d bytes, the limit is %d", len(text), definition.MaxBytes)
	}
	if len(interpreter) < headBytes || string(interpreter[:4]) != "\x00asm" {
		return nil, ErrNoInterpreter
	}
	out := slices.Clone(interpreter[:headBytes])
	done := false
	for rest := interpreter[headBytes:]; len(rest) > 0; {
		id := rest[0]
		size, n := binary.Uvarint(rest[1:])
		if n <= 0 || size > uint64(len(rest)-1-n) {
			return nil, ErrNoInterpreter
		}
		body := rest[1+n : 1+n+int(size)]
		rest = rest[1+n+int(size):]
		switch id {
		case dataCount:
			return nil, fmt.Errorf("%w: it counts its segments", ErrNoInterpreter)
		case data:
			added, err := add(body, text)
			if err != nil {
				return nil, err
			}
			body, done = added, true
		}
		out = append(out, id)
		out = binary.AppendUvarint(out, uint64(len(body)))
		out = append(out, body...)
	}
	if !done {
		return nil, ErrNoInterpreter
	}
	return out, nil
}

// add returns a data section with a segment more.
func add(body, text []byte) ([]byte, error) {
	at, err := find(body)
	if err != nil {
		return nil, err
	}
	count, n := binary.Uvarint(body)
	out := binary.AppendUvarint(nil, count+1)
	out = append(out, body[n:]...)
	segment := binary.LittleEndian.AppendUint32(nil, uint32(len(text)))
	segment = append(segment, text...)
	out = append(out, 0, i32Const)
	out = appendSigned(out, int64(at)+int64(len(Marker)))
	out = append(out, end)
	out = binary.AppendUvarint(out, uint64(len(segment)))
	return append(out, segment...), nil
}

// Instructions of the offset of a segment.
const (
	i32Const = 0x41
	end      = 0x0b
)

// find returns the address of the marker in memory.
func find(body []byte) (at int32, err error) {
	count, n := binary.Uvarint(body)
	if n <= 0 {
		return 0, ErrNoInterpreter
	}
	body = body[n:]
	found := 0
	for range count {
		if len(body) < 2 || body[0] != 0 || body[1] != i32Const {
			return 0, fmt.Errorf("%w: its segments have other forms than Go's", ErrNoInterpreter)
		}
		offset, n := signed(body[2:])
		if n == 0 || len(body) < 3+n || body[2+n] != end {
			return 0, ErrNoInterpreter
		}
		body = body[3+n:]
		size, m := binary.Uvarint(body)
		if m <= 0 || size > uint64(len(body)-m) {
			return 0, ErrNoInterpreter
		}
		segment := body[m : m+int(size)]
		body = body[m+int(size):]
		if i := bytes.Index(segment, Marker[:]); i >= 0 {
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

// appendSigned writes a signed LEB128 number.
func appendSigned(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}
