package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// RestartRequest selects the part of a run that a new run repeats.
type RestartRequest struct {
	Of         store.RunKey
	From       string         // name of the first call that is made again; empty: all calls are
	Iteration  *uint32        // nil: the newest iteration with the call From, or the first iteration if From is empty
	Version    *store.Version // the new run's version; nil: the version of the repeated iteration
	KeepUndone bool           // keeps results that were undone later, and children that were cancelled
}

// Restart is a planned restart.
type Restart struct {
	run.Restart
	Refused error // why the restart is refused, nil if it is not
}

// PlanRestart plans a restart. It returns an error if there is no such run, iteration, call or version. If the journal can be
// repeated but undone, outcomes or tokens refuses the restart, it sets Refused, an error of run.ErrIllegal.
func (r *Runs) PlanRestart(ctx context.Context, q RestartRequest) (x Restart, err error) {
	j, err := r.repeated(ctx, &q)
	if err != nil {
		return x, err
	}
	err = r.Read(ctx, q.Of, func(of *run.Run) (err error) {
		x.Restart, err = of.Restart(j, q.From)
		if j == nil { // entries are immutable
			j = of.Journal().Snapshot()
		}
		return err
	})
	if err != nil {
		return x, err
	}
	if err := r.versionOf(ctx, &q, &x); err != nil {
		return x, err
	}

	for _, check := range []func() error{
		func() error { return undone(&q, x.Plan) },
		func() error { return r.outcomes(ctx, &q, j, x.Plan) },
		func() error { return r.tokens(ctx, q.Of.Namespace, x.Plan.Hooks) },
	} {
		if err := check(); err != nil && !errors.Is(err, run.ErrIllegal) {
			return x, err
		} else if err != nil {
			x.Refused = fmt.Errorf("run %q: %w", q.Of.ID, err)
			break
		}
	}
	return x, x.Finish()
}

// Restart starts the run of a planned restart that is not refused. elsewhere, unless nil, starts it at the host that owns it.
func (r *Runs) Restart(ctx context.Context, x *Restart, to store.RunKey, elsewhere func() error) (st store.RunState, err error) {
	err = r.takeOver(ctx, to, x.Plan.Hooks, func() error {
		if err := r.tokens(ctx, to.Namespace, x.Plan.Hooks); err != nil { // claimed since the restart was planned
			return fmt.Errorf("run %q: %w", x.Plan.Copy.Started.RunID, err)
		}
		return nil
	}, func() error {
		if elsewhere == nil {
			st, err = r.startCopy(ctx, x, to)
		} else if err = elsewhere(); err == nil {
			st, err = r.Durable(ctx, to)
		}
		return err
	})
	return st, err
}

func (r *Runs) startCopy(ctx context.Context, x *Restart, to store.RunKey) (st store.RunState, err error) {
	n := x.New
	n.Key = to
	free := r.versions.LockDeletions()
	if _, err := r.store.Modules().Version(ctx, to.Namespace, n.Workflow, n.Version); err != nil { // deleted since the plan
		free()
		return st, err
	}
	a, err := r.begin(ctx, n, free)
	if err != nil {
		return st, err
	}
	return *a.State, nil
}

