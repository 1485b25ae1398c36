// Package segment puts data into modules: a program that is a module's data becomes a module of its own.
package segment

import (
	"encoding/binary"
	"errors"
	"slices"
)

// Sections of a module (WebAssembly Core Specification 2.0, 5.5), and the instructions of a segment's offset.
const (
	headBytes = 8
	custom    = 0
	data      = 11
	dataCount = 12

	I32Const = 0x41
	End      = 0x0b
)

// ErrModule means that the bytes are not a well-formed module with a data section.
var ErrModule = errors.New("it is not a well-formed module with data")

// Custom says what becomes of custom sections.
type Custom bool

// Custom sections stay, or are left out.
const (
	Keep Custom = true
	Drop Custom = false
)

// Append returns a module with one more segment of data. place gets the data section, which it must not change, and returns
// the address of the segment in memory.
func Append(wasm []byte, c Custom, segment []byte, place func(data []byte) (at uint32, err error)) ([]byte, error) {
	if len(wasm) < headBytes || string(wasm[:4]) != "\x00asm" {
		return nil, ErrModule
	}
	out := slices.Clone(wasm[:headBytes])
	done := false
	for rest := wasm[headBytes:]; len(rest) > 0; {
		id := rest[0]
		size, n := binary.Uvarint(rest[1:])
		if n <= 0 || size > uint64(len(rest)-1-n) {
			return nil, ErrModule
		}
		body := rest[1+n : 1+n+int(size)]
		rest = rest[1+n+int(size):]
		if id == custom && c == Drop {
			continue
		}
		if id == data || id == dataCount { // each begins with the number of segments
			count, n := binary.Uvarint(body)
			if n <= 0 {
				return nil, ErrModule
			}
			at := uint32(0)
			if id == data {
				var err error
				at, err = place(body)
				if err != nil {
					return nil, err
				}
			}
			body = append(binary.AppendUvarint(nil, count+1), body[n:]...)
			if id == data {
				body = Active(body, at, segment)
				done = true
			}
		}
		out = append(out, id)
		out = binary.AppendUvarint(out, uint64(len(body)))
		out = append(out, body...)
	}
	if !done {
		return nil, ErrModule
	}
	return out, nil
}

// Active appends an active segment of memory 0, for an address.
func Active(b []byte, at uint32, segment []byte) []byte {
	b = append(b, 0, I32Const)
	b = appendSigned(b, int64(int32(at)))
	b = append(b, End)
	b = binary.AppendUvarint(b, uint64(len(segment)))
	return append(b, segment...)
}

// appendSigned appends a signed LEB128 number.
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
