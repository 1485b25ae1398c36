package origin

import (
	"strings"

	"github.com/wfhost/wfhost/abi"
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

// Journal returns the journal of the next iteration. Signals that nobody has taken move over in order; output, attributes
// the keys of signals, and a pause stay; what was open is dropped.
func (c *Continue) Journal(before *journal.Journal, now int64) (*journal.Journal, error) {
	s := before.Started()
	s.Iteration, s.Version, s.Module = s.Iteration+1, c.Version, c.Module.String()
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
		return nil, err
	}
	for _, e := range before.Pending(c.Told) {
		x := store.Entry{Kind: store.KindSignalAccepted, Name: e.Name, Data: e.Data} // its key moved with the others
		if strings.HasPrefix(e.Name, abi.UpdatePrefix) {
			x.Target = e.Target // by which its answer is found
		}
		if _, err := j.Append(x, now); err != nil {
			return nil, err
		}
	}
	if err := j.FireDue(now); err != nil { // the deadline, which tells a run that takes a cancel by itself
		return nil, err
	}
	if !c.Cancelled && before.CancelUnixMs() != 0 && j.CancelUnixMs() == 0 {
		if _, err := j.Append(store.Entry{Kind: store.KindCancel}, now); err != nil {
			return nil, err
		}
	}
	if before.Paused() { // while the workflow computed: it stands before the next iteration
		if _, err := j.Append(store.Entry{Kind: store.KindPaused}, now); err != nil {
			return nil, err
		}
	}
	return j, nil
}
