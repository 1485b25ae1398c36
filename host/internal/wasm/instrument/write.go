package instrument

import (
	"cmp"

	"github.com/wfhost/wfhost/host/internal/wasm"
)

// flush copies what was read and not yet written, up to a byte of the module.
func (r *rewriter) flush(to int) {
	r.out = append(r.out, r.Module[r.mark:to]...)
	r.mark = to
}

// shiftIndex reads the index of a function and writes the new one.
func (r *rewriter) shiftIndex() {
	at := r.At
	i := r.Index("function", r.functions())
	if n := r.shift(i); n != i {
		r.flush(at)
		r.out = wasm.AppendU32(r.out, n)
		r.mark = r.At
	}
}

// size inserts the number of bytes from start before them.
func (r *rewriter) size(start int) {
	n := len(r.out) - start
	r.out = wasm.AppendU32(r.out, uint32(n))
	head := len(r.out) - start - n
	var size [5]byte
	copy(size[:], r.out[start+n:])
	copy(r.out[start+head:], r.out[start:start+n])
	copy(r.out[start:], size[:head])
}

// apply writes the rest of the body, starting at a byte, with its edits.
func (r *rewriter) apply(from int, of signature) {
	r.mark = from
	r.code.result = of.result
	if r.fuel {
		for i, e := range r.code.edits {
			r.flush(e.at)
			r.put(i)
			r.mark = e.to
		}
	}
	r.flush(r.End)
}

// put writes an edit. Inserted code leaves the stack unchanged.
func (r *rewriter) put(i int) {
	e := r.code.edits[i]
	switch e.kind {
	case putNothing:
	case putIndex:
		r.out = wasm.AppendU32(r.out, uint32(e.n))
	case putLabel:
		r.out = wasm.AppendU32(r.out, uint32(e.n)+r.code.deeper(e.target))
	case putEntry:
		r.enterFunction(e)
	case putExit:
		if r.code.checks.last {
			r.out = append(r.out, opEnd)
			r.checkFuel()
		}
	case putReturn:
		if !r.code.checks.last {
			r.out = append(r.out, opReturn)
			break
		}
		r.out = wasm.AppendU32(append(r.out, opBr), uint32(e.n)+r.code.deeper(e.target))
	case putLoopHead:
		r.spend(r.cost(e))
		r.checkFuel()
	case putRegion:
		r.payRegion(i)
	case putCharge:
		r.spend(e.n)
		r.checkFuel()
	case putCanonical:
		r.out = r.code.nans.Canonical(r.out, e.nan, r.code.locals+r.code.scratch)
	case putMove:
		r.scratch(opLocalTee, 0)
		r.payScratch(e.n)
	case putTee:
		r.scratch(opLocalTee, 0)
	case putGrown:
		r.scratch(opLocalTee, 1)
		r.out = append(r.out, opI32Const, 0x7f, opI32Ne, opIf, blockEmpty)
		r.payScratch(e.n)
		r.out = append(r.out, opElse)
		r.spend(deniedCost)
		r.checkFuel()
		r.ask() // with fuel left: that tells the host
		r.out = append(r.out, opEnd)
		r.scratch(opLocalGet, 1)
	case putWrapper:
		r.blockLike(opLoop, i)
		r.checkFuel()
	case putWrapped:
		r.loopHead(i, func() { r.counter(opGlobalGet) })
		r.spend(r.cost(e))
	case putCached:
		r.wrap(i)
	case putCachedHead:
		r.loopHead(i, func() { r.cache(opLocalGet) })
		r.payCached(r.cost(e))
	case putClose:
		r.out = append(r.out, opElse, opBr, 2, opEnd, opEnd) // the last opEnd ends the loop
		r.code.wrapped = r.code.wrapped[:len(r.code.wrapped)-1]
	}
}

// cost returns the cost of the region that an edit pays for.
func (r *rewriter) cost(e edit) int64 { return r.code.regions.Regions[e.n].Cost }

// enterFunction pays for the entry of a function.
func (r *rewriter) enterFunction(e edit) {
	r.spend(r.cost(e))
	if r.code.checks.first {
		r.checkFuel()
	}
	if r.code.checks.last { // the block takes over the function's label; the check comes after the block
		r.out = append(r.out, opBlock, cmp.Or(r.code.result, blockEmpty))
	}
}

// payRegion pays for a region within a function. In some wrapped loops the counter is in a local.
func (r *rewriter) payRegion(i int) {
	of := &r.code.regions.Regions[r.code.edits[i].n]
	switch {
	case !of.Charged:
	case i < r.code.until:
		r.payCached(of.Cost)
	default:
		if r.spend(of.Cost); r.code.checks.along {
			r.checkFuel()
		}
	}
}

// deeper returns how much a label grows: two for each wrapped loop that it leaves, one for a wrapped loop that it
// targets.
func (c *body) deeper(target int) (n uint32) {
	for i := len(c.wrapped) - 1; i >= 0 && c.wrapped[i] >= target; i-- {
		n += 2
		if c.wrapped[i] == target {
			n--
		}
	}
	return n
}

