package shard

import (
	"github.com/wfhost/wfhost/host/internal/timers"
	"github.com/wfhost/wfhost/store"
)

// Kinds of timers for retries. They are in memory only.
const (
	kindInbox   store.WakeKind = 254 // reads the inbox again
	KindCommand store.WakeKind = 255 // retries the first command for a run
)

// inboxTimer is the timer key of the inbox.
var inboxTimer = TimerKey{Kind: kindInbox}

// CommandTimer returns the timer key of the first command for a run.
func CommandTimer(to store.RunKey) TimerKey { return TimerKey{Kind: KindCommand, Run: to} }

// againMs is the delay of a retry after a failure.
const againMs = 1000

// pendingWakes holds the timers in memory. Each key has at most one: a wake in wakes, a due run that must wait in pacedWakes,
// or a retry in again.
type pendingWakes struct {
	wakes timers.Set[TimerKey]
	again timers.Set[TimerKey]
	pacedWakes
	pacer WakePacer // nil = runs wake when they are due
}

// Put sets the timer of a key, replacing any other timer of the key.
func (p *pendingWakes) Put(k TimerKey, dueUnixMs int64) {
	p.again.Remove(k)
	p.pacedWakes.remove(k)
	p.wakes.Put(k, dueUnixMs)
}

// Again schedules a retry for a key, againMs from now.
func (p *pendingWakes) Again(now int64, k TimerKey) {
	p.wakes.Remove(k)
	p.pacedWakes.remove(k)
	p.again.Put(k, now+againMs)
}

// Remove removes the timer of a key.
func (p *pendingWakes) Remove(k TimerKey) {
	p.again.Remove(k)
	p.pacedWakes.remove(k)
	p.wakes.Remove(k)
}

// Pop removes and returns a timer that is due by now, with its deadline; false if there is none. Retries come first. A due run
// whose namespace must wait stays, in pacedWakes.
func (p *pendingWakes) Pop(now int64) (k TimerKey, dueUnixMs int64, ok bool) {
	k, dueUnixMs, ok = p.again.Pop(now)
	if ok {
		return k, dueUnixMs, true
	}
	k, dueUnixMs, ok = p.pacedWakes.pop(now, p.pacer)
	if ok {
		return k, dueUnixMs, true
	}
	for {
		k, dueUnixMs, ok = p.wakes.Pop(now)
		if !ok || p.pacer == nil || k.Kind != store.WakeRun ||
			!p.pacedWakes.has(k) && p.pacer.Wake(uint32(k.Run.Namespace), now, dueUnixMs) {
			return k, dueUnixMs, ok
		}
		p.pacedWakes.put(k, dueUnixMs)
	}
}

// Pace makes a run wait if its namespace may not continue now, and reports whether the run waits. The run's turn is that of a
// run that was due at dueUnixMs. A run that waits already keeps its turn.
func (p *pendingWakes) Pace(now int64, k TimerKey, dueUnixMs int64) bool {
	if p.pacer == nil || p.pacer.May(uint32(k.Run.Namespace), now) {
		return false
	}
	if _, waits := p.pacedWakes.due(k); !waits {
		p.Remove(k)
		p.pacedWakes.put(k, dueUnixMs)
	}
	return true
}

// Due returns the deadline of a key's timer; false if it has none.
func (p *pendingWakes) Due(k TimerKey) (dueUnixMs int64, ok bool) {
	if at, ok := p.again.Due(k); ok {
		return at, true
	}
	if at, ok := p.pacedWakes.due(k); ok {
		return at, true
	}
	return p.wakes.Due(k)
}

// Next returns the earliest instant at which Pop may return a timer; false if there are no timers.
func (p *pendingWakes) Next() (dueUnixMs int64, ok bool) {
	first, ok := p.wakes.Next()
	if at, has := p.again.Next(); has && (!ok || at < first) {
		first, ok = at, true
	}
	if at, has := p.pacedWakes.next(p.pacer); has && (!ok || at < first) {
		first, ok = at, true
	}
	return first, ok
}

// Len returns the number of timers.
func (p *pendingWakes) Len() int { return p.wakes.Len() + p.again.Len() + p.pacedWakes.len() }

// setBack makes all retries due now.
func (p *pendingWakes) setBack(now int64) {
	var keys []TimerKey
	for k, _, ok := p.again.Pop(Never); ok; k, _, ok = p.again.Pop(Never) {
		keys = append(keys, k)
	}
	for _, k := range keys {
		p.again.Put(k, now)
	}
}