// repeated returns the journal of the iteration to repeat, nil for the newest iteration.
func (r *Runs) repeated(ctx context.Context, q *RestartRequest) (*journal.Journal, error) {
	var newest, first uint32
	here := false
	err := r.Read(ctx, q.Of, func(of *run.Run) error {
		newest, first = of.Journal().Started().Iteration, of.Journal().Started().First
		here = q.From != "" && run.Has(of.Journal(), q.From)
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case q.Iteration != nil && *q.Iteration > newest:
		return nil, fmt.Errorf("run %q: %w: iteration %d, the newest one is %d", q.Of.ID, store.ErrNotFound, *q.Iteration, newest)
	case q.Iteration != nil && *q.Iteration < first:
		return nil, fmt.Errorf("run %q: %w: iteration %d, it began with iteration %d, as the run that it repeats was in that one",
			q.Of.ID, store.ErrNotFound, *q.Iteration, first)
	case q.Iteration != nil && *q.Iteration == newest, q.Iteration == nil && (here || newest == first):
		return nil, nil
	case q.Iteration != nil:
		return r.earlier(ctx, q.Of, *q.Iteration)
	case q.From == "":
		return r.earlier(ctx, q.Of, first)
	}
	for i := newest; i > first; i-- {
		j, err := r.earlier(ctx, q.Of, i-1)
		if errors.Is(err, store.ErrNotFound) {
			break // earlier journals are gone, too
		}
		if err != nil || run.Has(j, q.From) {
			return j, err
		}
	}
	return nil, nil // PlanRestart then fails because the newest iteration has no such call
}

// earlier reads the journal of an earlier iteration.
func (r *Runs) earlier(ctx context.Context, key store.RunKey, iteration uint32) (*journal.Journal, error) {
	j := &journal.Journal{}
	for e, err := range r.store.Load(ctx, key, iteration, 0) {
		if err == nil {
			err = j.Load(e)
		}
		if err != nil {
			return nil, err
		}
	}
	if j.Len() == 0 {
		return nil, fmt.Errorf("run %q: %w: the journal of iteration %d is not kept any more; name a later one", key.ID,
			store.ErrNotFound, iteration)
	}
	return j, nil
}

// versionOf sets the new run's version.
func (r *Runs) versionOf(ctx context.Context, q *RestartRequest, x *Restart) error {
	n := &x.New
	if v := q.Version; v != nil {
		if v.Workflow != n.Workflow {
			return run.Refuse("run %q is one of workflow %q, not of %q", q.Of.ID, n.Workflow, v.Workflow)
		}
		n.Version, n.Module = v.Number, v.Module
		return nil
	}
	v, err := r.store.Modules().Version(ctx, q.Of.Namespace, n.Workflow, n.Version)
	if err == nil && n.Version == 0 || errors.Is(err, store.ErrNotFound) || err == nil && v.Module != n.Module {
		return run.Refuse("run %q: the version under which iteration %d went on is not there any more: name another one", q.Of.ID,
			x.Plan.Copy.Started.Iteration)
	}
	return err
}

// undone refuses a restart that keeps results which were undone, unless KeepUndone is set.
func undone(q *RestartRequest, p *run.Plan) error {
	if len(p.Undone) == 0 || q.KeepUndone {
		return nil
	}
	if u := p.Undone[0]; u.Name != "" {
		return run.Refuse("the new run would keep the result of %q, which %s has undone: restart from %[1]q or earlier, or from "+
			"the beginning", u.Name, u.By)
	}
	return run.Refuse("the new run would keep what came before %q, and %s may have undone some of it: restart from the beginning",
		q.From, p.Undone[0].By)
}

// outcomes adds to a plan the outcomes of children that were open when the run ended. It refuses the restart if a child still
// runs, is gone, or, unless KeepUndone is set, was cancelled or terminated.
func (r *Runs) outcomes(ctx context.Context, q *RestartRequest, j *journal.Journal, p *run.Plan) error {
	by := r.senderOf(j)
	for i := range p.Open {
		o := &p.Open[i]
		if o.Kind == store.KindSignalSend { // sent: the signal's command is in the same commit as the call
			p.Resolve(o, store.Entry{Kind: store.KindSignalSent}, "it was sent")
			continue
		}
		end, err := r.childEnd(ctx, store.RunKey{Namespace: q.Of.Namespace, ID: o.ChildID}, by, o.Handle)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return run.Refuse("its child %q (run %s), which began before %q, is not there any more, and would be started again: "+
				"restart from %[1]q or earlier", o.Name, o.ChildID, q.From)
		case err != nil:
			return err
		case end.Kind == store.KindInvalid:
			return run.Refuse("its child %q (run %s), which began before %q, is still running: wait for its end, or restart from "+
				"%[1]q or earlier", o.Name, o.ChildID, q.From)
		}
		status := end.Kind.Status()
		if (status == store.Cancelled || status == store.Terminated) && !q.KeepUndone {
			return run.Refuse("its child %q (run %s), which began before %q, was %s since: restart from %[1]q or earlier",
				o.Name, o.ChildID, q.From, status)
		}
		p.Resolve(o, run.Outcome(j, o.Handle, &end), "run "+o.ChildID+" "+status.String())
	}
	return nil
}

// NoteChildren notes in a plan which children the new run cannot start again because the ids that the workflow chose for them
// are taken: the original children exist, or their ids are not free yet after a deletion.
func (r *Runs) NoteChildren(ctx context.Context, ns store.NamespaceID, p *run.Plan, now int64) error {
	for i := range p.Repeated {
		c := &p.Repeated[i]
		if c.Child == "" {
			continue
		}
		st, err := r.store.State(ctx, store.RunKey{Namespace: ns, ID: c.Child})
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		n := run.NewRun{}
		if n.IDsMs, err = r.ids(ctx, ns); err != nil {
			return err
		}
		if !run.Forgotten(&st, &n, now) {
			c.Note = "it fails: the id " + c.Child + " is taken"
		}
	}
	return nil
}

