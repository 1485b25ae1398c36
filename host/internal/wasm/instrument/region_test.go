package instrument

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// step is an instruction of a function without operands; branches are decided at random when they are executed.
type step struct {
	op     string // block, loop, if, else, end, br, br_if, br_table, return, unreachable, or one that only has a cost
	labels []int
	cost   int64
	begins []int // regions that begin before it, or after it if it is a branch
}

// read passes steps to a Map, and records which regions begin after which step.
func read(m *Map, steps []step) {
	m.Reset()
	for i := range steps {
		s := &steps[i]
		m.Add(s.cost)
		of := None
		switch s.op {
		case "block":
			of = m.Open(Block)
		case "loop":
			of = m.Open(Loop)
		case "if":
			of = m.Open(If)
		case "else":
			of = m.Else()
		case "end":
			of = m.End()
		case "br", "br_table":
			m.Branch(s.labels...)
		case "br_if":
			of = m.BranchIf(s.labels[0])
		case "return":
			m.Return()
		case "unreachable":
			m.Trap()
		}
		s.begins = nil
		if of != None {
			s.begins = []int{of}
		}
	}
}

// program generates random steps: nested blocks, and branches out of all of them.
type program struct {
	*rand.Rand
	steps []step
	depth int
}

func (p *program) add(op string, labels ...int) {
	p.steps = append(p.steps, step{op: op, labels: labels, cost: int64(p.IntN(3) * p.IntN(40))})
}

func (p *program) write(length int) {
	for range length {
		switch p.depth++; p.IntN(12) {
		case 0, 1:
			p.add("block")
			p.write(length / 2)
			p.add("end")
		case 2:
			p.add("loop")
			p.write(length / 2)
			p.add("end")
		case 3:
			p.add("if")
			p.write(length / 2)
			p.add("end")
		case 4:
			p.add("if")
			p.write(length / 2)
			p.add("else")
			p.write(length / 2)
			p.add("end")
		case 5, 6:
			p.add("br_if", p.IntN(p.depth))
		case 7:
			p.add("br", p.IntN(p.depth))
		case 8:
			p.add("br_table", p.IntN(p.depth), p.IntN(p.depth), p.IntN(p.depth))
		case 9:
			p.add("return")
		default:
			p.add("add")
		}
		p.depth--
	}
}

// ends returns the indices of the end of the construct that begins at a step, and of its else, or again of its end.
func ends(steps []step, at int) (end, otherwise int) {
	depth := 0
	otherwise = -1
	for i := at + 1; ; i++ {
		switch steps[i].op {
		case "block", "loop", "if":
			depth++
		case "else":
			if depth == 0 {
				otherwise = i
			}
		case "end":
			if depth == 0 {
				if otherwise < 0 {
					otherwise = i
				}
				return i, otherwise
			}
			depth--
		}
	}
}

// run executes steps with random branches. It returns the executed cost, the charged cost, and the number of regions
// entered.
func run(m *Map, steps []step, chance *rand.Rand) (executed, paid, entered int64) {
	pay := func(of []int) {
		for _, i := range of {
			entered++
			if m.Regions[i].Charged {
				paid += m.Regions[i].Cost
			}
		}
	}
	pay([]int{0})
	var open []int // where they begin
	for at, turns := 0, 0; at < len(steps) && turns < 10_000; turns++ {
		s := &steps[at]
		executed += s.cost
		jump := func(label int) bool { // reports whether it leaves the function
			if label >= len(open) {
				return true
			}
			target := open[len(open)-1-label]
			open = open[:len(open)-label]
			if steps[target].op == "loop" {
				pay(steps[target].begins)
				at = target + 1
				return false
			}
			open = open[:len(open)-1]
			at, _ = ends(steps, target)
			pay(steps[at].begins)
			at++
			return false
		}
		left := false
		switch s.op {
		case "block", "loop":
			open = append(open, at)
			pay(s.begins)
			at++
		case "if":
			end, otherwise := ends(steps, at)
			switch {
			case chance.IntN(2) == 0:
				open = append(open, at)
				pay(s.begins)
				at++
			case otherwise < end:
				open = append(open, at)
				executed += steps[otherwise].cost // which nobody counts otherwise
				pay(steps[otherwise].begins)
				at = otherwise + 1
			default:
				pay(steps[end].begins)
				at = end + 1
			}
		case "else": // of the branch before it
			at, _ = ends(steps, at)
			executed -= s.cost
			open = open[:len(open)-1]
			pay(steps[at].begins)
			at++
		case "end":
			open = open[:len(open)-1]
			pay(s.begins)
			at++
		case "br", "br_table":
			left = jump(s.labels[chance.IntN(len(s.labels))])
		case "br_if":
			if chance.IntN(2) == 0 {
				left = jump(s.labels[0])
			} else {
				pay(s.begins)
				at++
			}
		case "return":
			left = true
		default:
			at++
		}
		if left {
			break
		}
	}
	return executed, paid, entered
}

func text(steps []step) string {
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprint(&b, s.op, s.labels, " ", s.cost, s.begins, "\n")
	}
	return b.String()
}

