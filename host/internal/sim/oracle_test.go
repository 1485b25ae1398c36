package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/wfhost/wfhost/host/internal/check"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/shard"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// shadow is the durable state, as it was committed. Hosts are compared with it.
type shadow struct {
	runs map[store.RunKey]*history
	keys []store.RunKey // in the order in which they came
	incs map[store.Incarnation]*history
	// copies reports that a run was restarted: the copy may send what the original has sent.
	copies bool
}

// history is everything that became durable of one run.
type history struct {
	key     store.RunKey
	state   store.RunState
	j       *journal.Journal // of the iteration
	lengths map[uint32]int
	journal map[uint32][]store.Entry
	signals map[string]bool // payloads that were accepted
	deleted bool
	copied  bool
	version *version             // under which it goes on
	accepts map[answerKey]bool   // updates that were accepted
	replies map[answerKey]string // answers to them
	retries int
	at      int // step of its newest commit
}

func (s *shadow) init() {
	s.runs, s.incs = map[store.RunKey]*history{}, map[store.Incarnation]*history{}
}

// commit makes a commit, and follows it.
func (s *shadow) commit(w *world, db *memstore.Store, groups []store.Group) error {
	if err := db.Commit(ctx, groups); err != nil {
		var refused *store.RefusedError
		if !errors.As(err, &refused) || !errors.Is(err, store.ErrFenced) {
			w.broken("commits fit to the store", "%v", err)
		}
		return err
	}
	w.ticks.fits(w, groups)
	for i := range groups {
		for j := range groups[i].Runs {
			s.apply(w, &groups[i].Runs[j])
		}
	}
	return nil
}

func (s *shadow) apply(w *world, c *store.RunCommit) {
	w.disk.nowhere(w, c)
	st := &c.State
	h := s.runs[c.Run]
	w.note("durable: %s is %s (%s), %d entries, wake %d", c.Run.ID, st.Status, st.Reason, st.Length, st.WakeUnixMs)
	for i := range c.Outbox {
		w.note("  command %d %x of %s to %s", c.Outbox[i].Kind, uint64(c.Outbox[i].ID.Seq), c.Run.ID, c.Outbox[i].To.ID)
	}
	switch {
	case c.Delete:
		if h == nil || !w.users.asked[c.Run.ID] || !h.state.Status.Terminal() {
			w.broken("an acknowledged start exists", "%s is deleted, and nobody asked for it", c.Run.ID)
		}
		h.deleted = true
		return
	case c.Create:
		if h != nil && !h.deleted && (!w.users.asked[c.Run.ID] || !h.state.Status.Terminal()) {
			w.broken("an acknowledged start exists", "%s is replaced while it is %s", c.Run.ID, h.state.Status)
		}
		if h == nil {
			s.keys = append(s.keys, c.Run)
		}
		h = &history{key: c.Run, j: &journal.Journal{}, lengths: map[uint32]int{}, signals: map[string]bool{},
			journal: map[uint32][]store.Entry{}, copied: len(c.Append) > 1 && c.Append[1].Kind != store.KindSignalAccepted,
			accepts: map[answerKey]bool{}, replies: map[answerKey]string{}}
		h.state = *st
		s.runs[c.Run], s.incs[st.Incarnation] = h, h
	}
	if h == nil || h.deleted || h.state.Incarnation != st.Incarnation {
		w.broken("commits fit to the store", "%s: a commit of a run that is not there", c.Run.ID)
	}
	h.at = w.step
	if b := c.Before; b != nil {
		s.load(w, h, b.Iteration, b.Append, false)
		if h.j.Ended() != store.KindContinued {
			w.broken("iterations end before the next one", "%s ends by %s", c.Run.ID, h.j.Ended())
		}
		h.j = &journal.Journal{}
	}
	s.load(w, h, st.Iteration, c.Append, c.Before != nil)
	if c.Before != nil {
		h.signals = s.pending(h)
	}
	h.state = *st
	if c.Create {
		h.version = w.inForce(h.j.Started(), h.j.Entries())
	}
	s.pinned(w, h)
	s.fits(w, h)
}

