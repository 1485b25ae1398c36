// The specification (4.3.3) lets an engine choose the sign and the payload of a NaN that an instruction computes.
// Engines choose by the processor and by the order of operands in the machine code. A guest can read these bits, and
// a workflow that does would not replay elsewhere. This file lists the instructions whose NaNs the engine chooses,
// and writes the code that replaces such a NaN on the stack by the canonical NaN with a clear sign bit.

package wasm

import "encoding/binary"

// Kind is the type of a result whose NaN bits the engine chooses. The zero value is None.
type Kind byte

// Kinds: numbers, and vectors by the shape of their lanes.
const (
	None Kind = iota
	F32
	F64
	F32x4
	F64x2
)

// Kinds is a set of kinds. A function has a local for each, in ascending order. The zero value is empty.
type Kinds [F64x2 + 1]bool

// Add adds a kind.
func (s *Kinds) Add(k Kind) { s[k] = true }

// Len returns the number of kinds in the set.
func (s *Kinds) Len() int { return s.count(len(s)) }

func (s *Kinds) count(to int) (n int) {
	for _, in := range s[:to] {
		if in {
			n++
		}
	}
	return n
}

// Append appends the declarations of the locals, each as a group of one (5.4.6).
func (s *Kinds) Append(out []byte) []byte {
	for k, in := range s {
		if in {
			out = append(out, 1, Kind(k).Type())
		}
	}
	return out
}

// Value types (5.3.1, 5.3.2), and the instructions that this file tells apart (5.4).
const (
	typeF32, typeF64, typeV128 = 0x7d, 0x7c, 0x7b

	opDrop, opSelect      = 0x1a, 0x1b
	opLocalGet, opTee     = 0x20, 0x22
	opF32Const, opF64Cons = 0x43, 0x44
	opF32Eq, opF32Ge      = 0x5b, 0x60
	opF64Eq, opF64Ge      = 0x61, 0x66
	opF32Ceil, opF32Sqrt  = 0x8d, 0x91
	opF32Add, opF32Max    = 0x92, 0x97
	opF64Ceil, opF64Sqrt  = 0x9b, 0x9f
	opF64Add, opF64Max    = 0xa0, 0xa5
	opDemote, opPromote   = 0xb6, 0xbb
	opPrefixFC, opPrefix  = 0xfc, 0xfd
	fcLastConversion      = 7

	fdConst, fdF32x4Eq, fdF64x2Eq, fdBitSelect = 12, 65, 71, 82
)

// The canonical NaNs.
const (
	bits32 = 0x7fc00000
	bits64 = 0x7ff8000000000000
)

// KindOf returns the kind of a one-byte instruction.
func KindOf(op byte) Kind {
	switch {
	case op >= opF32Ceil && op <= opF32Max, op == opDemote:
		return F32
	case op >= opF64Ceil && op <= opF64Max, op == opPromote:
		return F64
	}
	return None
}

// OfVector returns the kind of an instruction after the prefix 0xfd. Instructions that only change or choose bits
// (abs, neg, pmin, pmax) have none.
func OfVector(op uint32) Kind {
	switch op {
	case 103, 104, 105, 106, // ceil, floor, trunc, nearest
		227, 228, 229, 230, 231, 232, 233, // sqrt, add, sub, mul, div, min, max
		94: // demote
		return F32x4
	case 116, 117, 122, 148, 239, 240, 241, 242, 243, 244, 245,
		95: // promote
		return F64x2
	}
	return None
}

// Type returns the value type of a kind.
func (k Kind) Type() byte {
	return [len(Kinds{})]byte{F32: typeF32, F64: typeF64, F32x4: typeV128, F64x2: typeV128}[k]
}

// Vanishes reports whether the NaN on the stack is unobservable because of the instructions that follow: it is
// dropped, compared, converted to an integer, or an operand of an instruction whose own NaN is made canonical. It
// recognizes common cases only.
func (k Kind) Vanishes(next []byte) bool {
	if k != F32 && k != F64 || len(next) == 0 {
		return false
	}
	op := next[0]
	switch {
	case op == opDrop, op == opPrefixFC && len(next) > 1 && next[1] <= fcLastConversion:
		return true
	case op >= 0xa8 && op <= 0xb1: // conversions to integers trap; conversions from integers take no NaN
		return true
	case op == opDemote, op == opPromote, k.binary(op), k == F32 && op >= opF32Ceil && op <= opF32Sqrt,
		k == F64 && op >= opF64Ceil && op <= opF64Sqrt:
		return true
	}
	return k.binary(second(next))
}

// binary reports whether an instruction takes two operands of the kind and its result does not show which NaNs they
// were.
func (k Kind) binary(op byte) bool {
	if k == F32 {
		return op >= opF32Eq && op <= opF32Ge || op >= opF32Add && op <= opF32Max
	}
	return op >= opF64Eq && op <= opF64Ge || op >= opF64Add && op <= opF64Max
}

// second returns the instruction after one that only pushes a value; 0 if there is none.
func second(next []byte) byte {
	n := 1
	switch next[0] {
	case opLocalGet:
		for n < len(next) && next[n] >= 0x80 {
			n++
		}
		n++
	case opF32Const:
		n += 4
	case opF64Cons:
		n += 8
	default:
		return 0
	}
	if n >= len(next) {
		return 0
	}
	return next[n]
}

// Canonical appends instructions that make a NaN on the stack canonical. The locals of the set begin at index first.
func (s *Kinds) Canonical(out []byte, k Kind, first int) []byte {
	return k.Append(out, binary.AppendUvarint(nil, uint64(first+s.count(int(k)))))
}

// Append appends instructions that make a NaN on the stack canonical and leave other values unchanged. They need a
// local of the kind's type; local is its index as LEB128.
func (k Kind) Append(out, local []byte) []byte {
	put := func(op byte) { out = append(append(out, op), local...) }
	put(opTee)
	switch k {
	case F32:
		out = binary.LittleEndian.AppendUint32(append(out, opF32Const), bits32)
	case F64:
		out = binary.LittleEndian.AppendUint64(append(out, opF64Cons), bits64)
	case F32x4:
		out = append(out, opPrefix, fdConst)
		for range 4 {
			out = binary.LittleEndian.AppendUint32(out, bits32)
		}
	default:
		out = append(out, opPrefix, fdConst)
		for range 2 {
			out = binary.LittleEndian.AppendUint64(out, bits64)
		}
	}
	put(opLocalGet)
	put(opLocalGet)
	switch k {
	case F32:
		return append(out, opF32Eq, opSelect)
	case F64:
		return append(out, opF64Eq, opSelect)
	case F32x4:
		return append(out, opPrefix, fdF32x4Eq, opPrefix, fdBitSelect)
	}
	return append(out, opPrefix, fdF64x2Eq, opPrefix, fdBitSelect)
}
