package engine

import (
	"encoding/binary"
	"errors"
)

// Sections of a module (WebAssembly Core Specification 2.0, 5.5), and the instructions of a segment's offset.
const (
	headBytes = 8
	custom    = 0
	data      = 11
	dataCount = 12
	i32Const  = 0x41
	end       = 0x0b
)

var errModule = errors.New("the JavaScript engine is not a well-formed module")

// attach returns a module with one more segment of data, at an address. Custom sections are left out.
func attach(wasm []byte, at uint32, segment []byte) ([]byte, error) {
	out := append([]byte(nil), wasm[:headBytes]...)
	for rest := wasm[headBytes:]; len(rest) > 0; {
		id := rest[0]
		size, n := binary.Uvarint(rest[1:])
		if n <= 0 || size > uint64(len(rest)-1-n) {
			return nil, errModule
		}
		body := rest[1+n : 1+n+int(size)]
		rest = rest[1+n+int(size):]
		if id == custom {
			continue
		}
		if id == data || id == dataCount { // each begins with the number of segments
			count, n := binary.Uvarint(body)
			if n <= 0 {
				return nil, errModule
			}
			body = append(binary.AppendUvarint(nil, count+1), body[n:]...)
		}
		if id == data {
			body = append(body, 0, i32Const)
			body = appendSigned(body, int64(int32(at)))
			body = append(body, end)
			body = binary.AppendUvarint(body, uint64(len(segment)))
			body = append(body, segment...)
		}
		out = append(out, id)
		out = binary.AppendUvarint(out, uint64(len(body)))
		out = append(out, body...)
	}
	return out, nil
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
