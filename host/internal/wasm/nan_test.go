package wasm

import (
	"bytes"
	"testing"
)

// The listed instructions are exactly those whose result is nans{...} in section 4.3.3.
func TestOf(t *testing.T) {
	count := map[Kind]int{}
	for op := range 256 {
		count[KindOf(byte(op))]++
		count[OfVector(uint32(op))]++
	}
	if count[F32] != 12 || count[F64] != 12 || count[F32x4] != 12 || count[F64x2] != 12 {
		t.Errorf("%v", count)
	}
	for _, op := range []byte{0x8b, 0x8c, 0x98, 0x99, 0x9a, 0xa6, 0xb2, 0xbe, 0xbf, 0x20} { // abs, neg, copysign, conversions
		if k := KindOf(op); k != None {
			t.Errorf("0x%02x is of kind %d", op, k)
		}
	}
	for _, op := range []uint32{224, 225, 234, 235, 236, 237, 246, 247, 1000} { // abs, neg, pmin, pmax
		if k := OfVector(op); k != None {
			t.Errorf("0xfd %d is of kind %d", op, k)
		}
	}
}

func TestVanishes(t *testing.T) {
	for _, c := range []struct {
		kind Kind
		next []byte
		want bool
	}{
		{F64, []byte{0xa0}, true},                                       // add
		{F64, []byte{0xa6}, false},                                      // copysign
		{F64, []byte{0x99}, false},                                      // abs
		{F64, []byte{0xbd}, false},                                      // i64.reinterpret_f64
		{F64, []byte{0x9b}, true},                                       // ceil
		{F64, []byte{0x61}, true},                                       // eq
		{F64, []byte{0xaa}, true},                                       // i32.trunc_f64_s
		{F64, []byte{0xb6}, true},                                       // demote
		{F64, []byte{0xfc, 2}, true},                                    // i32.trunc_sat_f64_s
		{F64, []byte{0xfc, 8}, false},                                   // memory.init
		{F64, []byte{0x1a}, true},                                       // drop
		{F64, []byte{0x39, 3, 0}, false},                                // store
		{F64, []byte{0x20, 0x80, 0x01, 0xa2}, true},                     // local.get 128, mul
		{F64, []byte{0x20, 0x01, 0xa6}, false},                          // local.get 1, copysign
		{F64, []byte{0x20, 0x01, 0x9b}, false},                          // ceil of the local
		{F64, []byte{0x20, 0x01}, false},                                // the end
		{F64, []byte{0x44, 0, 0, 0, 0, 0, 0, 0xa2, 0xa2, 0xa3}, true},   // f64.const, div
		{F64, []byte{0x44, 0, 0, 0, 0, 0, 0, 0xa2, 0xa2, 0x99}, false},  // f64.const, abs
		{F64, []byte{0x21, 0}, false},                                   // local.set
		{F64, []byte{0x10, 0xa0, 0xa0, 0}, false},                       // call
		{F64, nil, false},                                               // the end
		{F32, []byte{0x92}, true},                                       // add
		{F32, []byte{0x43, 0, 0, 0x98, 0x98, 0x97}, true},               // f32.const, max
		{F32, []byte{0x20, 0, 0x98}, false},                             // copysign
		{F32, []byte{0xbb}, true},                                       // promote
		{F32, []byte{0x91}, true},                                       // sqrt
		{F32, []byte{0x8c}, false},                                      // neg
		{F32, []byte{0x5f}, true},                                       // le
		{F32x4, []byte{0x1a}, false}, {F64x2, []byte{0xfd, 240}, false}, // vectors are not looked into
	} {
		if got := c.kind.Vanishes(c.next); got != c.want {
			t.Errorf("kind %d before %x: %v", c.kind, c.next, got)
		}
	}
}

func TestAppend(t *testing.T) {
	for k, want := range map[Kind]string{
		F32:   "\x22\x07\x43\x00\x00\xc0\x7f\x20\x07\x20\x07\x5b\x1b",
		F64:   "\x22\x07\x44\x00\x00\x00\x00\x00\x00\xf8\x7f\x20\x07\x20\x07\x61\x1b",
		F32x4: "\x22\x07\xfd\x0c\x00\x00\xc0\x7f\x00\x00\xc0\x7f\x00\x00\xc0\x7f\x00\x00\xc0\x7f\x20\x07\x20\x07\xfd\x41\xfd\x52",
		F64x2: "\x22\x07\xfd\x0c\x00\x00\x00\x00\x00\x00\xf8\x7f\x00\x00\x00\x00\x00\x00\xf8\x7f\x20\x07\x20\x07\xfd\x47\xfd\x52",
	} {
		if got := k.Append(nil, []byte{7}); string(got) != want {
			t.Errorf("kind %d: %x, want %x", k, got, want)
		}
	}
	var s Kinds
	s.Add(F64x2)
	s.Add(F32)
	if got := s.Append(nil); s.Len() != 2 || !bytes.Equal(got, []byte{1, 0x7d, 1, 0x7b}) {
		t.Errorf("%v: %x", s, got)
	}
	for k, local := range map[Kind]byte{F32: 5, F64x2: 6} {
		if got := s.Canonical(nil, k, 5); !bytes.Equal(got, k.Append(nil, []byte{local})) {
			t.Errorf("kind %d: %x", k, got)
		}
	}
}
