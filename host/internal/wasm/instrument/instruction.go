package instrument

import (
	"github.com/wfhost/wfhost/host/internal/wasm"
)

// Opcodes that the rewriter tells apart (5.4).
const (
	opUnreachable  = 0x00
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opDrop         = 0x1a
	opSelect       = 0x1b
	opSelectTyped  = 0x1c
	opLocalGet     = 0x20
	opLocalSet     = 0x21
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opTableGet     = 0x25
	opTableSet     = 0x26
	opI32Load      = 0x28
	opI64Store32   = 0x3e
	opMemorySize   = 0x3f
	opMemoryGrow   = 0x40
	opI32Const     = 0x41
	opI64Const     = 0x42
	opF32Const     = 0x43
	opF64Const     = 0x44
	opI32Ne        = 0x47
	opI64LtS       = 0x53
	opI64GeS       = 0x59
	opI64Add       = 0x7c
	opI64Sub       = 0x7d
	opI64Shl       = 0x86
	opI64ShrU      = 0x88
	opI64ExtendU   = 0xad
	opI32Eqz       = 0x45
	opI64Extend32S = 0xc4
	opRefNull      = 0xd0
	opRefIsNull    = 0xd1
	opRefFunc      = 0xd2
	opPrefixFC     = 0xfc
	opPrefixFD     = 0xfd
	blockEmpty     = 0x40 // block type () -> ()
)

// Instructions after 0xfc.
const (
	fcLastConversion = 7
	fcMemoryInit     = 8
	fcDataDrop       = 9
	fcMemoryCopy     = 10
	fcMemoryFill     = 11
	fcTableInit      = 12
	fcElemDrop       = 13
	fcTableCopy      = 14
	fcTableGrow      = 15
	fcTableSize      = 16
	fcTableFill      = 17
)

// Instructions after 0xfd.
const (
	fdLoads, fdLastLoad         = 0, 11 // and the store
	fdConst, fdShuffle          = 12, 13
	fdLane, fdLastLane          = 21, 34
	fdLoadLane, fdLastStoreLane = 84, 91
	fdLoadZero, fdLastLoadZero  = 92, 93
	fdLast                      = 0xff // relaxed SIMD begins after it
)

const inInstruction = "an instruction"

// Refusals for instructions whose effect on tables or segments cannot be undone in an instance.
const (
	changesTable = "it changes its table"
	usesSegments = "it uses segments of data while it runs"
)

// referenceCost is the cost of ref.func in addition to its class, in ticks. Engines leave the compiled code for it,
// and allocate an object that lives as long as the instance. At this cost, one grant of fuel allocates about a
// megabyte of them.
const referenceCost = 64 * Ticks

// Ticks of bulk instructions, as shifts of the operand: bytes, elements of 8 bytes, or pages of 64 KiB. A unit of
// fuel pays for 64 bytes.
const (
	perBytes    = -6 + tickBits
	perElements = -3 + tickBits
	perPages    = 10 + tickBits
	tickBits    = 6 // Ticks is 1 << tickBits
)

// instruction reads the operands of an opcode and records the edits.
func (r *rewriter) instruction(op byte, at int) {
	switch {
	case op >= opI32Load && op <= opI64Store32:
		r.U32(inInstruction)
		r.U32(inInstruction)
	case op >= opLocalGet && op <= opLocalTee:
		r.Index("local", r.code.locals)
	case op == opI32Const:
		r.SkipLEB(inInstruction, 32)
	case op == opCall:
		r.functionIndex()
		r.calls()
	case op == opRefFunc:
		r.addEdit(edit{kind: putCharge, at: at, to: at, n: referenceCost})
		r.code.loops++
		r.code.called = len(r.code.edits)
		r.functionIndex()
	case op == opGlobalGet, op == opGlobalSet:
		r.Index("global", r.globals)
	case op == opUnreachable:
		r.code.regions.Trap()
	case op >= opI32Eqz && op <= opI64Extend32S, op == 0x01, op == opDrop, op == opSelect, op == opRefIsNull:
		r.computes(wasm.KindOf(op))
	case op == opReturn:
		r.addEdit(edit{kind: putReturn, at: at, to: r.At, n: int64(len(r.code.blocks)), target: -1})
		r.code.regions.Return()
	case op == opBr:
		r.code.regions.Branch(r.label())
	case op == opBrIf:
		r.begin(r.code.regions.BranchIf(r.label()))
	case op == opTableGet:
		r.U32(inInstruction)
	case op == opTableSet:
		r.refuse(changesTable)
		r.U32(inInstruction)
	case op == opBrTable:
		labels := r.code.labels[:0]
		for n := r.Count("targets of a br_table"); n >= 0 && r.Err == nil; n-- {
			labels = append(labels, r.label())
		}
		r.code.regions.Branch(labels...)
		r.code.labels = labels
	case op == opCallIndirect:
		r.Index("type", len(r.types))
		r.U32(inInstruction)
		r.calls()
	case op == opSelectTyped:
		r.valueTypes("types")
	case op == opMemorySize:
		r.Skip(1, inInstruction)
	case op == opRefNull:
		r.valueType("a null")
	case op == opMemoryGrow:
		r.Skip(1, inInstruction)
		r.grows(at, perPages)
	case op == opI64Const:
		r.SkipLEB(inInstruction, 64)
	case op == opF32Const:
		r.Skip(4, inInstruction)
	case op == opF64Const:
		r.Skip(8, inInstruction)
	case op == opPrefixFC:
		r.prefixFC(at)
	case op == opPrefixFD:
		r.prefixFD()
	default:
		r.Failf("the unknown instruction 0x%02x ends", op)
	}
}

