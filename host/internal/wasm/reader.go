// Package wasm reads and writes the elements of WebAssembly's binary format: numbers, names, and counts. It also
// knows the instructions that compute NaNs. Numbers in comments refer to the WebAssembly Core Specification 2.0.
package wasm

import "fmt"

// Reader reads a module from front to back. It keeps the first error: later reads return zero, and loops end. The
// argument what of its methods names the element, for the error.
type Reader struct {
	Module []byte
	At     int
	End    int // of the current section or body
	Err    error
}

// Failf records an error unless there is one already, and moves to the end, so that loops over the rest end.
func (r *Reader) Failf(format string, args ...any) {
	if r.Err == nil {
		r.Err = fmt.Errorf("%s at byte %d", fmt.Sprintf(format, args...), r.At)
	}
	r.At = r.End
}

// More reports whether bytes are left and no error occurred.
func (r *Reader) More() bool { return r.Err == nil && r.At < r.End }

// Byte reads a byte.
func (r *Reader) Byte(what string) byte {
	if r.At >= r.End {
		r.Failf("%s is cut off", what)
		return 0
	}
	c := r.Module[r.At]
	r.At++
	return c
}

// U32 reads an unsigned LEB128 number of at most 32 bits (5.2.2).
func (r *Reader) U32(what string) uint32 {
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		c := r.Byte(what)
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			if v > 0xffffffff {
				break
			}
			return uint32(v)
		}
	}
	r.Failf("%s has more than 32 bits", what)
	return 0
}

// S32 reads a signed number of at most 32 bits.
func (r *Reader) S32(what string) int32 {
	var v int64
	for shift := 0; shift < 35; shift += 7 {
		c := r.Byte(what)
		v |= int64(c&0x7f) << shift
		if c < 0x80 {
			v = v << (57 - shift) >> (57 - shift)
			if v != int64(int32(v)) {
				break
			}
			return int32(v)
		}
	}
	r.Failf("%s has more than 32 bits", what)
	return 0
}

// SkipLEB skips a signed number of at most the given bits.
func (r *Reader) SkipLEB(what string, bits int) {
	for range (bits + 6) / 7 {
		if r.Byte(what) < 0x80 {
			return
		}
	}
	r.Failf("%s has more than %d bits", what, bits)
}

// Skip skips bytes.
func (r *Reader) Skip(n uint32, what string) {
	if int64(n) > int64(r.End-r.At) {
		r.Failf("%s is cut off", what)
		return
	}
	r.At += int(n)
}

// Bytes reads a length and that many bytes, which alias the module.
func (r *Reader) Bytes(what string) []byte {
	n := r.U32(what)
	from := r.At
	r.Skip(n, what)
	if r.Err != nil {
		return nil
	}
	return r.Module[from:r.At:r.At]
}

// Count reads a number of elements. It must not exceed the bytes left, so that no loop is longer than the module.
func (r *Reader) Count(what string) int {
	n := r.U32("the number of " + what)
	if int64(n) > int64(r.End-r.At) {
		r.Failf("%d %s are declared, %d bytes are left", n, what, r.End-r.At)
		return 0
	}
	return int(n)
}

// Index reads an index and checks that it is less than of.
func (r *Reader) Index(what string, of int) uint32 {
	i := r.U32(what)
	if r.Err == nil && int64(i) >= int64(of) {
		r.Failf("%s %d of %d is named", what, i, of)
		return 0
	}
	return i
}

// AppendU32 appends an unsigned LEB128 number (5.2.2).
func AppendU32(b []byte, v uint32) []byte {
	for ; v >= 0x80; v >>= 7 {
		b = append(b, byte(v)|0x80)
	}
	return append(b, byte(v))
}

// AppendS64 appends a signed LEB128 number (5.2.2).
func AppendS64(b []byte, v int64) []byte {
	for v < -64 || v > 63 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v)&0x7f)
}

// AppendText appends a name: its length and its bytes (5.2.4).
func AppendText(b []byte, s string) []byte { return append(AppendU32(b, uint32(len(s))), s...) }
