package run

import (
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// Copy is what a restarted run takes over from the original run.
type Copy struct {
	Taken   uint64          // deliveries that the workflow had taken before the first call that is made again
	Started journal.Started // of the original iteration
	Entries []store.Entry   // after entry 0
	Gaps    []journal.Gap   // see journal.Started
}

// begin copies into entry 0 all that the original's workflow sees, and returns the time of entry 0. The workflow sees
// the schedule and the nominal instant too. But the new run does not belong to the schedule, so its state has
// neither.
func (c *Copy) begin(started *journal.Started, now int64) int64 {
	o := &c.Started
	started.Schedule, started.NominalMs = o.Schedule, o.NominalMs
	started.Seed, started.RunAttempt = o.Seed, o.RunAttempt+1
	started.Iteration = o.Iteration // random numbers depend on the iteration
	started.First = o.Iteration
	started.Policy, started.CancelMs, started.Output, started.Attributes = o.Policy, o.CancelMs, o.Output, o.Attributes
	started.Memo, started.Copied, started.Taken, started.Gaps = o.Memo, len(c.Entries), c.Taken, c.Gaps
	if len(c.Entries) > 0 && o.Signalled { // the signal is the first copied entry
		started.Signalled = true
	}
	if len(c.Entries) > 0 { // the copy begins when the original did, and with its version
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

// add appends an entry to the copied ones.
func (c *Copy) add(e store.Entry) {
	e.Seq = store.Seq(len(c.Entries) + 1)
	if n := len(c.Entries); n > 0 {
		e.UnixMs = max(e.UnixMs, c.Entries[n-1].UnixMs)
	}
	c.Entries = append(c.Entries, e)
}

// fate is the state of a handle at some entry.
type fate uint8

const (
	absent fate = iota
	open
	resolved
	withdrawn
)

// upTo copies the entries before the one at cut, and the later deliveries of the calls among them. It returns the
// fates of the handles in the copy. It does not copy a signal that was accepted or bound later, nor a later
// withdrawal: the workflow withdrew because of work that the new run repeats. So a step that failed after it was
// withdrawn is open in the copy. If an at-most-once step had an attempt in flight, the attempt is copied: its outcome
// is unknown, and it is not repeated.
func (c *Copy) upTo(j *journal.Journal, cut int) map[int64]fate {
	entries := j.Entries()
	seqs := map[store.Seq]store.Seq{}
	fates, givenUp := map[int64]fate{}, map[int64]bool{}
	gone := store.Seq(0) // entries left out so far
	for i := 1; i < len(entries); i++ {
		e := entries[i]
		before := i < cut
		switch {
		case e.Kind == store.KindWithdraw && !before:
			givenUp[e.Handle] = true
			continue
		case before && (e.Kind == store.KindActivated || e.Kind.Call() || e.Kind == store.KindSignalAccepted):
		case before && e.Kind.Delivery() && e.Handle == 0: // clocks and cancels
		case e.Kind == store.KindSignal && !before:
			continue
		case e.Kind.Delivery() && e.Handle != 0 && fates[e.Handle] == open:
			if e.Kind == store.KindStepFailure && givenUp[e.Handle] && !j.Handle(e.Handle).Step.Options.AtMostOnce {
				continue
			}
		case e.Kind == store.KindAttemptStarted && fates[e.Handle] == open && lost(j.Handle(e.Handle), e.Attempt):
		case before && e.Kind == store.KindNow, e.Kind == store.KindClockSet: // later deliveries are due by these clocks
		default:
			continue
		}
		switch h := j.Handle(e.Handle); {
		case e.Kind == store.KindWithdraw && e.Code == journal.WithdrawDone && e.Refused == 0:
			fates[e.Handle] = withdrawn
		case e.Kind.Delivery():
			fates[e.Handle] = resolved
		case h != nil && h.CallSeq == e.Seq:
			fates[e.Handle] = open
		}
		if e.Kind == store.KindSignal {
			e.Ref = seqs[e.Ref]
		}
		next := store.Seq(len(c.Entries) + 1)
		if n := c.Started.Position(e.Seq) - next - gone; before && n > 0 {
			c.Gaps = append(c.Gaps, journal.Gap{n, next})
			gone += n
		}
		seqs[e.Seq] = next
		c.add(e)
	}
	return fates
}

// lost reports whether an attempt of an at-most-once step was in flight, so that its outcome is unknown.
func lost(h *journal.Handle, attempt uint32) bool {
	return h.Step != nil && h.Open() && h.Step.Options.AtMostOnce && h.Step.InFlight && h.Step.Attempt == attempt
}
