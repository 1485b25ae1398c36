package wasm

import (
	"encoding/binary"
	"math"
	"testing"
)

func read(b ...byte) *Reader { return &Reader{Module: b, End: len(b)} }

// TestNumbers reads numbers that it has written, and refuses numbers that are too long or cut off.
func TestNumbers(t *testing.T) {
	for _, v := range []uint32{0, 1, 127, 128, 1 << 20, math.MaxUint32} {
		b := AppendU32(nil, v)
		if r := read(b...); r.U32("it") != v || r.More() || r.Err != nil {
			t.Error(v, r.Err)
		}
		if r := read(b[:len(b)-1]...); r.U32("it") > v || r.Err == nil {
			t.Error(v, "cut off")
		}
	}
	for _, v := range []int64{0, 1, -1, 63, 64, -64, -65, math.MaxInt32, math.MinInt32} {
		if r := read(AppendS64(nil, v)...); r.S32("it") != int32(v) || r.More() || r.Err != nil {
			t.Error(v, r.Err)
		}
	}
	for _, v := range []int64{math.MaxInt32 + 1, math.MinInt32 - 1, math.MaxInt64, math.MinInt64} {
		if r := read(AppendS64(nil, v)...); r.S32("it") != 0 || r.Err == nil {
			t.Error(v, "has 32 bits")
		}
		if r := read(AppendS64(nil, v)...); r.Err != nil || func() bool { r.SkipLEB("it", 64); return r.More() || r.Err != nil }() {
			t.Error(v, r.Err)
		}
	}
	for _, b := range [][]byte{{0xff, 0xff, 0xff, 0xff, 0x1f}, binary.AppendUvarint(nil, 1<<40)} {
		if r := read(b...); r.U32("it") != 0 || r.Err == nil {
			t.Errorf("%x has 32 bits", b)
		}
	}
}

// TestErrors keeps the first error, and reads nothing after it.
func TestErrors(t *testing.T) {
	r := read(append(AppendText(nil, "name"), 3, 1, 2)...)
	if string(r.Bytes("a name")) != "name" || r.Index("thing", 4) != 3 || r.Count("things") != 1 || r.Err != nil {
		t.Fatal(r.Err)
	}
	if n := r.Count("things"); n != 0 || r.Err == nil || r.More() {
		t.Error("two things have no bytes:", n)
	}
	first := r.Err.Error()
	if first != "2 things are declared, 0 bytes are left at byte 8" {
		t.Error(first)
	}
	if r.Byte("more") != 0 || r.Bytes("more") != nil || r.Index("more", 1) != 0 || r.Err.Error() != first {
		t.Error(r.Err)
	}
	if r := read(4); r.Index("thing", 4) != 0 || r.Err == nil {
		t.Error("thing 4 of 4")
	}
	if r := read(9, 1); r.Bytes("text") != nil || r.Err == nil {
		t.Error("9 bytes of 1")
	}
}
