package rewrite

import "fmt"

// reader reads a module from front to back. The first error stays: what is read after it is zero, and loops end.
type reader struct {
	b   []byte
	at  int
	end int // of the section or body that is being read
	err error
}

// failf keeps the first error and ends every loop over what is left.
func (r *reader) failf(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("rewrite: %s at byte %d", fmt.Sprintf(format, args...), r.at)
	}
	r.at = r.end
}

func (r *reader) more() bool { return r.err == nil && r.at < r.end }

func (r *reader) byte(what string) byte {
	if r.at >= r.end {
		r.failf("%s is cut off", what)
		return 0
	}
	c := r.b[r.at]
	r.at++
	return c
}

// u32 reads an unsigned LEB128 number of at most 32 bits (5.2.2).
func (r *reader) u32(what string) uint32 {
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		c := r.byte(what)
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			if v > 0xffffffff {
				break
			}
			return uint32(v)
		}
	}
	r.failf("%s has more than 32 bits", what)
	return 0
}

// s32 reads a signed number of at most 32 bits.
func (r *reader) s32(what string) int32 {
	var v int64
	for shift := 0; shift < 35; shift += 7 {
		c := r.byte(what)
		v |= int64(c&0x7f) << shift
		if c < 0x80 {
			v = v << (57 - shift) >> (57 - shift)
			if v != int64(int32(v)) {
				break
			}
			return int32(v)
		}
	}
	r.failf("%s has more than 32 bits", what)
	return 0
}

// skipLEB skips a signed number of at most so many bits.
func (r *reader) skipLEB(what string, bits int) {
	for range (bits + 6) / 7 {
		if r.byte(what) < 0x80 {
			return
		}
	}
	r.failf("%s has more than %d bits", what, bits)
}

func (r *reader) skip(n uint32, what string) {
	if int64(n) > int64(r.end-r.at) {
		r.failf("%s is cut off", what)
		return
	}
	r.at += int(n)
}

// bytes reads a length and so many bytes, which alias the module.
func (r *reader) bytes(what string) []byte {
	n := r.u32(what)
	from := r.at
	r.skip(n, what)
	if r.err != nil {
		return nil
	}
	return r.b[from:r.at:r.at]
}

// count reads how many things follow. Each has a byte at least, so that no loop is longer than the module.
func (r *reader) count(what string) int {
	n := r.u32("the number of " + what)
	if int64(n) > int64(r.end-r.at) {
		r.failf("%d %s are declared, %d bytes are left", n, what, r.end-r.at)
		return 0
	}
	return int(n)
}

// index reads an index into something of which there are so many.
func (r *reader) index(what string, of int) uint32 {
	i := r.u32(what)
	if r.err == nil && int64(i) >= int64(of) {
		r.failf("%s %d of %d is named", what, i, of)
		return 0
	}
	return i
}

func appendU32(b []byte, v uint32) []byte {
	for ; v >= 0x80; v >>= 7 {
		b = append(b, byte(v)|0x80)
	}
	return append(b, byte(v))
}

// appendS64 writes a signed LEB128 number (5.2.2).
func appendS64(b []byte, v int64) []byte {
	for v < -64 || v > 63 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v)&0x7f)
}

func appendText(b []byte, s string) []byte { return append(appendU32(b, uint32(len(s))), s...) }
