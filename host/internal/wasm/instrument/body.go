package instrument

import (
	"github.com/wfhost/wfhost/host/internal/wasm"
)

// body is the current function. Its slices are reused for the next one.
type body struct {
	edits   []edit
	blocks  []block // open blocks
	regions Map
	called  int        // the number of edits when the last instruction that changes the counter was read
	calls   int        // call instructions
	loops   int        // loops, and instructions with a charge of their own; a leaf function has neither
	scratch int        // extra locals of type i32
	cached  bool       // an extra local of type i64 is needed, after those of nans
	nans    wasm.Kinds // kinds that need an extra local, after those of scratch
	locals  int        // of the function, including parameters
	dear    int        // wrapped loops times locals
	checks  fuelChecks
	result  byte  // the type of the only result, or 0
	early   bool  // it enters a loop first, before any call, so that the loop checks the fuel
	labels  []int // of the current br_table

	wrapped []int // while writing: the open blocks that are wrapped loops
	until   int   // while writing: before this edit, the local holds the counter
}

// fuelChecks says where a function checks its fuel, besides in its loops. What it computes between two checks is bounded
// by largeCost times the number of functions on the stack, which may return one after the other.
type fuelChecks struct {
	first bool // on entry
	last  bool // on return
	along bool // in each region: a check on return would need a block type for its results, which may not exist
}

// Bounds, in ticks.
const (
	leafCost  = 8 * Ticks   // of functions without checks
	largeCost = 128 * Ticks // of functions without a check on return
	// callCost is the cost of a call in these bounds: the maximum of a leaf without checks.
	callCost = leafCost
	// deniedCost is the cost of a failed growth, which is reported to the host.
	deniedCost = 100 * Ticks
)

type block struct {
	loop   int // the edit that pays for it if it is a loop, else 0
	within int // the innermost loop, possibly itself, as an index of blocks; -1 without one
}

// edit is a change of a body. Edits are in ascending order and do not overlap.
type edit struct {
	kind   editKind
	at, to int   // replaced bytes
	n      int64 // cost, index, scale, label, region, or the edit after a loop
	target int   // of a label: the open block that it means, -1 for the function
	nan    wasm.Kind
}

type editKind byte

const (
	putNothing   editKind = iota
	putIndex              // write n instead
	putLabel              // write n, increased by the wrapped loops between it and its target
	putEntry              // pay for region n, on entry to the function
	putExit               // at the end of the function
	putReturn             // return from the function, whose label is n
	putLoopHead           // pay for region n, and check the fuel
	putRegion             // pay for region n
	putCharge             // pay n
	putMove               // pay for as many units as the number on the stack
	putTee                // save the number on the stack
	putCanonical          // make the NaN on the stack canonical
	putGrown              // pay for the saved number, unless the number on the stack is -1

	// Loops are wrapped (see wrap) unless there are too many.
	putWrapper // before the loop
	putWrapped // at the beginning of the loop's body: pay for region n
	putClose   // at the end of the loop
	// In a loop that is the only code to change the counter, a local holds the counter.
	putCached     // before the loop
	putCachedHead // at the beginning of the loop's body: pay for region n
)

func (r *rewriter) addEdit(e edit) {
	if r.fuel {
		r.code.edits = append(r.code.edits, e)
	}
}

// moves records a bulk instruction, which is charged before it runs.
func (r *rewriter) moves(at, scale int) {
	r.addEdit(edit{kind: putMove, at: at, to: at, n: int64(scale)})
	r.code.scratch = max(r.code.scratch, 1)
	r.code.loops++
	r.code.called = len(r.code.edits)
}

// grows records an instruction that is charged afterwards: if it fails, it was cheap, whatever size was requested.
func (r *rewriter) grows(at, scale int) {
	r.addEdit(edit{kind: putTee, at: at, to: at})
	r.addEdit(edit{kind: putGrown, at: r.At, to: r.At, n: int64(scale)})
	r.code.scratch = 2
	r.code.loops++
	r.code.called = len(r.code.edits)
}

// codeSection writes the rewritten bodies (5.5.13) and their number to out, without the header of the section.
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

// body reads and rewrites a function.
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
	r.addEdit(edit{kind: putEntry, at: begin, to: begin})
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

// maxWrapped bounds the wrapped loops of a function times its locals: the time to compile a wrapped loop grows with
// both, up to five times that of an unwrapped one. The printf of C libraries reaches 1,215. Further loops check the
// fuel inside.
const maxWrapped = 5_000

// maxLocals is far above what package validate accepts, and low enough for an index.
const maxLocals = 1 << 20

// settle decides which regions are charged, and where the function checks the fuel.
func (c *body) settle(of signature, large int64) {
	total := c.regions.Total() + callCost*int64(c.calls)
	leaf := c.calls == 0 && c.loops == 0 && total <= leafCost
	c.checks.first = !leaf && !c.early
	if c.calls > 0 && total > large {
		c.checks.along = of.results > 1
		c.checks.last = !c.checks.along
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
				r.addEdit(edit{kind: putExit, at: at, to: at})
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

// begin records the beginning of a region, unless of is None.
func (r *rewriter) begin(of int) {
	if of != None {
		r.addEdit(edit{kind: putRegion, at: r.At, to: r.At, n: int64(of)})
	}
}

// constructs maps opcodes to kinds of blocks.
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
		r.addEdit(edit{kind: putNothing, at: at, to: at})
		b.loop = len(c.edits)
		r.addEdit(edit{kind: putLoopHead, at: r.At, to: r.At, n: int64(of), target: b.within})
	} else {
		r.begin(of)
	}
	c.blocks = append(c.blocks, b)
}

// close ends a block, at its end instruction.
func (r *rewriter) close(at int) {
	c := &r.code
	b := c.blocks[len(c.blocks)-1]
	c.blocks = c.blocks[:len(c.blocks)-1]
	if b.loop > 0 {
		r.closeLoop(at, b.loop)
	}
	r.begin(c.regions.End())
}

// closeLoop decides how a loop checks the fuel. loop is the index after its first edit.
func (r *rewriter) closeLoop(at, loop int) {
	c := &r.code
	alone := loop > c.called // only the loop itself changes the counter
	c.dear += c.locals + 1
	if c.dear > maxWrapped {
		c.called = len(c.edits) // the loop changes it, for the loops around it
		return
	}
	r.addEdit(edit{kind: putClose, at: at, to: at})
	c.edits[loop-1].kind, c.edits[loop].kind = putWrapper, putWrapped
	if alone {
		c.edits[loop-1].kind, c.edits[loop].kind = putCached, putCachedHead
		c.edits[loop-1].n = int64(len(c.edits))
		c.cached = true
	}
}

// innermost returns the innermost open loop, as an index of blocks; -1 without one.
func (c *body) innermost() int {
	if len(c.blocks) == 0 {
		return -1
	}
	return c.blocks[len(c.blocks)-1].within
}

// label reads the label of a branch, and records it if its target is a loop or there is a loop between.
func (r *rewriter) label() int {
	at := r.At
	n := r.Index("label", len(r.code.blocks)+1)
	target := len(r.code.blocks) - 1 - int(n)
	if r.code.innermost() >= max(target, 0) {
		r.addEdit(edit{kind: putLabel, at: at, to: r.At, n: int64(n), target: target})
	}
	return int(n)
}

// expression reads a constant expression (5.4.9), and shifts the function indexes in it.
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
