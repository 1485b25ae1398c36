// The body of a function is divided into regions, which are executed whole or not at all. A region is paid for where it begins,
// in advance. So a function pays for what it executes, and not for what stands in it.
//
// Control flow in WebAssembly is structured (WebAssembly Core Specification 2.0, 4.4.8): code after a construct is executed with
// the code before it, unless something within leads further out. So a region has several stretches, and most functions have few
// regions: the entry, the turns of loops, and what is behind a condition. Those that cost little are folded into the region from
// which they are reached, whether they are executed or not, since a charge takes about as long as a few instructions.

package instrument

import "math"

// Kind is the kind of a construct.
type Kind byte

// The constructs.
const (
	Block Kind = iota
	Loop
	If
)

// None is no region.
const None = -1

// Bounds of what is paid for without being executed. They are measured: with more, loops of interpreters are charged half as
// much again as they take; with less, code grows, and takes longer.
const (
	// foldCost is what a region may cost, in ticks, that is folded into the one from which it is reached.
	foldCost = Ticks / 2
	// foldCosts is what may be folded into one region together.
	foldCosts = 3 * Ticks / 4
)

// Region is a region of a function.
type Region struct {
	Cost int64 // in ticks, with what was folded into it
	// Charged says that it is paid for where it begins, as of Fold: it was not folded, and costs something. Entries of functions
	// and turns of loops always are.
	Charged bool

	from   int   // the region from which it is reached, which is executed as often or more; None of an entry or a turn
	folded int64 // ticks of what was folded into it
	alone  bool  // not folded: it is executed less often than the one from which it is reached, such as behind a loop
	traps  bool  // it ends the guest, so that nobody can execute it twice
}

// Map is the regions of a function, as far as it has been read. The zero value is not ready: see Reset.
type Map struct {
	Regions []Region      // the first one is the entry
	blocks  []regionBlock // that are open
	now     int           // the region of what is being read; None if it is never executed
}

type regionBlock struct {
	kind      Kind
	otherwise bool // it is an if in its else
	before    int  // the region where it begins
	loop      int  // the innermost loop, itself included, as an index of blocks; -1 without one
	low       int  // the outermost block to which something within leads, further out than itself; -1 is the function's end
	joined    bool // its end is reached from within
}

// Reset begins with another function.
func (m *Map) Reset() {
	*m = Map{Regions: append(m.Regions[:0], Region{from: None}), blocks: m.blocks[:0]}
}

// Add counts an instruction.
func (m *Map) Add(ticks int64) {
	if m.now != None {
		m.Regions[m.now].Cost += ticks
	}
}

// Dead reports whether what is being read is never executed.
func (m *Map) Dead() bool { return m.now == None }

// begin begins a region.
func (m *Map) begin(from int) int {
	m.now = len(m.Regions)
	m.Regions = append(m.Regions, Region{from: from})
	return m.now
}

// innermost returns the innermost loop that is open, as an index of blocks; -1 without one.
func (m *Map) innermost() int {
	if len(m.blocks) == 0 {
		return -1
	}
	return m.blocks[len(m.blocks)-1].loop
}

// Open begins a construct. Like others, it returns the region that begins there, or None.
func (m *Map) Open(kind Kind) int {
	b := regionBlock{kind: kind, before: m.now, loop: m.innermost(), low: math.MaxInt}
	if kind == Loop {
		b.loop = len(m.blocks)
	}
	m.blocks = append(m.blocks, b)
	switch {
	case m.now == None || kind == Block:
		return None
	case kind == Loop:
		return m.begin(None)
	}
	return m.begin(m.now)
}

// Else begins the other branch of an if.
func (m *Map) Else() int {
	if len(m.blocks) == 0 {
		return None
	}
	b := &m.blocks[len(m.blocks)-1]
	b.otherwise = true
	b.joined = b.joined || m.now != None
	m.now = b.before
	if m.now == None {
		return None
	}
	return m.begin(b.before)
}

// End ends a construct.
func (m *Map) End() int {
	i := len(m.blocks) - 1
	b := m.blocks[i]
	m.blocks = m.blocks[:i]
	if i > 0 && b.low < i {
		m.blocks[i-1].low = min(m.blocks[i-1].low, b.low)
	}
	skipped := b.kind == If && !b.otherwise
	switch {
	case b.before == None, m.now == None && !b.joined && !skipped: // nobody comes here
		m.now = None
		return None
	case b.low >= i: // nobody has gone elsewhere
		m.now = b.before
		return None
	case !b.joined && !skipped: // who comes here comes from above
		return None
	}
	return m.begin(b.before)
}

// leads notes a way to a label, and returns the block there as an index of blocks, -1 for the function's end.
func (m *Map) leads(label int) int {
	last := len(m.blocks) - 1
	to := max(last-label, -1)
	if to >= 0 && m.blocks[to].kind != Loop {
		m.blocks[to].joined = true
	}
	if to < last {
		m.blocks[last].low = min(m.blocks[last].low, to)
	}
	return to
}

// BranchIf is a br_if to a label.
func (m *Map) BranchIf(label int) int {
	if m.now == None {
		return None
	}
	to := m.leads(label)
	next := m.begin(m.now)
	// Behind the way back of a loop is what is executed once, after all turns.
	m.Regions[next].alone = to >= 0 && m.blocks[to].kind == Loop
	return next
}

// Branch is a br, or a br_table, to labels. Return is one to the function's end.
func (m *Map) Branch(labels ...int) {
	for _, label := range labels {
		if m.now == None {
			return
		}
		if to := m.leads(label); len(labels) == 1 && to < m.innermost() { // the last turn
			m.Regions[m.now].alone = true
		}
	}
	m.now = None
}

// Return is a return.
func (m *Map) Return() { m.Branch(len(m.blocks)) }

// Trap is an unreachable.
func (m *Map) Trap() {
	if m.now != None {
		m.Regions[m.now].traps = true
		m.now = None
	}
}

// Fold decides which regions are charged, when all of the function has been read.
func (m *Map) Fold() { m.fold(foldCost, foldCosts) }

func (m *Map) fold(one, all int64) {
	for i := len(m.Regions) - 1; i >= 0; i-- { // from later ones to those from which they are reached
		r := &m.Regions[i]
		switch {
		case r.from == None:
			r.Cost, r.Charged = max(r.Cost, 1), true // an empty loop costs something too, or nobody could stop it
		case r.traps, r.Cost == 0:
		case !r.alone && r.Cost <= one && m.Regions[r.from].folded+r.Cost <= all:
			m.Regions[r.from].Cost += r.Cost
			m.Regions[r.from].folded += r.Cost
		default:
			r.Charged = true
		}
	}
}

// Total returns what all regions cost together, in ticks. It is called before Fold, or folded regions count twice.
func (m *Map) Total() (ticks int64) {
	for i := range m.Regions {
		ticks += m.Regions[i].Cost
	}
	return ticks
}
