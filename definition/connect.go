package definition

import (
	"slices"
	"strings"
)

// connect checks the references between steps, and marks auxiliary steps.
func (d *decoder) connect() {
	place := map[string]int{}
	d.d.byName = map[string]*Step{}
	for i, s := range d.d.Steps {
		s.Index = i
		if j, ok := place[s.Name]; ok {
			d.failf(s.at, "the name %q is that of the step at line %d, too", s.Name, d.d.Steps[j].at.Line)
			continue
		}
		if s.Name == End && !d.d.Graph {
			d.failf(s.at, "a step is not called %q, which says that a run ends", End)
		}
		place[s.Name], d.d.byName[s.Name] = i, s
	}
	for i, s := range d.d.Steps {
		for _, r := range s.refs {
			d.follow(place, i, r)
		}
	}
	for _, s := range d.d.Steps {
		d.after(s, place)
	}
	if len(d.faults) == 0 && d.d.Graph {
		d.acyclic(place)
	}
	if len(d.faults) == 0 {
		if d.d.Graph {
			d.closure()
		}
		d.order()
		d.known(d.results)
		d.signals()
	}
}

// follow checks that a reference names an existing step that may be referred to in this way.
func (d *decoder) follow(place map[string]int, from int, r reference) {
	name := r.at.Text
	to, ok := place[name]
	jump := r.field == "next" || r.field == "then" || r.field == "else"
	switch {
	case jump && name == End:
	case !ok:
		d.failf(r.at, "there is no step %q", name)
	case jump && to <= from:
		d.failf(r.at, "%q leads back to %q: a list of steps goes forward, and what repeats is a loop", r.field, name)
	case to == from:
		d.failf(r.at, "the step %q names itself", name)
	case !jump && len(d.d.Steps[to].After) > 0:
		d.failf(r.at, "%q is performed when it is needed: it has no after", name)
	case !jump && (d.d.Steps[to].OnFailure != "" || d.d.Steps[to].Compensate != ""):
		d.failf(r.at, "%q is performed when another step fails: it has no on_failure or compensate of its own", name)
	case !jump && d.d.Steps[to].Type == Condition:
		d.failf(r.at, "%q is a condition, which only a list has between its steps", name)
	case !jump:
		d.d.Steps[to].Auxiliary = true
	}
}

// after checks the nodes in a node's After.
func (d *decoder) after(s *Step, place map[string]int) {
	for _, name := range s.After {
		to, ok := place[name]
		switch {
		case !ok:
			d.failf(s.at, "after: there is no step %q", name)
		case d.d.Steps[to].Auxiliary:
			d.failf(s.at, "after: %q is performed only when another step fails, so that nothing comes after it", name)
		}
	}
	for _, r := range s.refs {
		if t, ok := place[r.at.Text]; ok && d.d.Steps[t].Auxiliary && (r.field == "next" || r.field == "then" || r.field == "else") {
			d.failf(r.at, "%q is performed only when another step fails", r.at.Text)
		}
	}
}

// acyclic reports nodes that wait for each other.
func (d *decoder) acyclic(place map[string]int) {
	const entered, left = 1, 2
	state := make([]int, len(d.d.Steps))
	var way []string
	var visit func(i int) bool
	visit = func(i int) bool {
		s := d.d.Steps[i]
		way = append(way, s.Name)
		switch state[i] {
		case left:
			way = way[:len(way)-1]
			return true
		case entered:
			begin := slices.Index(way, s.Name)
			d.failf(s.at, "the nodes wait for each other: %s", strings.Join(way[begin:], " after "))
			return false
		}
		state[i] = entered
		for _, name := range s.After {
			if !visit(place[name]) {
				return false
			}
		}
		state[i], way = left, way[:len(way)-1]
		return true
	}
	for i := range d.d.Steps {
		if !visit(i) {
			return
		}
	}
}

// order checks that the steps that an expression reads have ended before its own step begins.
func (d *decoder) order() {
	for _, s := range d.d.Steps {
		for _, r := range s.reads {
			for _, name := range r.steps {
				switch of := d.d.Step(name); {
				case of != nil && of.Auxiliary:
					d.unreadable(r, name)
				case of == nil:
					d.failf(r.at, "the expression reads the step %q, which does not exist", name)
				case !d.d.Before(of, s):
					d.failf(r.at, "the expression reads the step %q, which does not always come before %q", name, s.Name)
				}
			}
		}
	}
}

// known checks that the steps that expressions read exist and are not auxiliary.
func (d *decoder) known(list []reading) {
	for _, r := range list {
		for _, name := range r.steps {
			switch of := d.d.Step(name); {
			case of == nil:
				d.failf(r.at, "the expression reads the step %q, which does not exist", name)
			case of.Auxiliary:
				d.unreadable(r, name)
			}
		}
	}
}

// unreadable reports an expression that reads an auxiliary step.
func (d *decoder) unreadable(r reading, name string) {
	d.failf(r.at, "the expression reads the step %q, which is performed only when another step fails: what an "+
		"on_failure returns is the output of the step that it recovers", name)
}

// signals reports approvals that share a signal with another step: a decision about one step would count for the other.
func (d *decoder) signals() {
	first := map[string]*Step{}
	for _, s := range d.d.Steps {
		if s.Signal == "" {
			continue
		}
		t, ok := first[s.Signal]
		if ok && (s.Type == Approval || t.Type == Approval) {
			d.failf(s.at, "the signal %q is that of the step %q, too: a decision about one would count for the other", s.Signal, t.Name)
		}
		if !ok {
			first[s.Signal] = s
		}
	}
}

// closure computes the transitive predecessors of each node of a graph.
func (d *decoder) closure() {
	all := d.d.Steps
	d.d.before = make([][]uint64, len(all))
	var visit func(i int) []uint64
	visit = func(i int) []uint64 {
		if d.d.before[i] == nil {
			bits := make([]uint64, (len(all)+63)/64)
			for _, name := range all[i].After {
				to := d.d.byName[name].Index
				bits[to/64] |= 1 << (to % 64)
				for w, b := range visit(to) {
					bits[w] |= b
				}
			}
			d.d.before[i] = bits
		}
		return d.d.before[i]
	}
	for i := range all {
		visit(i)
	}
}

// Before reports whether step a has always ended when step of begins. In a list, a must come earlier in the text, though it
// may not have been performed. In a graph, a path must lead from a to of. If of is auxiliary, Before returns true.
func (d *Definition) Before(a, of *Step) bool {
	switch {
	case of.Auxiliary:
		return true
	case !d.Graph:
		return a.Index < of.Index
	}
	return d.before[of.Index][a.Index/64]&(1<<(a.Index%64)) != 0
}

// Computes reports whether a step has expressions.
func (s *Step) Computes() bool { return len(s.reads) > 0 }

// Reads returns the names of the steps that the expressions of a step read. any reports whether they may also read steps
// whose names are computed.
func (s *Step) Reads() (names []string, any bool) {
	for _, r := range s.reads {
		names, any = append(names, r.steps...), any || r.any
	}
	return names, any
}

func sortedKeys(m map[string]bool) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Last returns the names of the nodes without a following node, in the order of the text, except auxiliary nodes.
func (d *Definition) Last() (names []string) {
	followed := map[string]bool{}
	for _, s := range d.Steps {
		for _, name := range s.After {
			followed[name] = true
		}
	}
	for _, s := range d.Steps {
		if !s.Auxiliary && !followed[s.Name] {
			names = append(names, s.Name)
		}
	}
	return names
}
