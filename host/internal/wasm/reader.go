// Package wasm reads and writes what WebAssembly's binary format is made of: numbers, names, and counts of what follows. It also
// has the instructions that compute NaNs. Numbers in comments refer to the WebAssembly Core Specification 2.0.
package wasm

import "fmt"

// Reader reads a module from front to back. The first error stays: what is read after it is zero, and loops end. What its
// methods are told is the name of what they read, for the error.
type Reader struct {
	Module []byte
	At     int
	End    int // of the section or body that is being read
	Err    error
}

// Failf keeps the first error and ends every loop over what is left.
func (r *Reader) Failf(format string, args ...any) {
	if r.Err == nil {
		r.Err = fmt.Errorf("%s at byte %d", fmt.Sprintf(format, args...), r.At)
	}
	r.At = r.End
}

// More reports whether something is left.
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

// SkipLEB skips a signed number of at most so many bits.
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

// Bytes reads a length and so many bytes, which alias the module.
func (r *Reader) Bytes(what string) []byte {
	n := r.U32(what)
	from := r.At
	r.Skip(n, what)
	if r.Err != nil {
		return nil
	}
	return r.Module[from:r.At:r.At]
}

// Count reads how many things follow. Each has a byte at least, so that no loop is longer than the module.
func (r *Reader) Count(what string) int {
	n := r.U32("the number of " + what)
	if int64(n) > int64(r.End-r.At) {
		r.Failf("%d %s are declared, %d bytes are left", n, what, r.End-r.At)
		return 0
	}
	return int(n)
}

// Index reads an index into something of which there are so many.
func (r *Reader) Index(what string, of int) uint32 {
	i := r.U32(what)
	if r.Err == nil && int64(i) >= int64(of) {
		r.Failf("%s %d of %d is named", what, i, of)
		return 0
	}
	return i
}

// AppendU32 writes an unsigned LEB128 number (5.2.2).
func AppendU32(b []byte, v uint32) []byte {
	for ; v >= 0x80; v >>= 7 {
		b = append(b, byte(v)|0x80)
	}
	return append(b, byte(v))
}

// AppendS64 writes a signed LEB128 number (5.2.2).
func AppendS64(b []byte, v int64) []byte {
	for v < -64 || v > 63 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v)&0x7f)
}

// AppendText writes a name: its length, and its bytes (5.2.4).
func AppendText(b []byte, s string) []byte { return append(AppendU32(b, uint32(len(s))), s...) }