// calls records a call, which changes the counter.
func (r *rewriter) calls() {
	r.code.calls++
	r.code.called = len(r.code.edits)
}

// functionIndex reads the index of a function and records its new value.
func (r *rewriter) functionIndex() {
	at := r.At
	i := r.Index("function", r.functions())
	if n := r.shift(i); n != i {
		r.addEdit(edit{kind: putIndex, at: at, to: r.At, n: int64(n)})
	}
}

func (r *rewriter) prefixFC(at int) {
	op := r.U32(inInstruction)
	r.code.regions.Add(CostFC(op))
	if op <= fcLastConversion {
		return
	}
	if op > fcTableFill {
		r.Failf("the unknown instruction 0xfc %d ends", op)
		return
	}
	r.U32(inInstruction)
	switch op {
	case fcMemoryInit, fcMemoryCopy, fcTableInit, fcTableCopy:
		r.U32(inInstruction)
	}
	switch op {
	case fcMemoryInit, fcDataDrop:
		r.refuse(usesSegments)
	case fcTableInit, fcElemDrop, fcTableCopy, fcTableGrow, fcTableFill:
		r.refuse(changesTable)
	}
	switch op {
	case fcMemoryInit, fcMemoryCopy, fcMemoryFill:
		r.moves(at, perBytes)
	case fcTableInit, fcTableCopy, fcTableFill:
		r.moves(at, perElements)
	case fcTableGrow:
		r.grows(at, perElements)
	}
}

// computes records that an instruction has left a number or a vector on the stack.
func (r *rewriter) computes(k wasm.Kind) {
	if r.nan && k != wasm.None && !k.Vanishes(r.Module[r.At:r.End]) {
		r.addEdit(edit{kind: putCanonical, at: r.At, to: r.At, nan: k})
		r.code.nans.Add(k)
	}
}

func (r *rewriter) prefixFD() {
	op := r.U32(inInstruction)
	r.code.regions.Add(CostFD(op))
	switch {
	case op <= fdLastLoad, op >= fdLoadZero && op <= fdLastLoadZero:
		r.U32(inInstruction)
		r.U32(inInstruction)
	case op == fdConst, op == fdShuffle:
		r.Skip(16, inInstruction)
	case op >= fdLane && op <= fdLastLane:
		r.Skip(1, inInstruction)
	case op >= fdLoadLane && op <= fdLastStoreLane:
		r.U32(inInstruction)
		r.U32(inInstruction)
		r.Skip(1, inInstruction)
	case op > fdLast:
		r.Failf("the unknown instruction 0xfd %d ends", op)
	default:
		r.computes(wasm.OfVector(op))
	}
}

// blockType skips a block type: a value type, none, or the index of a type (5.4.1).
func (r *rewriter) blockType() {
	if r.More() && r.Module[r.At]&0xc0 == blockEmpty { // a negative number of one byte
		if r.Module[r.At] == blockEmpty {
			r.At++
			return
		}
		r.valueType("a block")
		return
	}
	r.Index("type", len(r.types))
	if r.Err == nil && r.Module[r.At-1]&0x40 != 0 { // a negative number of several bytes
		r.Failf("a block of an unknown type stands")
	}
}
