package instrument

import (
	"github.com/wfhost/wfhost/host/internal/wasm"
)

// body is the function that is being read. Its slices are used again for the next one.
type body struct {
	edits   []edit
	blocks  []block // that are open
	regions Map
	called  int        // how many edits there were when something was read that changes the counter
	calls   int        // of functions
	loops   int        // with the instructions that pay for themselves: what a function has none of that is charged without a look
	scratch int        // locals of type i32 that are needed beside those of the function
	cached  bool       // a local of type i64 is needed after those of nans
	nans    wasm.Kinds // for which a local is needed after those of scratch
	locals  int        // of the function, with its parameters
	dear    int        // wrapped loops times locals
	looks   looks
	result  byte  // the type of the function's only result, 0 without one
	early   bool  // a loop is entered first, before any call: it looks
	labels  []int // of the br_table that is being read

	wrapped []int // while it is written: the blocks that are open and are wrapped loops
	until   int   // while it is written: up to this edit, the local has the counter
}

// looks says where a function looks whether there is fuel left, beside its loops. What it does between two looks is bounded: by
// largeCost, times the functions that are on the stack, which return one after the other.
type looks struct {
	first bool // where it is entered
	last  bool // where it returns
	along bool // in each region: to look where it returns would need a type of its results that may not exist
}

// Bounds, in ticks.
const (
	leafCost  = 8 * Ticks   // of functions that never look
	largeCost = 128 * Ticks // of functions that need not look where they return
	// callCost is what a call counts for in these bounds: as much as a leaf that does not look may cost.
	callCost = leafCost
	// deniedCost is what a growth costs that the host is told of because nothing was added.
	deniedCost = 100 * Ticks
)

type block struct {
	loop   int // the edit that pays for it, if it is a loop, else 0
	within int // the innermost loop, itself included, as an index of blocks; -1 without one
}

// edit is a change of a body. Edits are noted from front to back and do not overlap.
type edit struct {
	kind   editKind
	at, to int   // what is replaced
	n      int64 // cost, index, scale, label, region, or the edit after a loop
	target int   // of a label: which of the open blocks, -1 for the function
	nan    wasm.Kind
}

type editKind byte

const (
	putNothing   editKind = iota
	putIndex              // n in place of what stands there
	putLabel              // n, and as much as the wrapped loops between it and its target make it deeper
	putEntry              // pay for region n, where a function is entered
	putExit               // where it ends
	putReturn             // leave the function, whose label is n
	putTurn               // pay for region n, and look whether there is fuel
	putRegion             // pay for region n
	putCharge             // pay n
	putMove               // pay for as many things as are on the stack
	putTee                // keep how many things are on the stack
	putCanonical          // make the NaN on the stack canonical
	putGrown              // pay for them, if the number on the stack is not -1

	// Loops are wrapped (see wrap), if there are not too many.
	putWrapper // before it
	putWrapped // at the beginning of its body: pay for region n
	putClose   // at its end
	// A loop where nothing else changes the counter has it in a local.
	putCached     // before it
	putCachedTurn // at the beginning of its body: pay for region n
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
	r.code.loops++
	r.code.called = len(r.code.edits)
}

// grows notes an instruction that pays afterwards: if it fails, it has cost little, however much was wanted.
func (r *rewriter) grows(at, scale int) {
	r.note(edit{kind: putTee, at: at, to: at})
	r.note(edit{kind: putGrown, at: r.At, to: r.At, n: int64(scale)})
	r.code.scratch = 2
	r.code.loops++
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
	r.out = wasm.AppendU32(r.out, uint32(n))
	end := r.End
	for i := 0; i < n && r.Err == nil; i++ {
		size := r.U32("the size of a body")
		if int64(size) > int64(end-r.At) {
			r.Failf("a body of %d bytes is cut off", size)
			return
		}
		r.End = r.At + int(size)
		r.body(r.types[r.defined[i]])
		r.End = end
	}
	r.leave(secCode)
}

// body reads a function and writes it.
func (r *rewriter) body(of signature) {
	from := r.At
	c := &r.code
	*c = body{edits: c.edits[:0], blocks: c.blocks[:0], wrapped: c.wrapped[:0], regions: c.regions, labels: c.labels[:0]}
	c.regions.Reset()
	groups := r.Count("groups of locals")
	first := r.At
	locals := int64(of.params)
	for i := 0; i < groups && r.Err == nil; i++ {
		locals += int64(r.U32("locals"))
		r.valueType("a local")
	}
	if locals > maxLocals {
		r.Failf("a function of %d locals stands", locals)
	}
	c.locals = int(locals)
	begin := r.At
	r.note(edit{kind: putEntry, at: begin, to: begin})
	r.instructions()
	if r.Err == nil && r.At != r.End {
		r.Failf("%d bytes of a body are left over", r.End-r.At)
	}
	if r.Err != nil {
		return
	}
	c.settle(of, r.large)
	start := len(r.out)
	if !r.fuel {
		r.out = append(r.out, r.Module[from:begin]...)
	} else {
		r.putLocals(groups, r.Module[first:begin])
	}
	r.apply(begin, of)
	r.size(start)
}