// spend subtracts ticks from the counter.
func (r *rewriter) spend(ticks int64) {
	r.counter(opGlobalGet)
	r.constant(ticks)
	r.out = append(r.out, opI64Sub)
	r.counter(opGlobalSet)
}

// payScratch charges for the number in the first scratch local, shifted by scale, and checks the fuel.
func (r *rewriter) payScratch(scale int64) {
	r.counter(opGlobalGet)
	r.scratch(opLocalGet, 0)
	r.out = append(r.out, opI64ExtendU)
	if scale < 0 {
		r.constant(-scale)
		r.out = append(r.out, opI64ShrU)
	} else {
		r.constant(scale)
		r.out = append(r.out, opI64Shl)
	}
	r.out = append(r.out, opI64Sub)
	r.counter(opGlobalSet)
	r.checkFuel()
}

// checkFuel checks the fuel, and asks for more if the counter is negative.
func (r *rewriter) checkFuel() {
	r.counter(opGlobalGet)
	r.constant(0)
	r.out = append(r.out, opI64LtS, opIf, blockEmpty)
	r.ask()
	r.out = append(r.out, opEnd)
}

// wrap writes what precedes a loop that is the only code to change the counter:
//
//	local = counter                      unless an outer loop has done it
//	loop
//	  if local < 0 {
//	    refuel()
//	    local = counter                  must be 0 or more now
//	  }
//	  loop                               the original loop
//	    if local >= 0 { counter = local = local - cost; body } else { continue the outer loop }
//
// Engines keep values that are needed after a call in memory, all the time; with a call inside, the loop would load
// and store its variables in each iteration. This form has the call outside, and falls through on the way on. The
// tightest loop then takes 1.0 to 1.4 times as long as unmetered, depending on its position in the engine's code;
// with the call inside, 2.3 times (BenchmarkForms). A loop with calls has the same form, without the local.
func (r *rewriter) wrap(i int) {
	e := r.code.edits[i]
	if i >= r.code.until {
		r.code.until = int(e.n)
		r.counter(opGlobalGet)
		r.cache(opLocalSet)
	}
	r.blockLike(opLoop, i)
	r.cache(opLocalGet)
	r.constant(0)
	r.out = append(r.out, opI64LtS, opIf, blockEmpty)
	r.ask()
	r.counter(opGlobalGet)
	r.cache(opLocalTee)
	r.constant(0)
	r.out = append(r.out, opI64LtS, opIf, blockEmpty, opUnreachable, opEnd, opEnd)
}

// loopHead writes the beginning of the body of a wrapped loop. left writes the instruction that reads the counter.
func (r *rewriter) loopHead(i int, left func()) {
	left()
	r.constant(0)
	r.out = append(r.out, opI64GeS)
	r.blockLike(opIf, i-1)
	r.code.wrapped = append(r.code.wrapped, r.code.edits[i].target)
}

// payCached subtracts ticks from the counter and its copy in the local.
func (r *rewriter) payCached(ticks int64) {
	r.cache(opLocalGet)
	r.constant(ticks)
	r.out = append(r.out, opI64Sub)
	r.cache(opLocalTee)
	r.counter(opGlobalSet)
}

// blockLike begins a block of the same type as the loop that follows the edit before.
func (r *rewriter) blockLike(op byte, before int) {
	edits := r.code.edits
	r.out = append(append(r.out, op), r.Module[edits[before].at+1:edits[before+1].at]...)
}

// ask writes a call for fuel.
func (r *rewriter) ask() { r.out = wasm.AppendU32(append(r.out, opCall), r.refuel()) }

func (r *rewriter) constant(v int64) { r.out = wasm.AppendS64(append(r.out, opI64Const), v) }

// counter writes an instruction with the index of the counter of fuel, the last global.
func (r *rewriter) counter(op byte) { r.out = wasm.AppendU32(append(r.out, op), uint32(r.globals)) }

// scratch writes an instruction with the index of an extra local, which come after the function's own.
func (r *rewriter) scratch(op byte, i int) {
	r.out = wasm.AppendU32(append(r.out, op), uint32(r.code.locals+i))
}

// cache writes an instruction with the index of the local that holds the counter in some loops.
func (r *rewriter) cache(op byte) { r.scratch(op, r.code.scratch+r.code.nans.Len()) }

// putLocals writes the declarations of the function's locals and of the extra ones.
func (r *rewriter) putLocals(groups int, declared []byte) {
	c := &r.code
	if c.scratch > 0 {
		groups++
	}
	if c.cached {
		groups++
	}
	groups += c.nans.Len()
	r.out = append(wasm.AppendU32(r.out, uint32(groups)), declared...)
	if c.scratch > 0 {
		r.out = append(r.out, byte(c.scratch), typeI32)
	}
	r.out = c.nans.Append(r.out)
	if c.cached {
		r.out = append(r.out, 1, typeI64)
	}
}
