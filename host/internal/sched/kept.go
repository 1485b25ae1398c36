package sched

import (
	"container/list"

	"github.com/wfhost/wfhost/store"
)

// keptBytes bounds the owners that are kept though nothing happens to their runs: some ten thousand short journals,
// which need not be read again when their runs wake.
const keptBytes = 64 << 20

// What an owner and an entry of its journal take beside payloads and names, about: the sizes of their structures.
const (
	ownerBytes = 2048
	entryBytes = 320
)

// kept holds owners of runs that will be needed soon, the least recently used of which give way. It is under the
// scheduler's lock.
type kept struct {
	lru   list.List // of *owner, the most recently used first
	bytes int64
}

// keep takes in an owner that has no users. It gives what had to give way.
func (k *kept) keep(o *owner) (gone []*owner) {
	o.keptBytes = ownerBytes + o.journal.Bytes() + int64(o.journal.Len())*entryBytes
	o.kept = k.lru.PushFront(o)
	k.bytes += o.keptBytes
	for k.bytes > keptBytes {
		last := k.lru.Back().Value.(*owner) //nolint:forcetypeassert // it holds nothing else
		k.remove(last)
		gone = append(gone, last)
	}
	return gone
}

// remove takes an owner out that has a user again, or has given way.
func (k *kept) remove(o *owner) {
	if o.kept != nil {
		k.lru.Remove(o.kept)
		k.bytes -= o.keptBytes
		o.kept = nil
	}
}

// soon tells whether the run of an owner at rest may be needed soon: it wakes within the window of the wheel, or waits
// for something else than time. The owner is locked.
func (o *owner) soon() bool {
	if o.dead != nil || !o.loaded || o.create || o.held() || len(o.outbox) > 0 {
		return false
	}
	wake := o.state.WakeUnixMs
	return wake == store.NoWake || wake-o.s.nowMs() <= window
}
