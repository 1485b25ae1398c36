package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// RestartRequest says what of a run a new run repeats.
type RestartRequest struct {
	Of         store.RunKey
	From       string         // name of the first call that is made again; empty: all are
	Iteration  *uint32        // nil: the newest one that has From, or the first one
	Version    *store.Version // under which the new run goes on; nil: that of what it repeats
	KeepUndone bool           // keeps what was undone later, and children that were cancelled
}

// Restart is a restart that was planned.
type Restart struct {
	run.Restart
	Refused error // why it is refused; nil if it is not
}

// PlanRestart plans a restart. An error says that there is nothing to be planned: no such run, iteration or call. What the new
// run would have to repeat, or could not have, is in Refused, which is of run.ErrIllegal.
func (r *Runs) PlanRestart(ctx context.Context, q RestartRequest) (x Restart, err error) {
	j, err := r.repeated(ctx, &q)
	if err != nil {
		return x, err
	}
	err = r.Look(ctx, q.Of, func(of *run.Run) (err error) {
		x.Restart, err = of.Restart(j, q.From)
		if j == nil { // entries are never changed
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

// Restart starts the run of a restart that was planned and is not refused.
func (r *Runs) Restart(ctx context.Context, x *Restart, to store.RunKey) (st store.RunState, err error) {
	err = r.take(ctx, to, x.Plan.Hooks, func() error {
		if err := r.tokens(ctx, to.Namespace, x.Plan.Hooks); err != nil { // taken since it was planned
			return fmt.Errorf("run %q: %w", x.Plan.Copy.Started.RunID, err)
		}
		return nil
	}, func() error {
		st, err = r.startCopy(ctx, x, to)
		return err
	})
	return st, err
}

func (r *Runs) startCopy(ctx context.Context, x *Restart, to store.RunKey) (st store.RunState, err error) {
	n := x.New
	n.Key = to
	free := r.versions.Hold()
	if _, err := r.store.Modules().Version(ctx, to.Namespace, n.Workflow, n.Version); err != nil { // it was deleted since
		free()
		return st, err
	}
	a, err := r.begin(ctx, n, free)
	if err != nil {
		return st, err
	}
	return *a.State, nil
}

// repeated returns the journal of the iteration that is repeated, nil for the newest one.
func (r *Runs) repeated(ctx context.Context, q *RestartRequest) (*journal.Journal, error) {
	var newest, first uint32
	here := false
	err := r.Look(ctx, q.Of, func(of *run.Run) error {
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
			break // those before it are gone, too
		}
		if err != nil || run.Has(j, q.From) {
			return j, err
		}
	}
	return nil, nil // which says that there is none
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

// versionOf sets the version under which the new run goes on.
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

// undone refuses a restart that keeps what was undone.
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

// outcomes gives children that were open when the run ended the outcomes that they have had since.
func (r *Runs) outcomes(ctx context.Context, q *RestartRequest, j *journal.Journal, p *run.Plan) error {
	by := r.senderOf(j)
	for i := range p.Open {
		o := &p.Open[i]
		if o.Kind == store.KindSignalSend { // its command is in the commit of its call
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

// NoteChildren notes in a plan which children the new run cannot start again, since the ids that its workflow has chosen for them
// are taken: the first ones are there, or were deleted not long ago.
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

// senderOf returns the message by which a child knows the iteration that has started it.
func (r *Runs) senderOf(j *journal.Journal) run.Message {
	s := j.Started()
	m := run.Message{Iteration: s.Iteration}
	if i, err := run.ParseIncarnation(s.Incarnation); err == nil {
		m.Sender = i
	}
	return m
}

// childEnd returns the entry with which a child has ended, the zero Entry if it lives.
func (r *Runs) childEnd(ctx context.Context, key store.RunKey, by run.Message, handle int64) (end store.Entry, err error) {
	by.Handle = handle
	err = r.Look(ctx, key, func(of *run.Run) error {
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

// tokens refuses a restart if another run has a token that the new one claims.
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

// hooksOfEnded returns the hooks whose tokens a run that has ended held. A live run holds them itself.
func (r *Runs) hooksOfEnded(ctx context.Context, key store.RunKey) (hooks []journal.Handle) {
	_ = r.Look(ctx, key, func(of *run.Run) error { // without it, the retry itself says what is wrong with the run
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

// takenOver refuses a retry if another run has taken over a token of this one, as one that repeats it does.
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

// holder returns the live run that has claimed a token, or is about to.
func (r *Runs) holder(ctx context.Context, ns store.NamespaceID, token string) (id string, held bool, err error) {
	h, held, err := r.store.Hook(ctx, ns, token)
	if held && err == nil {
		held, err = r.lives(ctx, h) // else its end gives the token up, which is in the store already
	}
	if id, taken := r.taker(ctx, ns, token); !held && err == nil && taken {
		return id, true, nil
	}
	return h.Run.ID, held, err
}

// lives reports whether the run that holds a token is in the iteration that has claimed it.
func (r *Runs) lives(ctx context.Context, h store.HookHolder) (lives bool, err error) {
	err = r.Look(ctx, h.Run, func(of *run.Run) error {
		j := of.Journal()
		lives = j.Ended() == store.KindInvalid && of.State().Incarnation == h.Incarnation && j.Started().Iteration == h.Iteration
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return lives, err
}

// ownToken returns the run that holds a token which was made for it.
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