// pending returns the payloads of an iteration that has just begun.
func (s *shadow) pending(h *history) map[string]bool {
	for _, e := range h.j.All() {
		if e.Kind == store.KindSignalAccepted {
			h.signals[string(e.Data)] = true
		}
	}
	return h.signals
}

func (s *shadow) load(w *world, h *history, iteration uint32, entries []store.Entry, moved bool) {
	for i := range entries {
		e := entries[i]
		if err := h.j.Load(e); err != nil {
			w.broken("a journal can be read", "%s: %v", h.key.ID, err)
		}
		if e.UnixMs > w.maxWall {
			w.broken("no entry is ahead of the clock", "%s: entry %d (%s) is of %d, and the clock has shown %d", h.key.ID, e.Seq,
				e.Kind, e.UnixMs, w.maxWall)
		}
		if e.Kind == store.KindSignalAccepted && !moved {
			if h.signals[string(e.Data)] && !(s.copies && strings.HasPrefix(string(e.Data), "from ")) {
				w.broken("a signal is accepted once", "%s: %q", h.key.ID, e.Data)
			}
			h.signals[string(e.Data)] = true
		}
		if e.Kind == store.KindStepResult && !h.copied {
			w.effect.recorded(w, h, &e)
		}
		if h.version != nil { // else it begins as a copy does
			s.goesOn(w, h, iteration, &e)
			if !moved {
				s.accepted(w, h, iteration, &e)
			}
		}
		s.update(w, h, &e)
		h.journal[iteration] = append(h.journal[iteration], e)
	}
	h.lengths[iteration] += len(entries)
}

// fits checks that a state agrees with its journal.
func (s *shadow) fits(w *world, h *history) {
	st := &h.state
	say := func(format string, args ...any) {
		w.broken("the state and its wake are what the journal says", "%s is %s (%s), wake %d: %s", h.key.ID, st.Status, st.Reason,
			st.WakeUnixMs, fmt.Sprintf(format, args...))
	}
	if int(st.Length) != h.lengths[st.Iteration] {
		say("%d entries, %d are durable", st.Length, h.lengths[st.Iteration])
	}
	if st.Status.Terminal() != (h.j.Ended() != store.KindInvalid) {
		say("its journal ends by %s", h.j.Ended())
	}
	deadline, has := h.j.Deadline() // of one that is held, too
	if held := st.Status.Attention() && !(has && st.WakeUnixMs == deadline); (st.Status.Terminal() || held) && st.WakeUnixMs != store.NoWake {
		say("it is held")
	}
	if st.Aside != h.j.Aside() {
		say("set aside: %v", h.j.Aside())
	}
	held := h.j.Paused() || h.j.Aside() != store.NotAside
	if held != (st.Status == store.Paused) && st.Status != store.Stuck && !st.Status.Terminal() {
		say("paused: %v", h.j.Paused())
	}
	switch st.Status {
	case store.Queued, store.Running:
		if st.WakeUnixMs == store.NoWake {
			say("the next host would not take it up")
		}
	case store.Sleeping, store.Waiting:
		if at := h.j.Started().AtUnixMs; st.Reason == "until its start" {
			if st.WakeUnixMs != at {
				say("it begins at %d", at)
			}
			break
		}
		h.j.Suspend(st.Suspension)
		defer h.j.Resume()
		if h.j.Deliverable() {
			say("what it waits for is there")
		}
		at, ok := h.j.Wake()
		switch {
		case waitsForPlace(st) && st.WakeUnixMs != store.NoWake && st.WakeUnixMs <= w.maxWall: // at once
		case ok && (st.WakeUnixMs == store.NoWake || st.WakeUnixMs > at):
			say("it comes due at %d", at)
		case !ok && st.WakeUnixMs != store.NoWake && !unbegun(h):
			say("nothing comes due")
		}
	}
}

// waitsForPlace reports whether a step of a run waits for a place, or for its handler to be registered.
func waitsForPlace(st *store.RunState) bool {
	return strings.HasPrefix(st.Reason, "handler ") || strings.HasPrefix(st.Reason, "step ")
}

