package conform

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// The canonical NaNs.
const (
	canonical32 = 0x7fc00000
	canonical64 = 0x7ff8000000000000
)

// operands64 and operands32 are the operands for each instruction: NaNs of all kinds, quiet and signalling, of both
// signs, with and without a payload, and numbers that produce NaNs.
var (
	operands64 = []uint64{0, 1 << 63, math.Float64bits(1), math.Float64bits(-2.5), math.Float64bits(math.MaxFloat64), 1,
		math.Float64bits(math.Inf(1)), math.Float64bits(math.Inf(-1)), canonical64, canonical64 | 1<<63, 0x7ff8000000000123,
		0xfffc000000000456, 0x7ff0000000000001, 0xfff4000000000789}
	operands32 = []uint32{0, 1 << 31, math.Float32bits(1), math.Float32bits(-2.5), math.Float32bits(math.MaxFloat32), 1,
		0x7f800000, 0xff800000, canonical32, canonical32 | 1<<31, 0x7fc00123, 0xffe00456, 0x7f800001, 0xffa00789}
)

// instruction is an instruction that computes numbers.
type instruction struct {
	name    string
	op      []byte
	binary  bool
	from    int  // bits of an operand
	to      int  // bits of the result, or of a lane of it
	vector  bool // operands and result are vectors of lanes
	chooses bool // engines may choose the bits of its NaNs
}

// instructions returns all instructions from numbers to numbers, except memory instructions.
func instructions() (all []instruction) {
	scalar := func(bits int, first byte, names ...string) {
		for i, name := range names {
			bin := first >= 0x92 && first <= 0x98 || first >= 0xa0 && first <= 0xa6
			all = append(all, instruction{fmt.Sprintf("f%d.%s", bits, name), []byte{first + byte(i)}, bin, bits, bits, false,
				name != "abs" && name != "neg" && name != "copysign"})
		}
	}
	unary := []string{"abs", "neg", "ceil", "floor", "trunc", "nearest", "sqrt"}
	binaries := []string{"add", "sub", "mul", "div", "min", "max", "copysign"}
	scalar(32, 0x8b, unary...)
	scalar(32, 0x92, binaries...)
	scalar(64, 0x99, unary...)
	scalar(64, 0xa0, binaries...)
	all = append(all, instruction{"f32.demote_f64", []byte{0xb6}, false, 64, 32, false, true},
		instruction{"f64.promote_f32", []byte{0xbb}, false, 32, 64, false, true})
	for op, name := range map[uint64]string{103: "ceil", 104: "floor", 105: "trunc", 106: "nearest", 224: "abs", 225: "neg",
		227: "sqrt", 228: "add", 229: "sub", 230: "mul", 231: "div", 232: "min", 233: "max", 234: "pmin", 235: "pmax"} {
		vector := func(shape string, bits int, op uint64) {
			all = append(all, instruction{shape + "." + name, binary.AppendUvarint([]byte{0xfd}, op),
				op >= 228 && op < 236 || op >= 240, bits, bits, true, name != "abs" && name != "neg" && name != "pmin" && name != "pmax"})
		}
		vector("f32x4", 32, op)
		if of := map[uint64]uint64{103: 116, 104: 117, 105: 122, 106: 148}[op]; of != 0 {
			vector("f64x2", 64, of)
		} else {
			vector("f64x2", 64, op+12)
		}
	}
	all = append(all, instruction{"f32x4.demote_f64x2_zero", []byte{0xfd, 94}, false, 64, 32, true, true},
		instruction{"f64x2.promote_low_f32x4", []byte{0xfd, 95}, false, 32, 64, true, true})
	slices.SortFunc(all, func(a, b instruction) int { return strings.Compare(a.name, b.name) })
	return all
}

// Addresses of the operands and of the results.
const (
	operandsAt = 1 << 16
	resultsAt  = 2 << 16
	slotBytes  = 16 // of each operand and result: a vector
)

// wide returns the operands of an instruction, each a vector of the same lanes.
func (in *instruction) wide() (list [][slotBytes]byte) {
	for i := range operands64 {
		var v [slotBytes]byte
		for lane := 0; lane < slotBytes; lane += in.from / 8 {
			if in.from == 64 {
				binary.LittleEndian.PutUint64(v[lane:], operands64[i])
			} else {
				binary.LittleEndian.PutUint32(v[lane:], operands32[i])
			}
		}
		list = append(list, v)
	}
	return list
}

