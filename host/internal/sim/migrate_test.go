package sim

import (
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/host/internal/check"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// ticket records that a run was found compatible with a version.
type ticket struct {
	checked run.Checked
	to      *version
}

// replayed is the durable state of a run at an instant.
type replayed struct {
	state store.RunState
	j     *journal.Journal
}

// read reads a run, and returns false if there is none.
func (w *world) read(key store.RunKey) (r replayed, ok bool) {
	state, entries, err := w.db.Run(ctx, key)
	if err != nil || state.Deleted {
		return r, false
	}
	of, err := run.Load(state, entries, run.Config{})
	if err != nil {
		w.broken("a journal can be read", "%s: %v", key.ID, err)
	}
	return replayed{of.State(), of.Journal()}, true
}

// replay executes a version against a journal, up to its end. The caller sets the mode in cfg; replay sets the rest.
func (w *world) replay(j *journal.Journal, entries []store.Entry, v *version, cfg replay.Config, g *env) (int, error) {
	startedMs, _ := j.StartedUnixMs()
	cfg.Started, cfg.Input, cfg.StartedUnixMs = j.Started(), entries[0].Input, startedMs
	cfg.Tail, cfg.BodiesEvent = run.Replayed(entries), true
	cfg.NewToken, cfg.HandlerError = func() string { return "" }, func(string) error { return nil }
	g.w, g.m, g.prog, g.enter, g.it = w, replay.New(cfg), v, func() error { return nil }, j.Started().Iteration
	return g.run()
}

// fitting replays a run against a version, as production does before a migration.
func (w *world) fitting(r replayed, v *version) check.Result {
	if _, begun := r.j.StartedUnixMs(); !begun {
		return check.Result{Outcome: check.Compatible}
	}
	waits := false
	g := &env{wait: func() error {
		waits = true
		return replay.ErrSuspend
	}}
	code, err := w.replay(r.j, r.j.Entries(), v, replay.Config{Mode: replay.Check, Rested: store.Seq(r.j.Len()) + 1}, g)
	if err == nil && code != 0 && !g.m.Outcome().Failed {
		g.m.Fail(fmt.Appendf(nil, "it returned %d", code))
	}
	if errors.Is(err, errTrap) {
		err = &engine.Trap{Message: err.Error()}
	}
	res := check.Judge(r.j, g.m, waits, err)
	if res.Outcome == check.NotChecked {
		w.broken("a run can be checked", "%s: %v", r.state.Run.ID, err)
	}
	return res
}

// migrateTries is how often a run is checked again because it has changed since.
const migrateTries = 3

// migrate moves one run of a workflow, or all live ones, to another version.
func (u *users) migrate(w *world, id string, h *history) {
	f := w.byMod[h.state.Module].flow
	v := f.versions[w.rng.IntN(len(f.versions))]
	if w.odds(1, 8) {
		f = w.flows[w.rng.IntN(len(w.flows))]
		v = f.versions[w.rng.IntN(len(f.versions))] // of another workflow
	}
	if w.odds(2, 3) {
		u.migrateOne(w, id, v, migrateTries)
		return
	}
	for _, key := range w.seen.keys {
		if h := w.seen.runs[key]; !h.deleted && h.state.Workflow == f.name && !h.state.Status.Terminal() {
			u.migrateOne(w, key.ID, v, migrateTries)
		}
	}
}

func (u *users) migrateOne(w *world, id string, v *version, tries int) {
	r, ok := w.read(store.RunKey{ID: id})
	if !ok || r.state.Module == v.module || r.state.Status.Terminal() && w.odds(7, 8) {
		return
	}
	if _, begun := r.j.StartedUnixMs(); !begun && w.odds(3, 4) { // there is little in it
		return
	}
	checked := run.Checked{Incarnation: r.state.Incarnation, Iteration: r.state.Iteration, Length: r.state.Length,
		Version: r.state.Version}
	foreign := r.state.Workflow != v.flow.name
	fits := foreign || w.fitting(r, v).Outcome == check.Compatible
	name := fmt.Sprintf("migrate from %d to %s@%d at %d.%d", r.state.Version, v.flow.name, v.number, checked.Iteration, checked.Length)
	if !fits {
		w.note("user: %s would %s, which does not fit", id, name)
		u.unfit++
		return
	}
	if wrong := w.odds(1, 10); wrong {
		switch w.rng.IntN(4) {
		case 0:
			checked.Incarnation[0]++
		case 1:
			checked.Iteration++
		case 2:
			checked.Length--
		case 3:
			checked.Version++
		}
	}
	u.tickets[ticket{checked, v}] = !foreign
	to, err := w.db.Modules().Version(ctx, 0, v.flow.name, v.number)
	if err != nil {
		panic(err)
	}
	w.later(nil, w.between(0, 1)*w.between(0, 10), "user: "+id+" was checked", func() {
		u.calls(w, id, name, run.Migrate{Version: to, Checked: checked}, func(a run.Answer, err error) {
			switch {
			case errors.Is(err, run.ErrMoved) && tries > 0:
				u.migrateOne(w, id, v, tries-1)
			case err == nil:
				w.seen.migrated(w, a.State, checked, v)
			}
		})
	})
}

// migrated checks that an acknowledged migration is durable.
func (s *shadow) migrated(w *world, st *store.RunState, c run.Checked, v *version) {
	h := s.incs[c.Incarnation]
	if h == nil || h.state.Iteration == c.Iteration && (h.j.Len() <= int(c.Length) || h.j.All()[c.Length].Kind != store.KindMigrated) {
		w.broken("an acknowledged migration is durable", "%s to %d: %s, entry %d", st.Run.ID, v.number, st.Status, c.Length)
	}
	w.users.migrations++
}

// goesOn checks an entry that changes the version of a run.
func (s *shadow) goesOn(w *world, h *history, iteration uint32, e *store.Entry) {
	switch {
	case e.Kind == store.KindRetried && e.Target != "":
		h.version = w.byText(e.Target)
	case e.Kind == store.KindMigrated:
		to := w.byText(e.Target)
		t := ticket{run.Checked{Incarnation: h.state.Incarnation, Iteration: iteration, Length: e.Seq, Version: h.version.number}, to}
		if !w.users.tickets[t] {
			w.broken("a run is migrated as it was checked", "%s: entry %d of iteration %d, from %d to %d", h.key.ID, e.Seq, iteration,
				h.version.number, to.number)
		}
		h.version = to
	}
}

// pinned checks that a state has exactly the version that its journal chose last.
func (s *shadow) pinned(w *world, h *history) {
	st := &h.state
	if v := w.inForce(h.j.Started(), h.j.Entries()); v != h.version || st.Module != v.module || st.Version != v.number ||
		st.Workflow != v.flow.name {
		w.broken("a run goes on under one version", "%s is %s@%d, its journal says %s@%d", h.key.ID, st.Workflow, st.Version,
			v.flow.name, v.number)
	}
	list := choices(h.j.Started(), h.j.Entries())
	anew := st.Status == store.Queued || st.Status == store.Running // otherwise it waits, where its new version waits
	if at := list[len(list)-1].seq; !anew && st.Suspension.Seq != 0 && st.Suspension.Seq <= at {
		w.broken("a version comes to its wait anew", "%s waits since entry %d, and its version was chosen by %d", h.key.ID,
			st.Suspension.Seq, at)
	}
}

// appends checks that a guest appends only after the entry that chose its version.
func (a *actor) appends() {
	if v := a.w.inForce(a.lease.Info().Started, a.lease.Entries()); v != a.prog {
		a.w.broken("a run goes on under one version", "%s: a guest of %d appends to a journal of %d", a.name(), a.prog.number, v.number)
	}
}

// attempted checks that an attempt has the version that was in force when it began.
func (s *shadow) attempted(w *world, h *history, a *run.Attempt) {
	if v := w.inForce(a.Started, a.Entries); a.Run.Module != v.module || a.Run.Version != v.number {
		w.broken("an attempt is of the version that has begun it", "%s: step %s is of %d, the journal of %d", h.key.ID, a.Name,
			a.Run.Version, v.number)
	}
}

// goesWith checks that an attempt is dropped only if its run no longer continues here: a migration does not affect
// attempts.
func (x *writer) goesWith(a *run.Attempt) {
	r := x.shard.Run(a.Run.Run)
	if r == nil || !r.Exists() || r.Has(a) || r.State().Incarnation != a.Run.Incarnation { // the partition is lost
		return
	}
	j := r.Journal()
	for _, e := range j.Entries()[min(len(a.Entries), j.Len()):] {
		if e.Kind == store.KindRetried { // the run, and the attempt with it, had ended, perhaps by its deadline just before
			return
		}
	}
	if j.Started().Iteration == a.Run.Iteration && j.Ended() == store.KindInvalid && j.Aside() == store.NotAside {
		x.w.broken("attempts of a live run go on", "%s: attempt %d of %s is dropped", a.Run.Run.ID, a.Number, a.Name)
	}
}

// stays checks that the store still has everything that became durable of a run.
func (w *world) stays(h *history) {
	if w.seen.runs[h.key] != h || h.deleted {
		return
	}
	for it, entries := range h.journal {
		n := 0
		for e, err := range w.db.Load(ctx, h.key, it, 0) {
			if err != nil || n >= len(entries) || string(store.AppendEntry(nil, &e)) != string(store.AppendEntry(nil, &entries[n])) {
				w.broken("what was recorded stays", "%s: iteration %d, entry %d: %v", h.key.ID, it, n, err)
			}
			n++
		}
		if n != len(entries) {
			w.broken("what was recorded stays", "%s: iteration %d has %d entries of %d", h.key.ID, it, n, len(entries))
		}
	}
}

// alike checks that a migrated run has the same result as its other equivalent versions would have had without a
// migration.
func (w *world) alike(h *history, verify func(v *version, strict bool)) {
	list := choices(h.j.Started(), h.j.Entries())
	for _, c := range list {
		if w.byText(c.module).family != h.version.family {
			return
		}
	}
	for _, v := range h.version.flow.versions {
		if v.family == h.version.family {
			verify(v, true)
		}
	}
}