// unbegun reports whether a step may begin but has not.
func unbegun(h *history) bool {
	for x := range h.j.Handles {
		if x.Step != nil && x.Step.RetryMs <= h.state.WakeUnixMs {
			return true
		}
	}
	return false
}

// reported checks a commit that was reported to a shard.
func (s *shadow) reported(w *world, c *store.RunCommit) {
	if h := s.incs[c.State.Incarnation]; h == nil || !c.Delete && h.lengths[c.State.Iteration] < int(c.State.Length) {
		w.broken("what is reported as durable is durable", "%s: %d entries", c.Run.ID, c.State.Length)
	}
}

// replied checks that an answer to a caller is durable.
func (s *shadow) replied(w *world, name string, st store.RunState) {
	if st.Run.ID == "" {
		return
	}
	h := s.incs[st.Incarnation]
	if h == nil || h.lengths[st.Iteration] < int(st.Length) || st.Deleted && !h.deleted {
		w.broken("an answer comes after what it says is durable", "%s: %s, %d entries of iteration %d, durable %+v", name, st.Status,
			st.Length, st.Iteration, h)
	}
}

func (s *shadow) mustBe(w *world, key store.RunKey, i store.Incarnation) {
	if h := s.incs[i]; h == nil || h.key != key {
		w.broken("an acknowledged start exists", "%s", key.ID)
	}
}

func (s *shadow) mustHave(w *world, i store.Incarnation, payload string) {
	if h := s.incs[i]; h == nil || !h.signals[payload] {
		w.broken("an acknowledged signal exists", "%q", payload)
	}
}

func (s *shadow) mustEnd(w *world, h *history) {
	if !h.state.Status.Terminal() && s.runs[h.key] == h {
		w.note("terminated, and goes on: %s", h.key.ID) // it may be another run by now, or was retried
	}
}

// started checks that the cause of an attempt is durable.
func (s *shadow) started(w *world, a *run.Attempt) {
	rule := "an attempt starts after its cause is durable"
	h := s.incs[a.Run.Incarnation]
	if h == nil || h.lengths[a.Run.Iteration] < len(a.Entries) {
		w.broken(rule, "run %s, step %s, entry %d", a.Run.Run.ID, a.Name, a.Seq)
	}
	s.attempted(w, h, a)
	entries := h.journal[a.Run.Iteration]
	if entries[a.Seq].Name != a.Name {
		w.broken(rule, "run %s, entry %d is not step %s", a.Run.Run.ID, a.Seq, a.Name)
	}
	recorded := a.Number == 1 && !a.Options.AtMostOnce
	for i := range entries {
		e := &entries[i]
		recorded = recorded || e.Kind == store.KindAttemptStarted && e.Handle == a.Handle && e.Attempt == a.Number
	}
	if !recorded {
		w.broken(rule, "run %s, attempt %d of step %s is not recorded", a.Run.Run.ID, a.Number, a.Name)
	}
}

// stuck checks why a run became stuck.
func (s *shadow) stuck(w *world, n shard.Report) {
	if !strings.HasPrefix(n.State.Reason, "poison") && !strings.HasPrefix(n.State.Reason, "the host failed") {
		w.broken("no run gets stuck", "%s: %s", n.Run.ID, n.State.Reason)
	}
}

// left reports whether a command is an answer that a failed run needs if it is retried: it stays in the inbox.
func (s *shadow) left(cmd store.Command) bool {
	h := s.runs[cmd.To]
	if h == nil || h.state.Status != store.Failed || cmd.ToIncarnation != h.state.Incarnation || cmd.Kind != store.CommandReply {
		return false
	}
	var m run.Message
	if err := json.Unmarshal(cmd.Data, &m); err != nil || m.Iteration != h.state.Iteration {
		return false
	}
	sent := h.j.Handle(m.Handle)
	return sent != nil && sent.Kind == store.KindSignalSend && sent.Open()
}

// check checks all live runs: each must have a reason to continue.
func (w *world) check() {
	for _, key := range w.seen.keys {
		h := w.seen.runs[key]
		o := w.owner[key.Partition()]
		if !o.up || o.failed || o.stands() {
			continue
		}
		x := o.writerOf(key.Partition())
		if x.shard.Partition(key.Partition()) == nil || !x.settled() {
			continue // it is being acquired, or has not processed everything yet
		}
		x.check(h)
	}
}

