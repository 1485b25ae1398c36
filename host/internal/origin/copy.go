package origin

import (
	"fmt"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// Copy is what a restarted run takes from the one that it repeats.
type Copy struct {
	Started journal.Started // of the other run
	Entries []store.Entry   // after entry 0
}

// NewCopy returns what a restart takes from a run. With a name that is its journal before the call of that name, and what
// came of the calls before it; steps that were open then are run again, under new idempotency keys. A hook, or a child
// whose outcome is not known, is not repeated by copying: the copy ends before it.
func NewCopy(j *journal.Journal, name string) (*Copy, error) {
	c := &Copy{Started: j.Started()}
	if name == "" {
		return c, nil
	}
	var err error
	c.Entries, err = upTo(j, name)
	return c, err
}

// begin makes entry 0 that of the run that is repeated, in all that its workflow sees, and returns the time of entry 0. The
// workflow sees the schedule and the nominal instant, too; but the new run is none of the schedule's, and its state has neither.
func (c *Copy) begin(started *journal.Started, now int64) int64 {
	o := &c.Started
	started.Schedule, started.NominalMs = o.Schedule, o.NominalMs
	started.Seed, started.RunAttempt = o.Seed, o.RunAttempt+1
	started.Iteration = o.Iteration // random numbers are those of an iteration
	started.Policy, started.CancelMs, started.Output, started.Attributes = o.Policy, o.CancelMs, o.Output, o.Attributes
	started.Memo = o.Memo
	if len(c.Entries) > 0 { // the copy begins when the original did, and as what it was then
		started.Version, started.Module, started.Rules = o.Version, o.Module, o.Rules
		return c.Entries[0].UnixMs
	}
	return now
}

// into appends the copied entries to a journal that has entry 0.
func (c *Copy) into(j *journal.Journal) error {
	for _, e := range c.Entries {
		e.UnixMs = max(e.UnixMs, j.LastUnixMs())
		if err := j.Load(e); err != nil {
			return err
		}
	}
	return nil
}

// upTo returns the entries before the call of a name, and the later deliveries of the calls among them.
func upTo(j *journal.Journal, name string) (list []store.Entry, err error) {
	entries := j.Entries()
	cut := -1
	for i := range entries {
		e := &entries[i]
		if !e.Kind.Call() || e.Refused != 0 {
			continue
		}
		open := e.Kind == store.KindHook || e.Kind == store.KindChild && !j.Handle(e.Handle).Resolved
		if e.Name == name || open {
			cut = i
			break
		}
	}
	if cut < 0 {
		return nil, fmt.Errorf("run %q: %w: no call named %q in its journal", j.Started().RunID, store.ErrNotFound, name)
	}
	seqs := map[store.Seq]store.Seq{}
	last := int64(0) // the newest handle that is kept
	for i := 1; i < len(entries); i++ {
		e := entries[i]
		switch {
		case i < cut && (e.Kind == store.KindActivated || e.Kind.Call() || e.Kind == store.KindSignalAccepted):
			last = max(last, e.Handle)
		case e.Kind.Delivery() && e.Handle != 0 && e.Handle <= last:
		case i < cut && (e.Kind == store.KindClock || e.Kind == store.KindCancel):
		default:
			continue
		}
		if e.Kind == store.KindSignal {
			if i > cut {
				continue // the signal came after the cut, or a wait gave it back that was withdrawn after the cut
			}
			e.Ref = seqs[e.Ref]
		}
		seq := store.Seq(len(list) + 1)
		seqs[e.Seq] = seq
		e.Seq = seq
		list = append(list, e)
	}
	return list, nil
}
