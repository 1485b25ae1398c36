package validate

import (
	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/wasm"
)

// body counts what makes a function dear to compile. A compiler has a block of its own for each place where control flow
// divides or joins. It may have to merge every parameter and local there. And for each branch it walks up the tree of
// dominators, the places that are always passed before: many ifs in a row are a long way, the cases of a switch are not.
type body struct {
	locals     int64 // declared
	values     int64 // parameters and locals; a vector is two
	joins      int64 // places where control flow divides or joins, in the module as it is compiled: metering adds some
	loops      int64
	loopParams int64 // that loops take from the stack
	blockTypes int64 // parameters and results of blocks that have a type of functions
	ways       int64 // dominators, summed over all branches, about
	nans       int64 // instructions whose NaNs are made canonical, which takes four more; those of vectors are two

	open  []block
	depth int64 // dominators of what is being read, about
	dead  bool  // what is being read is never executed
}

// block is a block that is open.
type block struct {
	op       byte
	dead     bool  // it is in dead code
	targeted bool  // something branches to its end
	start    int64 // dominators where it begins
	join     int64 // if targeted: where the ways to its end have last been one
}

// What metering adds to instructions (package instrument).
const (
	joinsOfFunction = 3 // it asks for fuel where it begins, and behind a block where it ends
	joinsOfLoop     = 4 // a loop around it, and what asks for fuel
	joinsOfBulk     = 1
	joinsOfGrow     = 4 // one of which is the look before the host is told
)

// weigh returns how many values some of a type are for the compiler.
func weigh(t abi.Type, n int64) int64 {
	if t == typeV128 {
		return 2 * n
	}
	return n
}

func weighAll(types []abi.Type) (n int64) {
	for _, t := range types {
		n += weigh(t, 1)
	}
	return n
}

// join counts places after each other where control flow divides or joins.
func (b *body) join(n int64) {
	b.joins += n
	for ; n > 0 && !b.dead; n-- {
		b.depth++
		b.ways += b.depth
	}
}

// begin opens a block, of a type of functions or none.
func (b *body) begin(op byte, t *abi.Signature) {
	b.join(1)
	if op == opLoop {
		b.loops++
		b.join(joinsOfLoop)
	}
	if t != nil {
		params := weighAll(t.Params)
		b.blockTypes += params + weighAll(t.Results)
		if op == opLoop {
			b.loopParams += params
		}
	}
	b.open = append(b.open, block{op: op, dead: b.dead, start: b.depth})
}

// otherwise begins the other branch of an if.
func (b *body) otherwise() {
	if n := len(b.open); n > 0 {
		b.depth, b.dead = b.open[n-1].start, b.open[n-1].dead
	}
}

// end closes a block.
func (b *body) end() {
	if len(b.open) == 0 {
		return
	}
	of := b.open[len(b.open)-1]
	b.open = b.open[:len(b.open)-1]
	switch {
	case of.dead:
		b.dead = true
	case of.op == opIf:
		b.depth, b.dead = of.start+1, false
	case of.op == opBlock && of.targeted:
		if b.dead || of.join < b.depth {
			b.depth = of.join
		}
		b.depth++
		b.dead = false
	}
}

// computes counts an instruction that may compute a NaN, weight times.
func (b *body) computes(k wasm.Kind, weight int64) {
	if k != wasm.None {
		b.nans += weight
	}
}

// branch counts a branch to a label.
func (b *body) branch(label uint32) {
	if b.dead {
		return
	}
	b.ways += b.depth
	at := len(b.open) - 1 - int(min(label, uint32(len(b.open))))
	if at < 0 || b.open[at].targeted {
		return
	}
	b.open[at].targeted, b.open[at].join = true, b.depth
	if at+1 < len(b.open) { // what is behind the block within can be reached without it
		b.open[at].join = b.open[at+1].start
	}
}

// sums are what the functions of a module have together.
type sums struct{ values, loops, ways, nans int64 }

// add checks a function, and the module as far as it has been read.
func (s *sums) add(r *reader, b *body) error {
	loops := b.loops * max(b.values+b.loopParams, 1)
	s.values += b.values
	s.loops += loops
	s.ways += b.ways
	s.nans += b.nans
	for _, c := range []struct {
		rule       string
		limit, got int64
	}{
		{"a function has too many branches", maxJoins, b.joins},
		{"a function has too many branches after each other", maxWays, b.ways},
		{"a function has too many branches times parameters and locals", maxJoinValues, b.joins * b.values},
		{"a function has too many loops times parameters and locals", maxLoopValues, loops},
		{"the blocks of a function have too many parameters and results", maxBlockTypes, b.blockTypes},
		{"a function has too many computations of numbers with NaNs", maxNaNs, b.nans},
		{"the module has too many computations of numbers with NaNs", maxModuleNaNs, s.nans},
		{"the module has too many parameters and locals", maxModuleValues, s.values},
		{"the module has too many loops times parameters and locals", maxModuleLoops, s.loops},
		{"the module has too many branches after each other", maxModuleWays, s.ways},
	} {
		if c.got > c.limit {
			return r.over(c.rule, c.limit, c.got)
		}
	}
	return nil
}