// check checks a run of this writer, after the writer has processed all of its mail.
func (x *writer) check(h *history) {
	w, key := x.w, h.key
	r := x.shard.Run(key)
	from, at := x.shard.Source(key, h.state.WakeUnixMs)
	say := func(rule, text string) {
		w.broken(rule, "%s: %s is durably %s (%s), wake %d, now %d, source %d at %d, in memory %v: %s", x.name(), key.ID, h.state.Status,
			h.state.Reason, h.state.WakeUnixMs, x.h.now(), from, at, r != nil, text)
	}
	if r != nil && r.Lent() || r != nil && r.Computes() {
		if a := guestOf(r.Lease()); a.dead {
			say("a live run goes on", "its guest is gone")
		}
		return
	}
	if from == shard.SourceWork {
		if x.loads[key] == 0 && x.commits == 0 {
			say("a live run goes on", "it is neither read nor committed")
		}
		return
	}
	if r != nil {
		for _, a := range r.Attempts() {
			wk, _ := a.Performer.(*work)
			if a.Fork == nil && (wk == nil || wk.end == nil || wk.end.gone && !wk.dropped) {
				say("a live run goes on", "attempt of "+a.Name+" is not performed")
			}
		}
	}
	if _, has := h.j.Deadline(); has && !h.deleted && h.state.Status.Attention() {
		return // the deadline ends it, although it is held
	}
	if h.deleted || h.state.Status.Terminal() || h.state.Status.Attention() {
		if from == shard.SourceTimer && r != nil { // otherwise it was read from the index before the end
			say("an ended or held run has no timer", "")
		}
		return
	}
	busy := x.shard.Stats(x.h.now()).Runs >= w.p.busy
	if from == shard.SourceTimer && !busy && o(x) && (!x.hasAlarm || x.alarm > at) {
		say("a timer has an alarm", fmt.Sprint("alarm ", x.hasAlarm, x.alarm))
	}
	wake := h.state.WakeUnixMs
	if wake == store.NoWake || r != nil && r.Running() {
		return
	}
	due := wake <= x.h.now()
	switch {
	case from == shard.SourceNone:
		say("a live run has a wake source that is still to come", "")
	case from == shard.SourceUnreadable:
		say("a run that can be read is read", "")
	case strings.HasPrefix(h.state.Reason, "handler "):
	case from == shard.SourceTimer && at > max(wake, w.maxWall)+10_000 && !due:
		say("a wake comes in time", "")
	case from == shard.SourceTimer && at > x.h.now() && due && r != nil && !r.Running() && h.state.Status != store.Waiting:
		if at > x.h.now()+10_000 {
			say("a wake comes in time", "it is due")
		}
	}
}

// o reports whether a writer fires timers.
func o(x *writer) bool { return x.h.active }

// replays checks that a journal can be replayed to the same end.
func (w *world) replays(h *history) {
	entries := h.j.Entries()
	if _, begun := h.j.StartedUnixMs(); !begun || w.forced(h.j.Started(), entries) {
		return
	}
	verify := func(v *version, strict bool) {
		cfg := replay.Config{Mode: replay.Check, Strict: !h.copied}
		if !strict {
			cfg.Tuned = check.Tuned(entries)
		}
		g := &env{wait: func() error { return errElsewhere }}
		code, err := w.replay(h.j, entries, v, cfg, g)
		var mismatch *replay.Mismatch
		if errors.As(err, &mismatch) {
			w.broken("a journal replays", "%s by %d, strictly %v: %v", h.key.ID, v.number, strict, mismatch)
		}
		if h.j.Ended() == store.KindCompleted {
			if err == nil {
				err = g.m.LeftOver()
			}
			end := entries[len(entries)-1]
			if err != nil || code != 0 || string(g.m.Outcome().Result) != string(end.Data) {
				w.broken("a journal replays", "%s by %d: code %d, %v, result %q, recorded %q", h.key.ID, v.number, code, err,
					g.m.Outcome().Result, end.Data)
			}
		}
	}
	verify(h.version, false)
	w.alike(h, verify)
}
