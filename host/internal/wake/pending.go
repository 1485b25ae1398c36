package wake

import (
	"github.com/wfhost/wfhost/host/internal/timers"
	"github.com/wfhost/wfhost/store"
)

// Kinds of timers that are in memory alone, for what is tried again.
const (
	KindInbox   store.WakeKind = 254 // the inbox is to be read again
	KindCommand store.WakeKind = 255 // the first command for a run is to be tried again
)

// InboxKey is whose timer that of the inbox is.
var InboxKey = Key{Kind: KindInbox}

// CommandKey is whose timer that of the first command for a run is.
func CommandKey(to store.RunKey) Key { return Key{Kind: KindCommand, Run: to} }

// againMs is how long something waits that could not be done, before it is tried again.
const againMs = 1000

// pending is the timers in memory: one for each key at most, of a wake, of one that is due and has to wait, or of something
// that is tried again.
type pending struct {
	wakes timers.Set[Key]
	again timers.Set[Key]
	paced
	pacer Pacer // nil: all wake when they are due
}

// Put sets the timer of a key, in place of the one that it has.
func (p *pending) Put(k Key, dueUnixMs int64) {
	p.again.Remove(k)
	p.paced.remove(k)
	p.wakes.Put(k, dueUnixMs)
}

// Again sets the timer of something that could not be done, and is tried again.
func (p *pending) Again(now int64, k Key) {
	p.wakes.Remove(k)
	p.paced.remove(k)
	p.again.Put(k, now+againMs)
}

// Remove removes the timer of a key.
func (p *pending) Remove(k Key) {
	p.again.Remove(k)
	p.paced.remove(k)
	p.wakes.Remove(k)
}

// Pop removes and returns a timer that is due by an instant, and its own, false if none is. A run whose namespace has woken as
// many as it may is kept for later.
func (p *pending) Pop(now int64) (k Key, dueUnixMs int64, ok bool) {
	k, dueUnixMs, ok = p.again.Pop(now)
	if ok {
		return k, dueUnixMs, true
	}
	k, dueUnixMs, ok = p.paced.pop(now, p.pacer)
	if ok {
		return k, dueUnixMs, true
	}
	for {
		k, dueUnixMs, ok = p.wakes.Pop(now)
		if !ok || p.pacer == nil || k.Kind != store.WakeRun ||
			!p.paced.has(k) && p.pacer.Wake(uint32(k.Run.Namespace), now, dueUnixMs) {
			return k, dueUnixMs, ok
		}
		p.paced.put(k, dueUnixMs)
	}
}

// Hold has a run wait, as one that was due at an instant, until its namespace may go on, and reports whether it has to. One that
// waits keeps its place.
func (p *pending) Hold(now int64, k Key, dueUnixMs int64) bool {
	if p.pacer == nil || p.pacer.May(uint32(k.Run.Namespace), now) {
		return false
	}
	if _, waits := p.paced.due(k); !waits {
		p.Remove(k)
		p.paced.put(k, dueUnixMs)
	}
	return true
}

// Due returns the instant of the timer of a key, false if it has none.
func (p *pending) Due(k Key) (dueUnixMs int64, ok bool) {
	if at, ok := p.again.Due(k); ok {
		return at, true
	}
	if at, ok := p.paced.due(k); ok {
		return at, true
	}
	return p.wakes.Due(k)
}

// Next returns the first instant of a timer, false if there is none.
func (p *pending) Next() (dueUnixMs int64, ok bool) {
	first, ok := p.wakes.Next()
	if at, has := p.again.Next(); has && (!ok || at < first) {
		first, ok = at, true
	}
	if at, has := p.paced.next(p.pacer); has && (!ok || at < first) {
		first, ok = at, true
	}
	return first, ok
}

// Len returns the number of timers.
func (p *pending) Len() int { return p.wakes.Len() + p.again.Len() + p.paced.len() }

// setBack has at once what is tried again.
func (p *pending) setBack(now int64) {
	var keys []Key
	for k, _, ok := p.again.Pop(Never); ok; k, _, ok = p.again.Pop(Never) {
		keys = append(keys, k)
	}
	for _, k := range keys {
		p.again.Put(k, now)
	}
}
