// The body of a function is divided into regions, each executed as a whole or not at all. A region is charged in
// advance, where it begins. So a function pays for what it executes, not for its whole text.
//
// Control flow in WebAssembly is structured (WebAssembly Core Specification 2.0, 4.4.8): code after a construct is
// executed if the code before it is, unless a branch within leads further out. So a region may have several
// stretches, and most functions have few regions: the entry, the iterations of loops, and conditional code. Cheap
// regions are folded into the region from which they are reached, so they are charged even if they are not executed:
// a charge takes about as long as a few instructions.

package instrument

import "math"

// Kind is the kind of a construct.
type Kind byte

// Constructs.
const (
	Block Kind = iota
	Loop
	If
)

// None stands for no region.
const None = -1

// Bounds of folded regions, chosen by measurement: with higher bounds, loops of interpreters are charged one and a
// half times what they take; with lower bounds, code is larger and slower.
const (
	// foldCost is the maximum cost of a folded region, in ticks.
	foldCost = Ticks / 2
	// foldCosts is the maximum cost of all regions folded into one, in ticks.
	foldCosts = 3 * Ticks / 4
)

// Region is a region of a function.
type Region struct {
	Cost int64 // in ticks, including folded regions
	// Charged says that the region is charged where it begins. Fold sets it: the region was not folded and has a
	// cost. Entries of functions and iterations of loops are always charged.
	Charged bool

	from   int   // the region from which it is reached, which is executed at least as often; None for an entry or iteration
	folded int64 // ticks of the regions folded into it
	alone  bool  // not to be folded: it is executed less often than the region before, such as code after a loop
	traps  bool  // it ends the guest, so it is executed at most once
}

// Map holds the regions of a function, as far as it has been read. Call Reset before the first use.
type Map struct {
	Regions []Region      // the first one is the entry
	blocks  []regionBlock // open blocks
	now     int           // the current region; None in unreachable code
}

type regionBlock struct {
	kind      Kind
	otherwise bool // it is an if, in its else
	before    int  // the region in which it begins
	loop      int  // the innermost loop, possibly itself, as an index of blocks; -1 without one
	low       int  // the outermost target of branches within that lead further out; -1 is the function's end
	joined    bool // its end can be reached from within
}

// Reset prepares the map for another function.
func (m *Map) Reset() {
	*m = Map{Regions: append(m.Regions[:0], Region{from: None}), blocks: m.blocks[:0]}
}

// Add adds the cost of an instruction to the current region.
func (m *Map) Add(ticks int64) {
	if m.now != None {
		m.Regions[m.now].Cost += ticks
	}
}

// Dead reports whether the current code is unreachable.
func (m *Map) Dead() bool { return m.now == None }

// begin begins a region that is reached from another one.
func (m *Map) begin(from int) int {
	m.now = len(m.Regions)
	m.Regions = append(m.Regions, Region{from: from})
	return m.now
}

// innermost returns the innermost open loop, as an index of blocks; -1 without one.
func (m *Map) innermost() int {
	if len(m.blocks) == 0 {
		return -1
	}
	return m.blocks[len(m.blocks)-1].loop
}

// Open begins a construct. It returns the region that begins there, or None; so do Else, End and BranchIf.
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

// Else begins the else of an if.
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
	case b.before == None, m.now == None && !b.joined && !skipped: // unreachable
		m.now = None
		return None
	case b.low >= i: // no branch leads further out
		m.now = b.before
		return None
	case !b.joined && !skipped: // only reached from above
		return None
	}
	return m.begin(b.before)
}

// leads records a branch to a label, and returns the target block as an index of blocks, -1 for the function's end.
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

// BranchIf handles a br_if to a label.
func (m *Map) BranchIf(label int) int {
	if m.now == None {
		return None
	}
	to := m.leads(label)
	next := m.begin(m.now)
	// After the back branch of a loop comes code that is executed once, after all iterations.
	m.Regions[next].alone = to >= 0 && m.blocks[to].kind == Loop
	return next
}

// Branch handles a br or br_table to labels. The label of the function itself returns.
func (m *Map) Branch(labels ...int) {
	for _, label := range labels {
		if m.now == None {
			return
		}
		if to := m.leads(label); len(labels) == 1 && to < m.innermost() { // the last iteration
			m.Regions[m.now].alone = true
		}
	}
	m.now = None
}

// Return handles a return.
func (m *Map) Return() { m.Branch(len(m.blocks)) }

// Trap handles an unreachable.
func (m *Map) Trap() {
	if m.now != None {
		m.Regions[m.now].traps = true
		m.now = None
	}
}

// Fold decides which regions are charged. It is called once the whole function has been read.
func (m *Map) Fold() { m.fold(foldCost, foldCosts) }

func (m *Map) fold(one, all int64) {
	for i := len(m.Regions) - 1; i >= 0; i-- { // later regions are reached from earlier ones
		r := &m.Regions[i]
		switch {
		case r.from == None:
			r.Cost, r.Charged = max(r.Cost, 1), true // an empty loop must cost something too, or it could never be stopped
		case r.traps, r.Cost == 0:
		case !r.alone && r.Cost <= one && m.Regions[r.from].folded+r.Cost <= all:
			m.Regions[r.from].Cost += r.Cost
			m.Regions[r.from].folded += r.Cost
		default:
			r.Charged = true
		}
	}
}

// Total returns the cost of all regions, in ticks. It must be called before Fold, since folded regions would count
// twice.
func (m *Map) Total() (ticks int64) {
	for i := range m.Regions {
		ticks += m.Regions[i].Cost
	}
	return ticks
}
