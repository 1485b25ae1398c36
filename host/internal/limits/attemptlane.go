package limits

import (
	"slices"

	"github.com/wfhost/wfhost/store"
)

// attemptLane is the queue of the attempts with the same keys. Its runs take turns, one attempt each.
type attemptLane struct {
	name     string
	counters []*attemptWindow // of the rules with a key
	loading  bool             // its counters are being read
	ring     bool             // it is in the ring of its queue
	blocked  *attemptWindow   // the counter that it waits for
	runs     []*attemptLine   // in the order of their turns
	of       map[store.RunKey]*attemptLine
	waiting  int
}

// attemptLine is the attempts of one run in order of arrival.
type attemptLine struct {
	run     store.RunKey
	entries []*attemptEntry
}

// put adds an attempt at the end or at the front of its run's line.
func (l *attemptLane) put(e *attemptEntry, front bool) {
	x := l.of[e.run]
	if x == nil {
		x = &attemptLine{run: e.run}
		l.of[e.run] = x
		if front {
			l.runs = slices.Insert(l.runs, 0, x)
		} else {
			l.runs = append(l.runs, x)
		}
	}
	if front {
		x.entries = slices.Insert(x.entries, 0, e)
	} else {
		x.entries = append(x.entries, e)
	}
	e.lane = l
	l.waiting++
}

// next removes and returns the attempt whose turn it is.
func (l *attemptLane) next() *attemptEntry {
	x := l.runs[0]
	e := x.entries[0]
	x.entries = x.entries[1:]
	l.runs = l.runs[1:]
	if len(x.entries) > 0 {
		l.runs = append(l.runs, x)
	} else {
		delete(l.of, x.run)
	}
	e.lane = nil
	l.waiting--
	return e
}

// remove removes an attempt that no longer waits.
func (l *attemptLane) remove(e *attemptEntry) {
	x := l.of[e.run]
	x.entries = slices.DeleteFunc(x.entries, func(o *attemptEntry) bool { return o == e })
	if len(x.entries) == 0 {
		delete(l.of, e.run)
		l.runs = slices.DeleteFunc(l.runs, func(o *attemptLine) bool { return o == x })
	}
	e.lane = nil
	l.waiting--
}

// all returns the waiting attempts in the order of their turns.
func (l *attemptLane) all() (list []*attemptEntry) {
	for n := 0; len(list) < l.waiting; n++ {
		for _, x := range l.runs {
			if n < len(x.entries) {
				list = append(list, x.entries[n])
			}
		}
	}
	return list
}

// full returns a counter that blocks the lane now, nil if there is none.
func (l *attemptLane) full(now int64) *attemptWindow {
	for _, c := range l.counters {
		if c.full(now) {
			return c
		}
	}
	return nil
}

// keysOf returns the keys of an input for the rules that have one, in the order of the rules.
func keysOf(rules Rules, input []byte) (keys []string) {
	of := rules.Of(input, 0)
	for i := range rules {
		if rules[i].Per != "" {
			keys = append(keys, of.Keys[rules[i].Per])
		}
	}
	return keys
}
