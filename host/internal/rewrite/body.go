package rewrite

import (
	"github.com/wfhost/wfhost/host/internal/nan"
	"github.com/wfhost/wfhost/host/internal/wasmfmt"
)

// body is the function that is being read. Its slices are used again for the next one.
type body struct {
	edits   []edit
	blocks  []block   // that are open
	region  int       // the edit that pays for what is being read
	called  int       // how many edits there were when something was read that changes the counter
	scratch int       // locals of type i32 that are needed beside those of the function
	cached  bool      // a local of type i64 is needed after those of nans
	nans    nan.Kinds // for which a local is needed after those of scratch
	locals  int       // of the function, with its parameters
	dear    int       // wrapped loops times locals

	wrapped []int // while it is written: the blocks that are open and are wrapped loops
	until   int   // while it is written: up to this edit, the local has the counter
}

type block struct {
	around int // the region around it
	loop   int // the edit that pays for it, if it is a loop, else 0
	within int // the innermost loop, itself included, as an index of blocks; -1 without one
}

// edit is a change of a body. Edits are noted from front to back and do not overlap.
type edit struct {
	kind   editKind
	at, to int   // what is replaced
	n      int64 // cost, index, scale, label, or the edit after a loop
	target int   // of a label: which of the open blocks, -1 for the function
	ways   int   // of a loop: how many its largest br_table has
	nan    nan.Kind
}

type editKind byte

const (
	putNothing   editKind = iota
	putIndex              // n in place of what stands there
	putLabel              // n, and as much as the wrapped loops between it and its target make it deeper
	putCharge             // pay n
	putMove               // pay for as many things as are on the stack
	putTee                // keep how many things are on the stack
	putCanonical          // make the NaN on the stack canonical
	putGrown              // pay for them, if the number on the stack is not -1

	// A loop where nothing else changes the counter is wrapped (see wrap).
	putWrapper // before it
	putWrapped // at the beginning of its body: pay n
	putClose   // at its end
)

func (r *rewriter) note(e edit) {
	if r.fuel {
		r.code.edits = append(r.code.edits, e)
	}
}

// moves notes a bulk instruction, which is paid for before it runs.
func (r *rewriter) moves(at, scale int) {
	r.note(edit{kind: putMove, at: at, to: at, n: int64(scale)})
	r.code.scratch = max(r.code.scratch, 1)
	r.code.called = len(r.code.edits)
}

// grows notes an instruction that pays afterwards: if it fails, it has cost nothing, however much was wanted.
func (r *rewriter) grows(at, scale int) {
	r.note(edit{kind: putTee, at: at, to: at})
	r.note(edit{kind: putGrown, at: r.At, to: r.At, n: int64(scale)})
	r.code.scratch = 2
	r.code.called = len(r.code.edits)
}

// codeSection rewrites the bodies (5.5.13) into out, with their number, without the section's head.
func (r *rewriter) codeSection() {
	if !r.enter(secCode) {
		if len(r.defined) > 0 {
			r.Failf("%d functions have no code", len(r.defined))
		}
		return
	}
	n := r.Count("bodies")
	if n != len(r.defined) {
		r.Failf("%d functions have %d bodies", len(r.defined), n)
	}
	r.out = wasmfmt.AppendU32(r.out, uint32(n))
	end := r.End
	for i := 0; i < n && r.Err == nil; i++ {
		size := r.U32("the size of a body")
		if int64(size) > int64(end-r.At) {
			r.Failf("a body of %d bytes is cut off", size)
			return
		}
		r.End = r.At + int(size)
		r.body(r.types[r.defined[i]].params)
		r.End = end
	}
	r.leave(secCode)
}

// body reads a function and writes it.
func (r *rewriter) body(params int) {
	from := r.At
	c := &r.code
	*c = body{edits: c.edits[:0], blocks: c.blocks[:0], wrapped: c.wrapped[:0]}
	groups := r.Count("groups of locals")
	first := r.At
	locals := int64(params)
	for i := 0; i < groups && r.Err == nil; i++ {
		locals += int64(r.U32("locals"))
		r.valueType("a local")
	}
	if locals > maxLocals {
		r.Failf("a function of %d locals stands", locals)
	}
	c.locals = int(locals)
	begin := r.At
	r.note(edit{kind: putCharge, at: begin, to: begin})
	r.instructions()
	if r.Err == nil && r.At != r.End {
		r.Failf("%d bytes of a body are left over", r.End-r.At)
	}
	if r.Err != nil {
		return
	}
	start := len(r.out)
	if !r.fuel {
		r.out = append(r.out, r.Module[from:begin]...)
	} else {
		r.putLocals(groups, r.Module[first:begin])
	}
	r.apply(begin)
	r.size(start)
}

