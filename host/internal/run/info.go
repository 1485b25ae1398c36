package run

import (
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// Info is what an activation has to know of its run. It does not change while the activation goes on.
type Info struct {
	Started   journal.Started
	StartedMs int64 // started_at
	Input     []byte
	Rested    store.Seq // entries of the journal when the guest last came to a wait
}

// InfoOf returns what an activation has to know of its run.
func (r *Record) InfoOf() Info {
	ms, _ := r.Journal.StartedUnixMs()
	return Info{Started: r.Journal.Started(), StartedMs: ms, Input: r.Journal.Entries()[0].Input, Rested: r.Journal.Rested()}
}