// maxWrapped bounds the wrapped loops of a function times its locals, since engines compile a wrapped loop in up to
// five times the time of another, which grows with both. The printf of C libraries comes to 1,215; the loops beyond
// ask for fuel within.
const maxWrapped = 5_000

// maxLocals is far above what inspection lets pass, and below what an index could not hold.
const maxLocals = 1 << 20

// settle decides what is paid where, and where the function looks whether there is fuel.
func (c *body) settle(of signature, large int64) {
	total := c.regions.Total() + callCost*int64(c.calls)
	leaf := c.calls == 0 && c.loops == 0 && total <= leafCost
	c.looks.first = !leaf && !c.early
	if c.calls > 0 && total > large {
		c.looks.along = of.results > 1
		c.looks.last = !c.looks.along
	}
	c.regions.Fold()
}

// instructions reads to the end of the function, and divides it into regions.
func (r *rewriter) instructions() {
	c := &r.code
	for r.Err == nil {
		at := r.At
		op := r.Byte("a body")
		c.regions.Add(Cost(op))
		switch op {
		case opEnd:
			if len(c.blocks) == 0 {
				r.note(edit{kind: putExit, at: at, to: at})
				return
			}
			r.close(at)
		case opElse:
			r.begin(c.regions.Else())
		case opBlock, opLoop, opIf:
			r.open(op, at)
		default:
			r.instruction(op, at)
		}
	}
}

// begin notes where a region begins, if it is one.
func (r *rewriter) begin(of int) {
	if of != None {
		r.note(edit{kind: putRegion, at: r.At, to: r.At, n: int64(of)})
	}
}

// constructs are the kinds of blocks.
var constructs = map[byte]Kind{opBlock: Block, opLoop: Loop, opIf: If}

// open begins a block.
func (r *rewriter) open(op byte, at int) {
	c := &r.code
	r.blockType()
	of := c.regions.Open(constructs[op])
	b := block{within: c.innermost()}
	if op == opLoop && r.fuel {
		c.early = c.early || c.loops == 0 && c.calls == 0 && len(c.regions.Regions) == 2
		b.within = len(c.blocks)
		c.loops++
	}
	if op == opLoop && r.fuel && of != None {
		r.note(edit{kind: putNothing, at: at, to: at})
		b.loop = len(c.edits)
		r.note(edit{kind: putTurn, at: r.At, to: r.At, n: int64(of), target: b.within})
	} else {
		r.begin(of)
	}
	c.blocks = append(c.blocks, b)
}

// close ends a block, at its last instruction.
func (r *rewriter) close(at int) {
	c := &r.code
	b := c.blocks[len(c.blocks)-1]
	c.blocks = c.blocks[:len(c.blocks)-1]
	if b.loop > 0 {
		r.closeLoop(at, b.loop)
	}
	r.begin(c.regions.End())
}

// closeLoop decides how a loop looks, of which the edits at its beginning are known.
func (r *rewriter) closeLoop(at, loop int) {
	c := &r.code
	alone := loop > c.called // nothing changes the counter but the loop itself
	c.dear += c.locals + 1
	if c.dear > maxWrapped {
		c.called = len(c.edits) // by the loop itself, for those around it
		return
	}
	r.note(edit{kind: putClose, at: at, to: at})
	c.edits[loop-1].kind, c.edits[loop].kind = putWrapper, putWrapped
	if alone {
		c.edits[loop-1].kind, c.edits[loop].kind = putCached, putCachedTurn
		c.edits[loop-1].n = int64(len(c.edits))
		c.cached = true
	}
}

// innermost gives the innermost loop that is open, as an index of blocks; -1 without one.
func (c *body) innermost() int {
	if len(c.blocks) == 0 {
		return -1
	}
	return c.blocks[len(c.blocks)-1].within
}

// label reads where a branch leads, and notes it if a loop is there or between.
func (r *rewriter) label() int {
	at := r.At
	n := r.Index("label", len(r.code.blocks)+1)
	target := len(r.code.blocks) - 1 - int(n)
	if r.code.innermost() >= max(target, 0) {
		r.note(edit{kind: putLabel, at: at, to: r.At, n: int64(n), target: target})
	}
	return int(n)
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
