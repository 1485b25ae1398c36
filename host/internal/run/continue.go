package run

import (
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// Continue is the end of an iteration whose workflow continues as new.
type Continue struct {
	Input     []byte
	Version   uint32 // under which the run goes on
	Module    store.Digest
	Cancelled bool                    // the workflow was told of a cancel
	Told      func(handle int64) bool // reports whether the workflow knows the outcome of a handle
}

// continueAsNew ends the iteration and begins the next one. Both are one commit. Signals that nobody has taken move
// over in order; output, attributes and the keys of signals stay; what was open is dropped.
func (r *Run) continueAsNew(now int64, c *Continue) error {
	next := identity{iteration: r.ident.iteration + 1, version: c.Version, module: c.Module}
	if _, err := r.append(now, store.Entry{Kind: store.KindContinued}); err != nil {
		return err
	}
	before := r.journal
	s := before.Started()
	s.Iteration, s.Version, s.Module = next.iteration, next.version, next.module.String()
	s.Output, s.Keys, s.Policy, s.AtUnixMs = before.Output(), before.Keys(), before.CancelPolicy(), 0
	s.Attributes = map[string]string{}
	for _, x := range before.Attributes() {
		s.Attributes[x.Key] = x.Value
	}
	s.CancelMs = 0
	if c.Cancelled {
		s.CancelMs = before.CancelUnixMs()
	}
	j := &journal.Journal{}
	now = max(now, before.LastUnixMs())
	if _, err := j.Append(s.Entry(c.Input), now); err != nil {
		return err
	}
	for _, e := range before.Pending(c.Told) {
		x := store.Entry{Kind: store.KindSignalAccepted, Name: e.Name, Data: e.Data} // its key moved with the others
		if _, err := j.Append(x, now); err != nil {
			return err
		}
	}
	if !c.Cancelled && before.CancelUnixMs() != 0 {
		if _, err := j.Append(store.Entry{Kind: store.KindCancel}, now); err != nil {
			return err
		}
	}
	r.old = &ended{before, r.prepared}
	r.journal, r.prepared, r.restored, r.ident = j, 0, 0, next
	r.logLines, r.pending, r.waiting = 0, true, ""
	return nil
}

// Continued reports whether the next commit ends an iteration. Until it is prepared, no guest begins the next one: the
// caller steps the run with Due then.
func (r *Run) Continued() bool { return r.old != nil }
