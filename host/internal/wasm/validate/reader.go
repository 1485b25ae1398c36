package validate

import "unicode/utf8"

// reader reads a module from front to back. Its allocations never depend on the sizes that the bytes claim.
type reader struct {
	b   []byte
	at  int
	end int // of the current section or body
}

func (r *reader) left() int { return r.end - r.at }

func (r *reader) truncated(what string) error {
	return r.bad("the module is truncated", "%s is cut off", what)
}

func (r *reader) byte(what string) (byte, error) {
	if r.at >= r.end {
		return 0, r.truncated(what)
	}
	c := r.b[r.at]
	r.at++
	return c, nil
}

// u32 reads an unsigned LEB128 number of at most 32 bits (WebAssembly core 2.0, 5.2.2).
func (r *reader) u32(what string) (uint32, error) {
	var v uint64
	for shift := 0; ; shift += 7 {
		c, err := r.byte(what)
		if err != nil {
			return 0, err
		}
		v |= uint64(c&0x7f) << shift
		if shift == 28 && c > 0x0f {
			return 0, r.bad("a number is too large", "%s has more than 32 bits", what)
		}
		if c < 0x80 {
			return uint32(v), nil
		}
	}
}

// skipLEB skips a signed number of at most the given bits.
func (r *reader) skipLEB(what string, bits int) error {
	for range (bits + 6) / 7 {
		c, err := r.byte(what)
		if err != nil || c < 0x80 {
			return err
		}
	}
	return r.bad("a number is too large", "%s has more than %d bits", what, bits)
}

func (r *reader) skip(n int, what string) error {
	if n > r.left() {
		return r.truncated(what)
	}
	r.at += n
	return nil
}

// count reads a number of elements, each at least least bytes long.
func (r *reader) count(what string, limit, least int) (int, error) {
	n, err := r.u32("the number of " + what)
	if err != nil {
		return 0, err
	}
	if int64(n) > int64(limit) {
		return 0, r.over("too many "+what, int64(limit), int64(n))
	}
	if int64(n)*int64(least) > int64(r.left()) {
		return 0, r.bad("the module is truncated", "%d %s are declared, %d bytes are left", n, what, r.left())
	}
	return int(n), nil
}

func (r *reader) name(what string) (string, error) {
	n, err := r.u32("the length of " + what)
	if err != nil {
		return "", err
	}
	if int64(n) > int64(r.left()) {
		return "", r.bad("the module is truncated", "%s claims %d bytes, %d are left", what, n, r.left())
	}
	if n > maxNameBytes {
		return "", r.over(what+" is too long", maxNameBytes, int64(n))
	}
	s := r.b[r.at : r.at+int(n)]
	r.at += int(n)
	if !utf8.Valid(s) {
		return "", r.bad(notUTF8, "%s", what)
	}
	return string(s), nil
}
