package sched

import (
	"context"
	"fmt"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// Restart starts a new run like one that is there: the same workflow, version, input and random seed, under a new id
// and incarnation. With a name it begins with the journal before the call of that name, and with what came of the
// calls before it; steps that were open then are run again, under new idempotency keys. A hook, or a child whose
// outcome is not known, is not repeated by copying: the copy ends before it.
func (s *Scheduler) Restart(ctx context.Context, from, to store.RunKey, name string) (st store.RunState, err error) {
	if err := s.usable(); err != nil {
		return st, err
	}
	var copied []store.Entry
	var n NewRun
	var seed []byte
	err = s.with(ctx, from, func(o *owner) error {
		started := o.journal.Started()
		entries := o.journal.Entries()
		n = NewRun{Key: to, Workflow: o.state.Workflow, Version: o.ident.version, Module: o.ident.module,
			Input: entries[0].Input, InputDigest: o.state.InputDigest, Attributes: started.Attributes, Conflict: ConflictFail}
		seed = started.Seed
		if name == "" {
			return nil
		}
		copied, err = upTo(o.journal, name)
		return err
	})
	if err != nil {
		return st, err
	}
	n.restart = &restart{seed: seed, entries: copied}
	defer s.HoldVersions()()
	st, _, err = s.Start(ctx, n)
	return st, err
}

// restart is what a run that repeats another one takes from it.
type restart struct {
	seed    []byte
	entries []store.Entry // after entry 0
}

// upTo gives the entries before the call of a name, and the later deliveries of the calls among them.
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
		case i < cut && e.Kind == store.KindClock:
		default:
			continue
		}
		if e.Kind == store.KindSignal {
			ref, ok := seqs[e.Ref]
			if !ok {
				continue // the signal came after the cut
			}
			e.Ref = ref
		}
		seq := store.Seq(len(list) + 1)
		seqs[e.Seq] = seq
		e.Seq = seq
		list = append(list, e)
	}
	return list, nil
}

// replayInto appends copied entries to a journal that has entry 0.
func (r *restart) replayInto(j *journal.Journal) error {
	for _, e := range r.entries {
		e.UnixMs = max(e.UnixMs, j.LastUnixMs())
		if err := j.Load(e); err != nil {
			return err
		}
	}
	return nil
}