// senderOf returns the sender fields that a child has recorded of the iteration that started it.
func (r *Runs) senderOf(j *journal.Journal) run.Message {
	s := j.Started()
	m := run.Message{Iteration: s.Iteration}
	if i, err := run.ParseIncarnation(s.Incarnation); err == nil {
		m.Sender = i
	}
	return m
}

// childEnd returns the last entry of a child that has ended, the zero Entry if the child is live.
func (r *Runs) childEnd(ctx context.Context, key store.RunKey, by run.Message, handle int64) (end store.Entry, err error) {
	by.Handle = handle
	err = r.Read(ctx, key, func(of *run.Run) error {
		j := of.Journal()
		if !run.StartedBy(j.Started(), &by) {
			return store.ErrNotFound // another run has its id
		}
		if entries := j.Entries(); j.Ended() != store.KindInvalid {
			end = entries[len(entries)-1]
		}
		return nil
	})
	return end, err
}

// tokens refuses a restart if another run holds a token that the new run claims.
func (r *Runs) tokens(ctx context.Context, ns store.NamespaceID, hooks []journal.Handle) error {
	for _, h := range hooks {
		id, held, err := r.holder(ctx, ns, h.Token)
		if !held && err == nil {
			id, held, err = r.ownToken(ctx, ns, h.Token)
		}
		if err != nil {
			return err
		}
		if held {
			return run.Refuse("the new run would take over the token of hook %q, which run %q holds: end that run first, or restart "+
				"from before the hook", h.Name, id)
		}
	}
	return nil
}

// hooksOfEnded returns the hooks whose tokens an ended run held, and nil for a live run, which still holds its tokens.
func (r *Runs) hooksOfEnded(ctx context.Context, key store.RunKey) (hooks []journal.Handle) {
	_ = r.Look(ctx, key, func(of *run.Run) error { // on an error the retry itself fails and reports it
		j := of.Journal()
		for id := int64(1); j.Ended() != store.KindInvalid && j.Handle(id) != nil; id++ {
			if h := j.Handle(id); h.Kind == store.KindHook && h.Resolved && !h.Refused && !h.Withdrawn {
				hooks = append(hooks, *h)
			}
		}
		return nil
	})
	return hooks
}

// takenOver refuses a retry if another run, such as a restart, has taken over a token of the run.
func (r *Runs) takenOver(ctx context.Context, key store.RunKey, hooks []journal.Handle) error {
	for _, h := range hooks {
		id, held, err := r.holder(ctx, key.Namespace, h.Token)
		if err != nil {
			return err
		}
		if held && id != key.ID {
			return run.Refuse("run %q has taken over the token of hook %q: end that run first", id, h.Name)
		}
	}
	return nil
}

// holder returns the live run that has claimed a token or is taking it over.
func (r *Runs) holder(ctx context.Context, ns store.NamespaceID, token string) (id string, held bool, err error) {
	h, held, err := r.store.Hook(ctx, ns, token)
	if held && err == nil {
		held, err = r.lives(ctx, h) // if not, the release of the token is already a command in the store
	}
	if id, taken := r.taker(ctx, ns, token); !held && err == nil && taken {
		return id, true, nil
	}
	return h.Run.ID, held, err
}

// lives reports whether the run that holds a token is live and still in the iteration that claimed the token.
func (r *Runs) lives(ctx context.Context, h store.HookHolder) (lives bool, err error) {
	err = r.Read(ctx, h.Run, func(of *run.Run) error {
		j := of.Journal()
		lives = j.Ended() == store.KindInvalid && of.State().Incarnation == h.Incarnation && j.Started().Iteration == h.Iteration
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return lives, err
}

// ownToken returns the run that holds a generated token, which names its run.
func (r *Runs) ownToken(ctx context.Context, ns store.NamespaceID, text string) (id string, held bool, err error) {
	id, ok := run.RunOfToken(text)
	if !ok {
		return "", false, nil
	}
	_, err = r.hookOf(ctx, store.RunKey{Namespace: ns, ID: id}, text)
	if errors.Is(err, store.ErrNotFound) {
		return "", false, nil
	}
	return id, err == nil, err
}