// TestPaysForWhatIsExecuted executes random functions. Without folding, the charged cost is the executed cost. With
// folding, it is no less, and exceeds it by at most the bound for each region.
func TestPaysForWhatIsExecuted(t *testing.T) {
	var m Map
	var all, more int64
	for seed := range uint64(20_000) {
		p := &program{Rand: rand.New(rand.NewPCG(seed, 1))}
		p.depth = 1
		p.write(8)
		for i, s := range p.steps {
			if s.op == "else" || s.op == "end" || s.op == "loop" {
				p.steps[i].cost = 0 // an end is not executed when it is the target of a branch; a loop costs at least 1
			}
		}
		chance := rand.NewPCG(seed, 2)
		for _, folded := range []bool{false, true} {
			read(&m, p.steps)
			if folded {
				m.Fold()
			} else {
				m.fold(0, 0)
			}
			*chance = *rand.NewPCG(seed, 2)
			executed, paid, entered := run(&m, p.steps, rand.New(chance))
			over := paid - executed
			bound := entered // empty turns and entries cost 1
			if folded {
				bound += entered * foldCosts
				all, more = all+executed, more+over
			}
			if endless := entered > 9000; !endless && (over < 0 || over > bound) {
				t.Fatalf("seed %d, folded %v: executed %d, paid %d in %d regions\n%s", seed, folded, executed, paid, entered, text(p.steps))
			}
		}
	}
	t.Logf("executed %d, paid %d more", all, more)
}

// TestRegions divides functions.
func TestRegions(t *testing.T) {
	long := int64(2 * foldCost)
	way := func(op string, labels ...int) step { return step{op: op, labels: labels, cost: 1} }
	work := step{op: "add", cost: long}
	for name, c := range map[string]struct {
		steps []step
		want  []int64 // costs of charged regions
	}{
		"nothing":          {nil, []int64{1}},
		"straight":         {[]step{work, work}, []int64{2 * long}},
		"if":               {[]step{way("if"), work, {op: "end"}, work}, []int64{1 + long, long}},
		"if, short":        {[]step{way("if"), way("add"), {op: "end"}, work}, []int64{2 + long}},
		"if, else":         {[]step{way("if"), work, {op: "else"}, work, {op: "end"}, work}, []int64{1 + long, long, long}},
		"a way out":        {[]step{way("block"), way("br_if", 0), work, {op: "end"}, work}, []int64{2 + long, long}},
		"a way further":    {[]step{way("block"), way("br_if", 1), work, {op: "end"}, work}, []int64{2, 2 * long}},
		"a loop":           {[]step{way("loop"), work, way("br_if", 0), {op: "end"}, work}, []int64{1 + long, 1 + long}},
		"behind its turns": {[]step{way("loop"), way("br_if", 0), way("add"), {op: "end"}}, []int64{1, 1, 1}},
		"its last turn":    {[]step{way("block"), way("loop"), way("if"), way("add"), way("br", 2), {op: "end"}, way("br", 0), {op: "end"}, {op: "end"}}, []int64{2, 2, 2}},
		"an empty loop":    {[]step{{op: "loop"}, {op: "br", labels: []int{0}}, {op: "end"}}, []int64{1, 1}},
		"a trap":           {[]step{way("if"), work, way("unreachable"), {op: "end"}, work}, []int64{1 + long}},
		"never":            {[]step{way("return"), work, way("block"), way("loop"), work, {op: "end"}, {op: "end"}, way("if"), {op: "else"}, {op: "end"}, work}, []int64{1}},
		"cases": {[]step{way("block"), way("block"), way("br_table", 0, 1), {op: "end"}, work, way("br", 0), {op: "end"}, work},
			[]int64{3 + long, long + 1}},
		"many short ones": {slices.Repeat([]step{way("if"), {op: "add", cost: foldCost / 2}, {op: "end"}}, 4),
			[]int64{4 + 3*foldCost/2, foldCost / 2}},
	} {
		var m Map
		read(&m, c.steps)
		m.Fold()
		var got []int64
		for _, r := range m.Regions {
			if r.Charged {
				got = append(got, r.Cost)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestEverythingCosts compares classes: an instruction that produces machine code has a cost, and a call costs more
// than an addition.
func TestEverythingCosts(t *testing.T) {
	for class, cost := range regionCosts {
		if (cost == 0) != (class == int(free)) {
			t.Errorf("class %d costs %d", class, cost)
		}
	}
	for _, c := range []struct {
		op   byte
		want class
	}{{0x00, jump}, {0x02, free}, {0x0b, free}, {0x0d, branch}, {0x0e, table}, {0x10, call}, {0x11, indirect}, {0x1b, number}, {0x20, free},
		{0x21, move}, {0x22, move}, {0x24, global}, {0x28, regionLoad}, {0x35, regionLoad}, {0x36, store}, {0x3e, store}, {0x40, grow}, {0x41, free},
		{0x45, number}, {0x5b, float}, {0x66, float}, {0x67, number}, {0x6c, product}, {0x6d, divide}, {0x70, divide}, {0x71, number},
		{0x7e, product}, {0x82, divide}, {0x8a, number}, {0x8b, float}, {0x91, root}, {0x95, root}, {0x9f, root}, {0xa3, root}, {0xa6, float},
		{0xa7, number}, {0xa8, float}, {0xac, number}, {0xb7, float}, {0xbc, number}, {0xc4, number}, {0xd0, free}, {0xd2, number}} {
		if got := Cost(c.op); got != regionCosts[c.want] {
			t.Errorf("%#x costs %d, want %d", c.op, got, regionCosts[c.want])
		}
	}
	for op, want := range map[uint32]class{0: float, 7: float, 8: bulk, 9: number, 11: bulk, 13: number, 14: bulk, 15: grow, 16: number, 17: bulk} {
		if got := CostFC(op); got != regionCosts[want] {
			t.Errorf("0xfc %d costs %d, want %d", op, got, regionCosts[want])
		}
	}
	for op, want := range map[uint32]class{0: regionLoad, 10: regionLoad, 11: store, 12: move, 13: vector, 84: regionLoad, 87: regionLoad, 88: store, 91: store, 92: regionLoad,
		93: regionLoad, 94: vector, 255: vector} {
		if got := CostFD(op); got != regionCosts[want] {
			t.Errorf("0xfd %d costs %d, want %d", op, got, regionCosts[want])
		}
	}
}