// maxWrapped bounds the wrapped loops of a function times its locals, since engines compile a wrapped loop in up to
// five times the time of another, which grows with both. The printf of C libraries comes to 1,215; the loops beyond
// are charged like those that call.
const maxWrapped = 5_000

// maxLocals is far above what inspection lets pass, and below what an index could not hold.
const maxLocals = 1 << 20

// instructions reads to the end of the function and counts what each region costs: the function without its
// loops, each loop without those within.
func (r *rewriter) instructions() {
	c := &r.code
	if !r.fuel {
		c.edits = append(c.edits[:0], edit{}) // somebody to pay
	}
	for r.Err == nil {
		at := r.At
		op := r.Byte("a body")
		switch op {
		case opEnd:
			if len(c.blocks) == 0 {
				return
			}
			r.close(at)
		case opElse:
		case opBlock, opLoop, opIf:
			c.edits[c.region].n++
			r.open(op, at)
		default:
			c.edits[c.region].n++
			r.instruction(op, at)
		}
	}
}

// open begins a block.
func (r *rewriter) open(op byte, at int) {
	c := &r.code
	r.blockType()
	b := block{around: c.region, within: c.innermost()}
	if op == opLoop && r.fuel {
		b.within = len(c.blocks)
		r.note(edit{kind: putNothing, at: at, to: at})
		b.loop = len(c.edits)
		r.note(edit{kind: putCharge, at: r.At, to: r.At, target: b.within})
		c.region = b.loop
	}
	c.blocks = append(c.blocks, b)
}

// close ends a block, at its last instruction.
func (r *rewriter) close(at int) {
	c := &r.code
	b := c.blocks[len(c.blocks)-1]
	c.blocks = c.blocks[:len(c.blocks)-1]
	c.region = b.around
	if b.loop > 0 {
		turn := &c.edits[b.loop]
		turn.n = (turn.n + int64(max(turn.ways, 1)) - 1) / int64(max(turn.ways, 1))
	}
	if b.loop > c.called {
		if c.dear += c.locals + 1; c.dear > maxWrapped {
			c.called = len(c.edits) // by the loop itself, for those around it
			return
		}
		r.note(edit{kind: putClose, at: at, to: at})
		c.edits[b.loop-1].kind, c.edits[b.loop-1].n = putWrapper, int64(len(c.edits))
		c.edits[b.loop].kind = putWrapped
		c.cached = true
	}
}

// maxWays bounds by how much a br_table makes a loop cheaper, and so how much more than it pays for a guest can execute.
const maxWays = 16

// ways notes how many targets a br_table has.
func (r *rewriter) ways(n int) {
	turn := &r.code.edits[r.code.region]
	turn.ways = max(turn.ways, min(n, maxWays))
}

// innermost gives the innermost loop that is open, as an index of blocks; -1 without one.
func (c *body) innermost() int {
	if len(c.blocks) == 0 {
		return -1
	}
	return c.blocks[len(c.blocks)-1].within
}

// label reads where a branch leads, and notes it if a loop is there or between.
func (r *rewriter) label() {
	at := r.At
	n := r.Index("label", len(r.code.blocks)+1)
	target := len(r.code.blocks) - 1 - int(n)
	if r.code.innermost() >= max(target, 0) {
		r.note(edit{kind: putLabel, at: at, to: r.At, n: int64(n), target: target})
	}
}

// expression reads a constant expression (5.4.9) and copies it with the indexes of functions shifted.
func (r *rewriter) expression() {
	r.code.edits = r.code.edits[:0]
	for r.Err == nil {
		switch op := r.Byte("a constant expression"); op {
		case opEnd:
			return
		case opI32Const, opI64Const, opF32Const, opF64Const, opGlobalGet, opRefNull:
			r.instruction(op, r.At)
		case opRefFunc:
			r.shiftIndex()
		case opPrefixFD:
			if n := r.U32("a constant expression"); n != fdConst {
				r.Failf("the instruction 0xfd %d is not constant; it ends", n)
			}
			r.Skip(16, "a constant expression")
		default:
			r.Failf("the instruction 0x%02x is not constant; it ends", op)
		}
	}
}