// program returns a module that executes an instruction with all operands and passes the bits of the results to the
// host.
func (in *instruction) program(follow string) (wasm []byte, results int) {
	m := wasmgen.New(0)
	m.Pages = 4
	const load, store = true, false
	access := func(at int, bits int, loads bool) {
		op := map[int][2]byte{32: {0x38, 0x2a}, 64: {0x39, 0x2b}}[bits]
		align := byte(2 + bits/64)
		switch {
		case in.vector && loads:
			m.Op(0xfd, 0, 4)
		case in.vector:
			m.Op(0xfd, 11, 4)
		case loads:
			m.Op(op[1], align)
		default:
			m.Op(op[0], align)
		}
		m.Op(binary.AppendUvarint(nil, uint64(at))...)
	}
	operands := in.wide()
	for i, v := range operands {
		for half := range 2 {
			m.I32(int32(operandsAt + i*slotBytes + 8*half)).I64(int64(binary.LittleEndian.Uint64(v[8*half:]))).Store64()
		}
	}
	try := func(a, b int) {
		m.I32(int32(results * slotBytes))
		m.I32(0)
		access(operandsAt+a*slotBytes, in.from, load)
		if in.binary {
			m.I32(0)
			access(operandsAt+b*slotBytes, in.from, load)
		}
		m.Op(in.op...)
		if follow == "abs" { // an instruction that keeps the NaN's bits reads it
			if in.vector {
				m.Op(binary.AppendUvarint([]byte{0xfd}, map[int]uint64{32: 224, 64: 236}[in.to])...)
			} else {
				m.Op(map[int]byte{32: 0x8b, 64: 0x99}[in.to])
			}
		}
		access(resultsAt, in.to, store)
		results++
	}
	for a := range operands {
		if !in.binary {
			try(a, 0)
			continue
		}
		for b := range operands {
			try(a, b)
		}
	}
	m.I32(resultsAt).I32(int32(results * slotBytes)).Call(abi.FnComplete).Drop()
	return m.I32(0).Export(abi.ExportRun).Bytes(), results
}

// canonicalNaN reports whether bits are a number or the canonical NaN.
func canonicalNaN(b []byte, bits int) bool {
	if bits == 32 {
		v := binary.LittleEndian.Uint32(b)
		return v&0x7fffffff <= 0x7f800000 || v == canonical32
	}
	v := binary.LittleEndian.Uint64(b)
	return v&^(1<<63) <= 0x7ff0000000000000 || v == canonical64
}

// sameBits is the digest of the results of all instructions, equal on every engine and processor.
const sameBits = "a86f34f31abc630a"

// nans executes every instruction that computes numbers, and checks that no NaN has bits chosen by the engine.
func nans(t *testing.T, e engine.Engine) {
	seen, digest := 0, sha256.New()
	for _, in := range instructions() {
		for _, follow := range []string{"", "abs"} {
			wasm, n := in.program(follow)
			h := newHost()
			if _, err := run(t, e, wasm, h); err != nil {
				t.Fatalf("%s: %v", in.name, err)
			}
			if len(h.completed) != n*slotBytes {
				t.Fatalf("%s handed %d bytes over, want %d", in.name, len(h.completed), n*slotBytes)
			}
			digest.Write(h.completed)
			if !in.chooses { // the bits come from its operands
				continue
			}
			for i := range n {
				slot := h.completed[i*slotBytes:][:slotBytes]
				if !in.vector {
					slot = slot[:in.to/8]
				}
				for at := 0; at < len(slot); at += in.to / 8 {
					if !canonicalNaN(slot[at:], in.to) {
						t.Errorf("%s, %q: its result %d has the bits %x", in.name, follow, i, slot)
						break
					}
					seen++
				}
			}
			if t.Failed() {
				break
			}
		}
	}
	t.Logf("%d results of %d instructions", seen, len(instructions()))
	if seen < 10_000 {
		t.Errorf("%d results were looked at", seen)
	}
	if got := fmt.Sprintf("%x", digest.Sum(nil)[:8]); got != sameBits {
		t.Errorf("all results have the sum %s, want %s", got, sameBits)
	}
}

// sequence is SplitMix64 (Steele, Lea, Flood 2014) from zero.
type sequence uint64

// intN returns the next number below n.
func (s *sequence) intN(n int) int {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return int((z ^ z>>31) % uint64(n))
}

// chains executes random chains of instructions without other reads of the numbers between them, to check that the
// NaNs that are not made canonical there are unobservable. Each chain ends with copying the sign of its number to a
// one.
func chains(t *testing.T, e engine.Engine) {
	const n, sum = 400, "2dd00eff4738b742"
	var s sequence
	m := wasmgen.New(1)
	m.Pages = 2
	operand := func() {
		switch bits := operands64[s.intN(len(operands64))]; s.intN(3) {
		case 0:
			m.I64(int64(bits)).Op(0xbf) // f64.reinterpret_i64
		case 1:
			m.Op(binary.LittleEndian.AppendUint64([]byte{0x44}, bits)...) // f64.const
		default:
			m.I64(int64(bits)).Set(0).Get(0).Op(0xbf)
		}
	}
	for i := range n {
		m.I32(int32(8 * i))
		operand()
		for range 1 + s.intN(8) {
			switch s.intN(10) {
			case 0, 1:
				m.Op(0xb6, 0xbb) // f32.demote_f64, f64.promote_f32
			case 2:
				m.Op([]byte{0x99, 0x9a}[s.intN(2)]) // abs, neg
			case 3:
				m.Op(0x9b + byte(s.intN(5))) // ceil to sqrt
			default:
				operand()
				m.Op(0xa0 + byte(s.intN(7))) // add to copysign
			}
		}
		if s.intN(4) == 0 { // compared
			operand()
			m.Op(0x61+byte(s.intN(6)), 0xb7) // eq to ge, f64.convert_i32_s
		}
		m.Op(0x39, 3, 0) // f64.store
	}
	m.I32(0).I32(8 * n).Call(abi.FnComplete).Drop()
	h := newHost()
	if _, err := run(t, e, m.I32(0).Export(abi.ExportRun).Bytes(), h); err != nil {
		t.Fatal(err)
	}
	if got := sha256.Sum256(h.completed); fmt.Sprintf("%x", got[:8]) != sum {
		t.Errorf("the results have the sum %x, want %s", got[:8], sum)
	}
}
