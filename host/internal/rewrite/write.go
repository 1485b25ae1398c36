package rewrite

// flush copies what has been read and not been written, up to a byte of the module.
func (r *rewriter) flush(to int) {
	r.out = append(r.out, r.b[r.mark:to]...)
	r.mark = to
}

// shiftIndex reads the index of a function and writes what it has become.
func (r *rewriter) shiftIndex() {
	at := r.at
	i := r.index("function", r.functions())
	if n := r.shift(i); n != i {
		r.flush(at)
		r.out = appendU32(r.out, n)
		r.mark = r.at
	}
}

// size puts the number of bytes from start before them.
func (r *rewriter) size(start int) {
	n := len(r.out) - start
	r.out = appendU32(r.out, uint32(n))
	head := len(r.out) - start - n
	var size [5]byte
	copy(size[:], r.out[start+n:])
	copy(r.out[start+head:], r.out[start:start+n])
	copy(r.out[start:], size[:head])
}

// apply writes the rest of the body from a byte on, with its edits.
func (r *rewriter) apply(from int) {
	r.mark = from
	if r.fuel {
		for _, e := range r.code.edits {
			r.flush(e.at)
			r.put(e)
			r.mark = e.to
		}
	}
	r.flush(r.end)
}

// put writes an edit. What is inserted leaves the stack as it was.
func (r *rewriter) put(e edit) {
	switch e.kind {
	case putIndex:
		r.out = appendU32(r.out, uint32(e.n))
	case putCharge:
		r.counter(opGlobalGet)
		r.out = append(r.out, opI64Const)
		r.out = appendS64(r.out, max(e.n, 1))
		r.pay()
	case putMove:
		r.scratch(opLocalTee, 0)
		r.payScratch(e.n)
	case putTee:
		r.scratch(opLocalTee, 0)
	case putGrown:
		r.scratch(opLocalTee, 1)
		r.out = append(r.out, opI32Const, 0x7f, opI32Ne, opIf, blockEmpty)
		r.payScratch(e.n)
		r.out = append(r.out, opEnd)
		r.scratch(opLocalGet, 1)
	}
}

// payScratch pays for as many things as the first local of ours says, of which one or several make a unit.
func (r *rewriter) payScratch(scale int64) {
	r.counter(opGlobalGet)
	r.scratch(opLocalGet, 0)
	r.out = append(r.out, opI64ExtendU, opI64Const)
	if scale < 0 {
		r.out = append(appendS64(r.out, -scale), opI64ShrU)
	} else {
		r.out = append(appendS64(r.out, scale), opI64Shl)
	}
	r.pay()
}

// pay takes what is on the stack from the counter below it, and asks for fuel if there is none left. This sequence
// needs no local: engines keep the counter in a register from global.set to global.get.
func (r *rewriter) pay() {
	r.out = append(r.out, opI64Sub)
	r.counter(opGlobalSet)
	r.counter(opGlobalGet)
	r.out = append(r.out, opI64Const, 0, opI64LtS, opIf, blockEmpty, opCall)
	r.out = appendU32(r.out, r.refuel())
	r.out = append(r.out, opEnd)
}

// counter writes an instruction about the counter of fuel, the last global.
func (r *rewriter) counter(op byte) { r.out = appendU32(append(r.out, op), uint32(r.globals)) }

// scratch writes an instruction about one of our own locals, which stand behind the function's.
func (r *rewriter) scratch(op byte, i int) {
	r.out = appendU32(append(r.out, op), uint32(r.code.locals+i))
}
