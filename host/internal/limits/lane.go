package limits

import (
	"encoding/binary"
)

// lane returns a lane by name, nil if there is none.
func (b *Queue) lane(name string) *lane {
	l, ok := b.lanes[name]
	if ok {
		return l
	}
	if v := b.c.get(partLane + name); v != nil {
		l = &lane{}
		if err := decodeInto("a lane", v, l); err != nil {
			b.fail(err)
			return nil
		}
	}
	b.lanes[name] = l
	return l
}

// counter returns a counter by name. If there is none, it creates one for the rule; with an empty rule it returns nil.
func (b *Queue) counter(name, rule string) *counter {
	c := b.counters[name]
	if c == nil {
		if v := b.c.get(partCounter + name); v != nil {
			c = &counter{}
			if err := decodeInto("a counter", v, c); err != nil {
				b.fail(err)
			}
		} else if rule != "" {
			c = &counter{Rule: rule}
		}
		if c != nil {
			b.counters[name] = c
		}
	}
	return c
}

// enqueue puts a lane at the end of the order of turns.
func (b *Queue) enqueue(name string, l *lane) {
	l.Seq = b.q.Next
	b.q.Next++
	b.ready(name, l)
}

// ready marks a lane as ready: as far as is known, its first run may be admitted.
func (b *Queue) ready(name string, l *lane) {
	l.Blocked = nil
	b.c.set(readyKey(name, l), []byte{})
	b.c.set(turnKey(name, l), []byte{})
	b.q.Ready[int(l.priority())]++
}

func (b *Queue) unready(name string, l *lane) {
	b.c.set(readyKey(name, l), nil)
	b.c.set(turnKey(name, l), nil)
	p := int(l.priority())
	b.q.Ready[p]--
	if b.q.Ready[p] <= 0 {
		delete(b.q.Ready, p)
	}
}

// full reports whether a rule without a key admits no run.
func (b *Queue) full() bool {
	for i := range b.rules {
		r := &b.rules[i]
		switch {
		case r.Per != "":
		case r.WindowMs == 0:
			if b.q.Held >= int64(r.Max) {
				return true
			}
		default:
			id := r.counterOf(nil)
			if c := b.counter(id, r.name()); r.room(c, b.now) <= 0 {
				b.expires(id, c, r.freeMs(c, b.now))
				return true
			}
		}
	}
	return false
}

// blocking returns the counter that blocks a lane, empty if there is none.
func (b *Queue) blocking(l *lane) string {
	for i := range b.rules {
		r := &b.rules[i]
		if r.Per == "" {
			continue
		}
		id := r.counterOf(l)
		if c := b.counter(id, r.name()); r.room(c, b.now) <= 0 {
			if r.WindowMs > 0 {
				b.expires(id, c, r.freeMs(c, b.now))
			}
			return id
		}
	}
	return ""
}

// room returns how many runs a counter admits now.
func (r *Rule) room(c *counter, now int64) int64 {
	if r.WindowMs == 0 {
		return int64(r.Max) - c.Held
	}
	return int64(r.Max - len(c.times(now, r.WindowMs)))
}

// freeMs returns when a rate that is exhausted admits another run.
func (r *Rule) freeMs(c *counter, now int64) int64 {
	times := c.times(now, r.WindowMs)
	return times[len(times)-r.Max] + r.WindowMs
}

// block makes a lane wait for a counter.
func (b *Queue) block(name string, l *lane, by string) {
	b.unready(name, l)
	l.Blocked = []byte(by)
	b.c.set(partBlocked+by+name, []byte{})
	b.counters[by].Blocked++
	b.pass(l, by)
}

// pass is called when a lane does not use its turn: no run is left in it, or a counter blocks it, whose name is but. For each
// other counter of the lane that has room, pass unblocks the first lane that waits for that counter: no other event would.
func (b *Queue) pass(l *lane, but string) {
	for i := range b.rules {
		r := &b.rules[i]
		if r.Per == "" {
			continue
		}
		if id := r.counterOf(l); id != but {
			if c := b.counter(id, r.name()); r.room(c, b.now) > 0 {
				b.unblockOne(id, c)
			}
		}
	}
}

// unblock makes a lane that waits for a counter ready again.
func (b *Queue) unblock(name string, l *lane) {
	by := string(l.Blocked)
	b.c.set(partBlocked+by+name, nil)
	if c := b.counter(by, ""); c != nil {
		c.Blocked--
	}
	b.ready(name, l)
}

// unblockOne unblocks the first lane that waits for a counter. It reports false if there is none.
func (b *Queue) unblockOne(id string, c *counter) bool {
	if c.Blocked <= 0 {
		return false
	}
	key := b.c.first(partBlocked+id, partBlocked+id)
	if key == "" {
		return false
	}
	name := key[len(partBlocked)+nameBytes:]
	l := b.lane(name)
	if l == nil {
		return false
	}
	b.unblock(name, l)
	return true
}

// release unblocks as many lanes as a counter has room for.
func (b *Queue) release(id string, c *counter) {
	n := c.Blocked
	if r := b.rules.find(c.Rule); r != nil {
		n = min(n, r.room(c, b.now))
	}
	for ; n > 0 && b.mayUnblock(); n-- {
		if !b.unblockOne(id, c) {
			return
		}
		b.budget--
	}
	if n > 0 { // the next Queue continues
		b.expires(id, c, max(b.now, 1))
		b.more = true
	}
}

// expires sets the instant at which expire processes a counter, 0 for none.
func (b *Queue) expires(id string, c *counter, ms int64) {
	if c.DueMs == ms {
		return
	}
	if c.DueMs != 0 {
		b.c.set(expiryKey(id, c.DueMs), nil)
	}
	c.DueMs = ms
	if ms != 0 {
		b.c.set(expiryKey(id, ms), []byte{})
	}
}

func expiryOf(key string) int64 {
	return int64(binary.BigEndian.Uint64([]byte(key[len(partExpiry):])))
}

// expire processes the counters that are due: they admit runs again, or are empty.
func (b *Queue) expire() {
	for range maxMoves {
		key := b.c.front(partExpiry)
		if key == "" || expiryOf(key) > b.now {
			return
		}
		if !b.mayUnblock() {
			break
		}
		id := key[len(partExpiry)+8:]
		c := b.counter(id, "")
		if c == nil || c.DueMs != expiryOf(key) {
			b.c.set(key, nil)
			continue
		}
		b.expires(id, c, 0)
		r := b.rules.find(c.Rule)
		if r == nil || r.WindowMs == 0 { // the rule may have been removed
			c.read, c.at = true, nil
			b.release(id, c)
			continue
		}
		times := c.times(b.now, r.WindowMs)
		b.release(id, c)
		if n := len(times); n > 0 && c.DueMs == 0 {
			last := times[n-1]
			if c.Blocked > 0 {
				last = times[0]
			}
			b.expires(id, c, last+r.WindowMs)
		}
	}
	b.more = true
}

// reconsider unblocks blocked lanes after a change of the rules, as far as the budget allows.
func (b *Queue) reconsider() {
	for ; b.q.Free != nil && b.mayUnblock(); b.budget-- {
		key := b.c.first(partBlocked, string(b.q.Free))
		if key == "" {
			b.q.Free = nil
			return
		}
		b.q.Free = []byte(key + "\x00")
		name := key[len(partBlocked)+nameBytes:]
		l := b.lane(name)
		if l == nil {
			b.c.set(key, nil)
			continue
		}
		b.unblock(name, l)
	}
}
