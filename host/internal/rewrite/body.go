package rewrite

// body is the function that is being read. Its slices are used again for the next one.
type body struct {
	edits   []edit
	blocks  []int // the region around each block that is open
	region  int   // the edit that pays for what is being read
	scratch int   // locals that are needed beside those of the function
	locals  int   // of the function, with its parameters
}

// edit is a change of a body. Edits are noted from front to back and do not overlap.
type edit struct {
	kind   editKind
	at, to int   // what is replaced
	n      int64 // cost, index or scale
}

type editKind byte

const (
	putIndex  editKind = iota // n in place of what stands there
	putCharge                 // pay n
	putMove                   // pay for as many things as are on the stack
	putTee                    // keep how many things are on the stack
	putGrown                  // pay for them, if the number on the stack is not -1
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
}

// grows notes an instruction that pays afterwards: if it fails, it has cost nothing, however much was wanted.
func (r *rewriter) grows(at, scale int) {
	r.note(edit{kind: putTee, at: at, to: at})
	r.note(edit{kind: putGrown, at: r.at, to: r.at, n: int64(scale)})
	r.code.scratch = 2
}

// codeSection rewrites the bodies (5.5.13) into out, with their number, without the section's head.
func (r *rewriter) codeSection() {
	if !r.enter(secCode) {
		if len(r.defined) > 0 {
			r.failf("%d functions have no code", len(r.defined))
		}
		return
	}
	n := r.count("bodies")
	if n != len(r.defined) {
		r.failf("%d functions have %d bodies", len(r.defined), n)
	}
	r.out = appendU32(r.out, uint32(n))
	end := r.end
	for i := 0; i < n && r.err == nil; i++ {
		size := r.u32("the size of a body")
		if int64(size) > int64(end-r.at) {
			r.failf("a body of %d bytes is cut off", size)
			return
		}
		r.end = r.at + int(size)
		r.body(r.params[r.defined[i]])
		r.end = end
	}
	r.leave(secCode)
}

// body reads a function and writes it.
func (r *rewriter) body(params int) {
	from := r.at
	c := &r.code
	c.edits, c.blocks, c.scratch, c.region = c.edits[:0], c.blocks[:0], 0, 0
	groups := r.count("groups of locals")
	first := r.at
	locals := int64(params)
	for i := 0; i < groups && r.err == nil; i++ {
		locals += int64(r.u32("locals"))
		r.byte("the type of locals")
	}
	if locals > maxLocals {
		r.failf("a function of %d locals stands", locals)
	}
	c.locals = int(locals)
	begin := r.at
	r.note(edit{kind: putCharge, at: begin, to: begin})
	r.instructions()
	if r.err == nil && r.at != r.end {
		r.failf("%d bytes of a body are left over", r.end-r.at)
	}
	if r.err != nil {
		return
	}
	start := len(r.out)
	if !r.fuel || c.scratch == 0 {
		r.out = append(r.out, r.b[from:begin]...)
	} else {
		r.out = appendU32(r.out, uint32(groups)+1)
		r.out = append(r.out, r.b[first:begin]...)
		r.out = append(r.out, byte(c.scratch), typeI32)
	}
	r.apply(begin)
	r.size(start)
}

// maxLocals is far above what inspection lets pass, and below what an index could not hold.
const maxLocals = 1 << 20

// instructions reads to the end of the function and counts what each region costs: the function without its
// loops, each loop without those within.
func (r *rewriter) instructions() {
	c := &r.code
	if !r.fuel {
		c.edits = append(c.edits[:0], edit{}) // somebody to pay
	}
	for r.err == nil {
		at := r.at
		op := r.byte("a body")
		switch op {
		case opEnd:
			if len(c.blocks) == 0 {
				return
			}
			c.region = c.blocks[len(c.blocks)-1]
			c.blocks = c.blocks[:len(c.blocks)-1]
		case opElse:
		case opBlock, opLoop, opIf:
			c.edits[c.region].n++
			r.blockType()
			c.blocks = append(c.blocks, c.region)
			if op == opLoop && r.fuel {
				c.region = len(c.edits)
				r.note(edit{kind: putCharge, at: r.at, to: r.at})
			}
		default:
			c.edits[c.region].n++
			r.instruction(op, at)
		}
	}
}

// expression reads a constant expression (5.4.9) and copies it with the indexes of functions shifted.
func (r *rewriter) expression() {
	r.code.edits = r.code.edits[:0]
	for r.err == nil {
		switch op := r.byte("a constant expression"); op {
		case opEnd:
			return
		case opI32Const, opI64Const, opF32Const, opF64Const, opGlobalGet, opRefNull:
			r.instruction(op, r.at)
		case opRefFunc:
			r.shiftIndex()
		case opPrefixFD:
			if n := r.u32("a constant expression"); n != fdConst {
				r.failf("the instruction 0xfd %d is not constant; it ends", n)
			}
			r.skip(16, "a constant expression")
		default:
			r.failf("the instruction 0x%02x is not constant; it ends", op)
		}
	}
}
