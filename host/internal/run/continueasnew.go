package run

import (
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// Continue is the end of an iteration whose workflow continues as new.
type Continue struct {
	Input     []byte
	Version   uint32 // of the next iteration
	Module    store.Digest
	Cancelled bool                    // the workflow was told of a cancel
	Told      func(handle int64) bool // reports whether the workflow knows the outcome of a handle
	Keep      Keep
}

// Keep bounds how long a live run keeps the journals of its past iterations. Both bounds apply.
type Keep struct {
	Iterations int64 // the newest ones; 0 = store.DefaultIterations, -1 = all
	ForMs      int64 // milliseconds after their end; 0 = no bound
}

// Number returns how many iterations are kept, or -1 for all.
func (k Keep) Number() int64 {
	if k.Iterations == 0 {
		return store.DefaultIterations
	}
	return max(k.Iterations, -1)
}

// Journal returns the journal of the next iteration. Signals that the workflow has not received move over, in order.
// The output, the attributes, the newest keys of signals and a pause carry over too. Open calls are dropped.
func (c *Continue) Journal(before *journal.Journal, now int64) (*journal.Journal, error) {
	s := before.Started()
	s.Iteration, s.Version, s.Module = s.Iteration+1, c.Version, c.Module.String()
	s.Output, s.Keys, s.Policy, s.AtUnixMs = before.Output(), before.Keys().Newest(), before.CancelPolicy(), 0
	s.Copied, s.Taken, s.Gaps, s.Signalled = 0, 0, nil, false
	s.Attributes = map[string]string{}
	for _, x := range before.Attributes() {
		s.Attributes[x.Key] = x.Value
	}
	told := c.Cancelled || s.CancelMs != 0 // CancelMs is set if an earlier iteration was told
	s.CancelMs = 0
	if told {
		s.CancelMs = before.CancelUnixMs()
	}
	j := &journal.Journal{}
	if _, err := j.Append(s.Entry(c.Input), max(now, before.LastUnixMs())); err != nil {
		return nil, err
	}
	for _, e := range before.Pending(c.Told) {
		x := store.Entry{Kind: store.KindSignalAccepted, Name: e.Name, Data: e.Data} // the keys were carried over above
		if strings.HasPrefix(e.Name, abi.UpdatePrefix) {
			x.Target = e.Target // the update's answer is found by it
		}
		if _, err := j.Append(x, now); err != nil {
			return nil, err
		}
	}
	if err := j.FireDue(now); err != nil { // the deadline notifies a run that handles cancels itself
		return nil, err
	}
	if !told && before.CancelUnixMs() != 0 && j.CancelUnixMs() == 0 {
		if _, err := j.Append(store.Entry{Kind: store.KindCancel}, now); err != nil {
			return nil, err
		}
	}
	if before.Paused() { // paused while the workflow computed: it stays paused before the next iteration
		if _, err := j.Append(store.Entry{Kind: store.KindPaused}, now); err != nil {
			return nil, err
		}
	}
	return j, nil
}
