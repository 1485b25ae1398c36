package sim

import (
	"errors"
	"fmt"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/shard"
	"github.com/wfhost/wfhost/store"
)

// users are those who call the API.
type users struct {
	ids     []string // of the runs that they start
	tokens  []string // that workflows choose
	n       int
	keyed   []sent          // signals with an idempotency key, which may be repeated
	asked   map[string]bool // runs that may be replaced or deleted
	waiting map[*request]bool
	order   []*request

	tickets map[ticket]bool // what was checked, and fits
	sent    []*updating
	asks    map[string]store.Seq // lengths of journals when workflows were asked about updates, by the updates' data
	acked   map[answerKey]bool   // updates that users were told were accepted
	told    map[answerKey]string // last status reported to users, once it is final
	// What was seen of them.
	migrations, unfit, updates, answers int
}

type sent struct {
	id string
	s  run.Signal
}

// request is a call without an answer so far.
type request struct {
	name string
	h    *host
}

func (u *users) init(w *world) {
	u.asked, u.waiting = map[string]bool{}, map[*request]bool{}
	u.tickets, u.acked, u.told = map[ticket]bool{}, map[answerKey]bool{}, map[answerKey]string{}
	u.asks = map[string]store.Seq{}
	for i := range 3 + w.rng.IntN(4) {
		u.ids = append(u.ids, w.idIn(fmt.Sprint("r", i)))
	}
	u.ids = append(u.ids, w.idIn("nobody"))
	for i := range 2 {
		u.tokens = append(u.tokens, w.idIn(fmt.Sprint("token-of-the-workflow-", i)))
	}
}

func (u *users) hostDied(h *host) {
	for _, r := range u.order {
		if r.h == h {
			delete(u.waiting, r)
		}
	}
	u.tidy()
}

func (u *users) tidy() {
	kept := u.order[:0]
	for _, r := range u.order {
		if u.waiting[r] {
			kept = append(kept, r)
		}
	}
	u.order = kept
}

// call is like calls, for callers that ignore errors.
func (u *users) call(w *world, id string, name string, ev run.Event, check func(run.Answer)) {
	u.calls(w, id, name, ev, func(a run.Answer, err error) {
		if err == nil && check != nil {
			check(a)
		}
	})
}

// calls delivers an event through the host that owns the run's partition, rarely through another one, and calls check
// with the outcome.
func (u *users) calls(w *world, id string, name string, ev run.Event, check func(run.Answer, error)) {
	key := store.RunKey{ID: id}
	h := w.owner[key.Partition()]
	if w.odds(1, 50) {
		h = w.hosts[w.rng.IntN(len(w.hosts))]
	}
	if !h.up || h.failed || !w.disk.admits(w, ev) {
		return
	}
	r := &request{name: name + " " + id, h: h}
	u.waiting[r] = true
	u.order = append(u.order, r)
	w.note("user: %s to %s", r.name, h.name)
	x := h.writerOf(key.Partition())
	x.post(func(now int64) {
		x.shard.Deliver(now, key, ev, func(a run.Answer, err error) {
			w.note("answer: %s: %v, changed %v created %v", r.name, err, a.Changed, a.Created)
			if !u.waiting[r] {
				w.broken("a caller is answered once", "%s", r.name)
			}
			delete(u.waiting, r)
			u.tidy()
			u.look(w, r.name, key, err)
			if err == nil {
				w.seen.replied(w, r.name, *a.State)
			}
			check(a, err)
		})
	})
}

// look checks that an error is one of the expected ones.
func (u *users) look(w *world, name string, key store.RunKey, err error) {
	switch {
	case err == nil, errors.Is(err, shard.ErrLost), errors.Is(err, shard.ErrNotOwned), errors.Is(err, run.ErrTerminal),
		errors.Is(err, run.ErrIllegal), errors.Is(err, run.ErrAside), errors.Is(err, store.ErrExists), errors.Is(err, errIO):
	case strings.HasPrefix(name, "move") && isConflict(err): // something is in the way
	case errors.Is(err, store.ErrNotFound):
		if h := w.seen.runs[key]; h != nil && !h.deleted && h.at < w.step-2000 {
			w.note("not found: %s", name)
		}
	default:
		w.broken("an error is one of those that are documented", "%s: %v", name, err)
	}
}

func isConflict(err error) bool {
	e, ok := errors.AsType[*abi.Error](err)
	return ok && e.Code == abi.Conflict
}

// act performs a random action of a user.
func (u *users) act(w *world) {
	u.n++
	id := u.ids[w.rng.IntN(len(u.ids)-1)]
	if w.odds(1, 8) { // another run, such as a child
		if all := w.seen.keys; len(all) > 0 {
			id = all[w.rng.IntN(len(all))].ID
		}
	}
	h := w.seen.runs[store.RunKey{ID: id}]
	if h == nil || h.deleted || w.odds(1, 6) {
		u.start(w, u.ids[w.rng.IntN(len(u.ids)-1)])
		return
	}
	if h.state.Status == store.Failed && w.odds(1, 3) {
		u.retry(w, id, h)
		return
	}
	switch w.rng.IntN(24) {
	case 0, 1, 2, 3, 4:
		u.signal(w, id)
	case 5:
		u.call(w, id, "cancel", run.Cancel{}, nil)
	case 6:
		if w.odds(1, 2) {
			u.call(w, id, "terminate", run.Terminate{}, func(run.Answer) { w.seen.mustEnd(w, h) })
		}
	case 7:
		u.call(w, id, "pause", run.Pause{}, nil)
	case 8, 9:
		u.call(w, id, "unpause", run.Unpause{}, nil)
	case 10, 11:
		u.call(w, id, "wake", run.Wake{}, nil)
	case 12:
		u.retry(w, id, h)
	case 13:
		u.restart(w, id, h)
	case 14:
		u.asked[id] = true
		parent := w.seen.runs[store.RunKey{ID: h.state.Parent}]
		u.call(w, id, "delete", run.Delete{Alone: parent != nil && (parent.deleted || !h.state.Asked(&parent.state))}, nil)
	case 15, 16, 17:
		u.migrate(w, id, h)
	case 18, 19, 20, 21:
		u.update(w, id, h)
	case 22:
		u.move(w, id, h)
	case 23:
		u.call(w, id, "look", run.Look{Func: func(r *run.Run) error {
			if !r.Exists() {
				w.broken("a run that is looked at is there", "%s", id)
			}
			return nil
		}}, nil)
	}
}

