package limits

import (
	"container/list"
	"slices"

	"github.com/wfhost/wfhost/store"
)

// attemptLane is the queue of the attempts with the same keys. Its runs take turns, one attempt each.
type attemptLane struct {
	name     string
	counters []*attemptWindow // of the rules with a key
	loading  bool             // its counters are being read
	ring     *list.Element    // its element in the ring of its queue, nil if it is not there
	blocked  *attemptWindow   // the counter that it waits for
	behind   *list.Element    // its element in blocked.blocked
	runs     list.List        // of *runAttempts, in the order of their turns
	of       map[store.RunKey]*runAttempts
	waiting  int
}

// runAttempts is the attempts of one run in order of arrival.
type runAttempts struct {
	run     store.RunKey
	at      *list.Element // in the lane
	entries []*attemptEntry
}

// put adds an attempt at the end or at the front of its run's attempts.
func (l *attemptLane) put(e *attemptEntry, front bool) {
	x := l.of[e.run]
	if x == nil {
		x = &runAttempts{run: e.run}
		l.of[e.run] = x
		if front {
			x.at = l.runs.PushFront(x)
		} else {
			x.at = l.runs.PushBack(x)
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
	x := attemptsOf(l.runs.Front())
	e := x.entries[0]
	if x.entries = x.entries[1:]; len(x.entries) > 0 {
		l.runs.MoveToBack(x.at)
	} else {
		l.runs.Remove(x.at)
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
		l.runs.Remove(x.at)
	}
	e.lane = nil
	l.waiting--
}

// attemptsOf returns what an element of attemptLane.runs holds.
func attemptsOf(at *list.Element) *runAttempts {
	return at.Value.(*runAttempts) //nolint:forcetypeassert // it holds nothing else
}

// all returns the waiting attempts in the order of their turns.
func (l *attemptLane) all() (all []*attemptEntry) {
	for n := 0; len(all) < l.waiting; n++ {
		for at := l.runs.Front(); at != nil; at = at.Next() {
			if x := attemptsOf(at); n < len(x.entries) {
				all = append(all, x.entries[n])
			}
		}
	}
	return all
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

// keysOf returns the keys of an attempt for the rules with a key, in the order of the rules. of has the keys by path.
func keysOf(rules Rules, of map[string]string) (keys []string) {
	for i := range rules {
		if rules[i].Per != "" {
			keys = append(keys, of[rules[i].Per])
		}
	}
	return keys
}
