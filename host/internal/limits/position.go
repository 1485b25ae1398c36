package limits

import (
	"slices"

	"github.com/wfhost/wfhost/store"
)

// MaxPosition bounds the runs that FindPosition counts.
const MaxPosition = 1000

// QueuePosition is the position of a run in its queue.
type QueuePosition struct {
	Position int    // among the runs with the same keys, from 1; MaxPosition + 1 = behind at least MaxPosition runs
	Same     int64  // waiting runs with the same keys
	Waiting  int64  // waiting runs of the workflow
	Rule     string // the rule that blocks the run, as text; empty if no rule does
}

// FindPosition returns the position of a run in its queue, false if it does not wait.
func FindPosition(read Reader, rules Rules, now int64, run string, of store.Incarnation) (p QueuePosition, ok bool, err error) {
	b, err := OpenQueue(read, nil, rules, now)
	if err != nil {
		return p, false, err
	}
	v := b.c.get(partPosition + run)
	if len(v) <= nameBytes+len(of) || incarnationOf(partPosition, v) != of {
		return p, false, b.c.err
	}
	name := string(v[:nameBytes])
	position := partWaiter + string(v[:len(v)-len(of)])
	l := b.lane(name)
	if l == nil {
		return p, false, b.c.err
	}
	before, err := read([]byte(partWaiter+name+string(l.Head)), []byte(position), MaxPosition)
	if err != nil {
		return p, false, err
	}
	p = QueuePosition{Position: len(before) + 1, Same: l.Waiting, Waiting: b.q.Waiting}
	if r := b.blockingRule(l); r != nil {
		p.Rule = r.String()
	}
	return p, true, b.c.err
}

// blockingRule returns a rule that blocks a lane, nil if there is none.
func (b *Queue) blockingRule(l *lane) *Rule {
	for i := range b.rules {
		r := &b.rules[i]
		if r.Per == "" && r.WindowMs == 0 {
			if b.q.Held >= int64(r.Max) {
				return r
			}
		} else if c := b.counter(r.counterOf(l), r.name()); r.room(c, b.now) <= 0 {
			return r
		}
	}
	return nil
}

// QueueStats is the size of a queue.
type QueueStats struct {
	Waiting int64 // waiting runs
	Held    int64 // admitted runs that have not ended
}

// CountQueue returns the size of a queue.
func CountQueue(read Reader) (s QueueStats, err error) {
	b, err := OpenQueue(read, nil, nil, 0)
	if err != nil {
		return s, err
	}
	return QueueStats{b.q.Waiting, b.q.Held}, nil
}

// CheckQueue returns the inconsistencies in the complete list of cells of a queue: wrong counts, and references to cells that
// do not exist.
func CheckQueue(list []store.Cell) (problems []string) {
	at := map[string][]byte{}
	n := map[byte]int64{}
	for _, c := range list {
		at[string(c.Key)] = c.Value
		n[c.Key[0]]++
	}
	read := func(from, to []byte, limit int) (out []store.Cell, err error) {
		if v, ok := at[string(from)]; ok && limit > 0 {
			out = append(out, store.Cell{Key: from, Value: v})
		}
		return out, nil
	}
	b, err := OpenQueue(read, nil, nil, 0)
	if err != nil {
		return []string{err.Error()}
	}
	add := func(bad bool, text string) {
		if bad && !slices.Contains(problems, text) {
			problems = append(problems, text)
		}
	}
	add(b.q.Waiting != n[partWaiter[0]], "it does not say how many runs wait")
	add(b.q.Held != n[partHolder[0]], "it does not say how many runs hold a slot")
	add(n[partWaiter[0]] != n[partPosition[0]], "not each run that waits has a position")
	add(n[partReady[0]] != n[partTurn[0]] ||
		n[partReady[0]]+n[partBlocked[0]] != n[partLane[0]], "a lane is neither ready nor blocked")
	held := map[string]int64{}
	for _, c := range list {
		key := string(c.Key)
		switch key[:1] {
		case partWaiter:
			add(decodeInto("a run", c.Value, new(waiter)) != nil, "a record cannot be read")
		case partPosition:
			_, ok := at[partWaiter+string(c.Value[:max(len(c.Value)-len(store.Incarnation{}), 0)])]
			add(!ok, "the position of a run is not there")
		case partHolder:
			add(len(c.Value) < nameBytes || len(c.Value)%nameBytes != 0, "a record cannot be read")
			for rest := c.Value[min(len(store.Incarnation{}), len(c.Value)):]; len(rest) >= nameBytes; rest = rest[nameBytes:] {
				held[string(rest[:nameBytes])]++
			}
		case partReady, partTurn, partBlocked:
			add(b.lane(key[len(key)-nameBytes:]) == nil, "a lane has no record")
		}
	}
	for id, n := range held {
		c := b.counter(id, "")
		add(c == nil || c.Held != n, "a counter does not say how many runs it counts")
	}
	add(b.c.err != nil, "a record cannot be read")
	return problems
}
