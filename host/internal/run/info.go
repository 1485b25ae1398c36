package run

import (
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// Info is what an activation must know of its run. It does not change during the activation.
type Info struct {
	Started   journal.Started
	StartedMs int64 // started_at
	Input     []byte
	Rested    store.Seq // entries of the journal when the guest last began to wait
}

// InfoOf returns what an activation must know of its run.
func (r *Record) InfoOf() Info {
	ms, _ := r.Journal.StartedUnixMs()
	return Info{Started: r.Journal.Started(), StartedMs: ms, Input: r.Journal.Entries()[0].Input, Rested: r.Journal.Rested()}
}