func (u *users) start(w *world, id string) {
	f := w.flows[w.rng.IntN(len(w.flows))]
	v := f.versions[w.rng.IntN(len(f.versions))]
	input := fmt.Appendf(nil, `{"n":%d}`, w.rng.IntN(2))
	n := run.NewRun{Key: store.RunKey{ID: id}, Workflow: f.name, Version: v.number, Module: v.module, Input: input,
		InputDigest: run.InputDigest(input), Conflict: run.ConflictPolicy(w.rng.IntN(4))}
	w.fill(&n)
	if w.odds(1, 3) { // if it is deleted, nothing may be left of it
		n.ID = store.IDDrawn
	}
	if w.odds(1, 5) {
		n.AtUnixMs = w.wall + w.between(-1000, 100_000)
	}
	if w.odds(1, 6) {
		n.TimeoutMs = w.between(1, 200_000)
	}
	if w.odds(1, 5) {
		n.Signal = &run.Signal{Name: "s0", Data: fmt.Appendf(nil, "with the start %d", u.n)}
	}
	if n.Conflict >= run.ConflictTerminate {
		u.asked[id] = true
	}
	u.call(w, id, fmt.Sprintf("start %d (policy %d)", u.n, n.Conflict), run.Start{New: n}, func(a run.Answer) {
		if a.Created {
			w.seen.mustBe(w, n.Key, n.Incarnation)
		}
	})
}

func (u *users) signal(w *world, id string) {
	s := run.Signal{Name: signalNames[w.rng.IntN(len(signalNames))], Data: fmt.Appendf(nil, "signal %d", u.n)}
	if w.odds(1, 2) {
		s.IdempotencyKey = fmt.Sprint("key", u.n)
		u.keyed = append(u.keyed, sent{id, s})
	}
	if len(u.keyed) > 0 && w.odds(1, 3) { // one that may have come before
		old := u.keyed[w.rng.IntN(len(u.keyed))]
		id, s = old.id, old.s
	}
	u.call(w, id, "signal "+string(s.Data), s, func(a run.Answer) {
		if a.Changed {
			w.seen.mustHave(w, a.State.Incarnation, string(s.Data))
		}
	})
}

func (u *users) retry(w *world, id string, h *history) {
	r := run.Retry{}
	f := w.byMod[h.state.Module].flow
	n := f.versions[w.rng.IntN(len(f.versions))]
	if w.odds(1, 2) && (n.family == h.version.family || w.odds(1, 3)) { // which is not checked
		v, err := w.db.Modules().Version(ctx, 0, f.name, n.number)
		if err != nil {
			panic(err)
		}
		r.Version = &v
	}
	u.call(w, id, "retry", r, nil)
}

// restart restarts a run, as runtime.Restart does.
func (u *users) restart(w *world, from string, h *history) {
	to := u.ids[w.rng.IntN(len(u.ids)-1)]
	name := ""
	if entries := h.j.Entries(); w.odds(2, 3) {
		name = entries[w.rng.IntN(len(entries))].Name
	}
	var n run.NewRun
	u.call(w, from, "copy", run.Look{Func: func(r *run.Run) (err error) {
		x, err := r.Restart(nil, name)
		if err == nil && len(x.Plan.Open)+len(x.Plan.Undone) > 0 {
			return run.ErrIllegal // as the host does when the outcomes of kept calls are not looked up
		}
		if err == nil {
			err = x.Finish()
		}
		n = x.New
		return err
	}}, func(run.Answer) {
		w.fill(&n)
		n.Key.ID = to
		w.seen.copies = true
		u.call(w, to, "restart of "+from+" from "+name, run.Start{New: n}, func(a run.Answer) {
			if a.Created {
				w.seen.mustBe(w, n.Key, n.Incarnation)
			}
		})
	})
}

// push provides what a run waits for from a user, and reports whether it did.
func (u *users) push(w *world, h *history) bool {
	id := h.key.ID
	if h.state.Aside == store.AsideMoved {
		u.takeBack(w, id)
		return true
	}
	switch h.state.Status {
	case store.Paused:
		u.call(w, id, "unpause", run.Unpause{}, nil)
		return true
	case store.Stuck:
		u.call(w, id, "terminate", run.Terminate{}, nil)
		return true
	}
	_, retried := h.j.Retried()
	for x := range h.j.Handles {
		if retried && x.Kind == store.KindSignalSend { // the answer came after the run had failed, and is not requested again
			u.call(w, id, "terminate", run.Terminate{}, nil)
			return true
		}
		if x.Kind == store.KindSignalWait {
			u.n++
			s := run.Signal{Name: x.Name, Data: fmt.Appendf(nil, "push %d", u.n)}
			if strings.HasPrefix(x.Name, abi.UpdatePrefix) {
				s.IdempotencyKey = fmt.Sprint("push", u.n)
			}
			u.call(w, id, "signal "+x.Name, s, nil)
			return true
		}
	}
	return false
}
