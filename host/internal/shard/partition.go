package shard

import (
	"cmp"
	"maps"
	"slices"

	"github.com/wfhost/wfhost/store"
)

// Partition is a shard's state of one partition. When the partition is lost, the Partition is dropped. After the partition is
// acquired again there is a new Partition; results that arrive for the old one are ignored.
type Partition struct {
	ID    store.PartitionID
	Owned store.Partition // fences commits

	lost         bool // the shard no longer owns the partition
	clockChecked bool // Port.Ahead was called
	residents    map[store.RunKey]*resident
	wakes        wakeTimers
	inbox        inbox
	// unreadable holds runs that this release cannot read, with the reason. The reason is not written to the store, because
	// another release may be able to read the run.
	unreadable map[store.RunKey]error
	// unstorable holds runs whose newest commit was refused because the store can never take it.
	unstorable map[store.RunKey]bool
}

func newPartition(id store.PartitionID, owned store.Partition, pacer WakePacer) *Partition {
	return &Partition{ID: id, Owned: owned, residents: map[store.RunKey]*resident{},
		wakes: newWakeTimers(id, pacer), inbox: newInbox(),
		unreadable: map[store.RunKey]error{},
		unstorable: map[store.RunKey]bool{}}
}

// keys returns the runs in memory in a fixed order.
func (p *Partition) keys() []store.RunKey {
	return slices.SortedFunc(maps.Keys(p.residents), compareKeys)
}

func compareKeys(a, b store.RunKey) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.ID, b.ID))
}

// inMemory reports whether a run is loaded.
func (p *Partition) inMemory(key store.RunKey) bool {
	rs := p.residents[key]
	return rs != nil && rs.Run != nil
}

// Arm sets the timer of a schedule or queue to its durable wake; store.NoWake means never. With an error, the timer fires again
// after a delay.
func (p *Partition) Arm(now int64, k TimerKey, wakeMs int64, err error) {
	if err != nil {
		p.wakes.Again(now, k)
	} else {
		p.wakes.Set(k, wakeMs)
	}
}

// takeDeferred returns the deferred commands of a run that has not failed to the inbox, and schedules their delivery for now.
func (p *Partition) takeDeferred(now int64, rs *resident) {
	if !p.inbox.HasDeferred() || rs.Run == nil || rs.Run.Lent() || rs.Run.Failed() {
		return
	}
	if p.inbox.Return(rs.Key, p.inbox.TakeDeferred(rs.Key)) {
		p.wakes.Put(CommandTimer(rs.Key), now)
	}
}
