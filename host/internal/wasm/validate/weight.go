package validate

import (
	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/wasm"
)

// body counts what makes a function expensive to compile. A compiler has a basic block for each place where control
// flow divides or joins, and may have to merge every parameter and local there. For each branch it walks up the
// dominator tree, the places that control flow always passes before: that is a long way after many consecutive ifs,
// but not in the cases of a switch.
type body struct {
	locals     int64 // declared
	values     int64 // parameters and locals; a vector counts twice
	joins      int64 // places where control flow divides or joins, including those that metering adds
	loops      int64
	loopParams int64 // parameters of loops
	blockTypes int64 // parameters and results of blocks with a function type
	ways       int64 // estimated dominators, summed over all branches
	nans       int64 // instructions whose NaNs are made canonical by four more instructions; vectors count twice

	open  []block
	depth int64 // estimated dominators of the current instruction
	dead  bool  // the current instruction is unreachable
}

// block is an open block.
type block struct {
	op       byte
	dead     bool  // it begins in unreachable code
	targeted bool  // a branch leads to its end
	start    int64 // dominators of its beginning
	join     int64 // if targeted: dominators of the last place that all ways to its end share
}

// Joins that metering (package instrument) adds to instructions.
const (
	joinsOfFunction = 3 // fuel checks where it begins, and after a block where it ends
	joinsOfLoop     = 4 // an outer loop, and the fuel check
	joinsOfBulk     = 1
	joinsOfGrow     = 4 // including the check before it reports to the host
)

// weigh returns how many values n values of a type count for.
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

// join counts n consecutive places where control flow divides or joins.
func (b *body) join(n int64) {
	b.joins += n
	for ; n > 0 && !b.dead; n-- {
		b.depth++
		b.ways += b.depth
	}
}

// begin opens a block. t is its function type, or nil.
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

// otherwise begins the else of an if.
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

// computes counts an instruction that may compute a NaN, with a weight.
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
	if at+1 < len(b.open) { // code after the inner block can be reached without passing through it
		b.open[at].join = b.open[at+1].start
	}
}

// sums are totals over the functions of a module.
type sums struct{ values, loops, ways, nans int64 }

// add adds a function, and checks the limits of the function and of the module so far.
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
