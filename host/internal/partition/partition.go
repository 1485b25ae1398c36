package partition

import (
	"cmp"
	"maps"
	"slices"

	"github.com/wfhost/wfhost/host/internal/inbox"
	"github.com/wfhost/wfhost/host/internal/wake"
	"github.com/wfhost/wfhost/store"
)

// Partition is what a shard has of one partition. When the partition is lost, all of it is dropped, and a Partition that is
// acquired again begins anew: what comes for the one before is not looked at.
type Partition struct {
	ID    store.PartitionID
	Owned store.Partition // by which commits are fenced

	lost    bool // it is no longer the shard's
	looked  bool // it was looked for runs that began to wait while the clock showed more
	slots   map[store.RunKey]*slot
	wakes   wake.Schedule
	inbox   inbox.Inbox
	missing map[string]map[store.RunKey]bool // runs that wait for a handler, by its name
	// unreadable holds runs that this release cannot read, with the reason. Nothing is written about them: another
	// release may be able to.
	unreadable map[store.RunKey]error
	// unstorable holds runs whose newest commit was refused because the store can never take it.
	unstorable map[store.RunKey]bool
}

func newPartition(id store.PartitionID, owned store.Partition, pacer wake.Pacer) *Partition {
	return &Partition{ID: id, Owned: owned, slots: map[store.RunKey]*slot{}, wakes: wake.New(id, pacer), inbox: inbox.New(),
		missing: map[string]map[store.RunKey]bool{}, unreadable: map[store.RunKey]error{},
		unstorable: map[store.RunKey]bool{}}
}

// keys returns the runs in memory in a fixed order.
func (p *Partition) keys() []store.RunKey {
	return slices.SortedFunc(maps.Keys(p.slots), compareKeys)
}

func compareKeys(a, b store.RunKey) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.ID, b.ID))
}

// inMemory reports whether a run was read, and is in memory.
func (p *Partition) inMemory(key store.RunKey) bool {
	sl := p.slots[key]
	return sl != nil && sl.Run != nil
}

// Arm says when a schedule or queue is due next, as is durable, store.NoWake for never. With an error it is looked at again after
// a while.
func (p *Partition) Arm(now int64, k wake.Key, wakeMs int64, err error) {
	if err != nil {
		p.wakes.Again(now, k)
	} else {
		p.wakes.Set(k, wakeMs)
	}
}

// miss remembers that a run waits for a handler.
func (p *Partition) miss(name string, key store.RunKey) {
	if p.missing[name] == nil {
		p.missing[name] = map[store.RunKey]bool{}
	}
	p.missing[name][key] = true
}

// missed returns the runs that wait for a handler, and forgets them.
func (p *Partition) missed(name string) []store.RunKey {
	keys := slices.SortedFunc(maps.Keys(p.missing[name]), compareKeys)
	delete(p.missing, name)
	return keys
}

// takeLeft has the commands taken again that were left to a run while it was failed.
func (p *Partition) takeLeft(now int64, sl *slot) {
	if p.inbox.HasLeft() && sl.Run != nil && !sl.Run.Lent() && !sl.Run.Failed() && p.inbox.Return(sl.Key, p.inbox.Left(sl.Key)) {
		p.wakes.Put(wake.CommandKey(sl.Key), now)
	}
}
