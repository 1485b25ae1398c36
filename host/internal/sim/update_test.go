package sim

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

var updateNames = []string{"u0", "u1"}

// takes starts a wait for an update.
func (g *env) takes(s *stmt) (int64, error) {
	name := abi.UpdatePrefix + updateNames[s.a%int64(len(updateNames))]
	timeout := s.b % 200_000
	if s.b%3 == 0 {
		timeout = -1
	}
	h, err := g.m.Signal(name, timeout)
	if h > 0 {
		if g.updates == nil {
			g.updates = map[int64]string{}
		}
		g.updates[h] = name
	}
	return h, err
}

// took answers the update that a handle has received, at once or later.
func (g *env) took(h, code int64) error {
	if _, ok := g.updates[h]; !ok {
		return nil
	}
	delete(g.updates, h)
	if code < 0 { // none has come
		return nil
	}
	if g.acc%3 == 0 {
		g.owed = append(g.owed, h)
		return nil
	}
	return g.reply(h)
}

// pay answers pending updates, at most times.
func (g *env) pay() error {
	for len(g.owed) > 0 && g.acc%4 > 0 {
		h := g.owed[0]
		g.owed = g.owed[1:]
		if err := g.reply(h); err != nil {
			return err
		}
	}
	return nil
}

func (g *env) reply(h int64) error {
	if err := g.enter(); err != nil {
		return err
	}
	failed := int32(0)
	if g.acc%5 == 0 {
		failed = 1
	}
	for range 1 + g.acc%9/8 { // at times once more, which is refused
		n, err := g.m.Reply(h, failed, fmt.Appendf(nil, `"%d"`, g.acc))
		if err != nil {
			return err
		}
		g.mix(n)
	}
	return nil
}

// asked answers the question whether an update is accepted: where the program waits for it, and in some other places.
func (g *env) asked() error {
	refused := int32(1)
	for _, name := range g.updates {
		if name == g.query {
			refused = 0
		}
	}
	if g.acc%4 == 0 {
		refused = 0
	}
	_, err := g.m.Reply(0, refused, nil)
	return err
}

// updating is an update that a user sends.
type updating struct {
	run    string
	name   string // of its signal
	id     string
	data   []byte
	inc    store.Incarnation // of the run that has accepted it
	signal run.Signal
}

// answerKey identifies an update that a run has accepted. All updates have different data.
type answerKey struct {
	inc  store.Incarnation
	data string
}

func (x *updating) key() answerKey { return answerKey{x.inc, string(x.data)} }

// statuses of updates, as reported to users. Answers of workflows are shown as their entries' codes and data.
const (
	updateLost     = "lost"
	updateAccepted = "accepted"
	updateEnded    = "ended"
)

// updateTries is how often a workflow is asked again because its run has continued.
const updateTries = 3

// update sends an update: a new one, mostly one that a run waits for, or one that was sent before.
func (u *users) update(w *world, id string, h *history) {
	x := &updating{run: id, name: abi.UpdatePrefix + updateNames[w.rng.IntN(len(updateNames))], id: fmt.Sprint("update", u.n),
		data: fmt.Appendf(nil, "update %d", u.n)}
	if name, ok := w.waitsForUpdate(h); ok || w.odds(1, 4) {
		x.name = cmp.Or(name, x.name)
	} else {
		for _, key := range w.seen.keys {
			name, ok = w.waitsForUpdate(w.seen.runs[key])
			if ok {
				x.run, x.name = key.ID, name
				break
			}
		}
	}
	if len(u.sent) > 0 && w.odds(1, 3) {
		old := *u.sent[w.rng.IntN(len(u.sent))]
		x = &old
		if w.odds(1, 3) {
			u.result(w, x)
			return
		}
	} else {
		u.sent = append(u.sent, x)
	}
	x.signal = run.Signal{Name: x.name, Data: x.data, IdempotencyKey: x.id}
	u.accept(w, x, updateTries)
}

// waitsForUpdate returns the name of an update that a run waits for, durably.
func (w *world) waitsForUpdate(h *history) (name string, ok bool) {
	if h.deleted || h.state.Status.Terminal() {
		return "", false
	}
	for x := range h.j.Handles {
		if x.Kind == store.KindSignalWait && strings.HasPrefix(x.Name, abi.UpdatePrefix) {
			return x.Name, true
		}
	}
	return "", false
}

// accept makes a run accept an update, as Host.Update does.
func (u *users) accept(w *world, x *updating, tries int) {
	known, ended := false, false
	look := run.Look{Func: func(r *run.Run) (err error) {
		x.inc = r.State().Incarnation
		ended = r.Journal().Ended() != store.KindInvalid
		known, err = r.Journal().CheckSignal(x.name, x.id, x.data)
		return err
	}}
	u.calls(w, x.run, "update known? "+x.id, look, func(_ run.Answer, err error) {
		switch {
		case err != nil || ended && !known:
		case known:
			u.accepted(w, x)
		case u.acked[x.key()]:
			w.broken("an acknowledged update is there", "%s of %s", x.id, x.run)
		default:
			w.later(nil, w.between(0, 1)*w.between(0, 20), "user: "+x.run+" is asked for "+x.id, func() { u.ask(w, x, tries) })
		}
	})
}

// ask asks the workflow whether it accepts an update, and sends it.
func (u *users) ask(w *world, x *updating, tries int) {
	r, ok := w.read(store.RunKey{ID: x.run})
	if !ok || !w.accepts(r, x) {
		return
	}
	x.inc = r.state.Incarnation
	u.asks[string(x.data)] = r.state.Length
	x.signal.If = func(j *journal.Journal) error {
		if j.Started().Iteration != r.state.Iteration || store.Seq(j.Len()) != r.state.Length {
			return run.ErrMoved
		}
		return nil
	}
	u.calls(w, x.run, "update "+x.id, x.signal, func(a run.Answer, err error) {
		switch {
		case errors.Is(err, run.ErrMoved) && tries > 0:
			u.accept(w, x, tries-1)
		case err == nil && !a.Changed && a.State.Incarnation != r.state.Incarnation:
			// The update was known, but the run was replaced before the answer: it is unclear which of the two runs knew it.
		case err == nil:
			x.inc = a.State.Incarnation
			if a.Changed {
				w.seen.mustHave(w, x.inc, string(x.data))
			}
			u.accepted(w, x)
		}
	})
}

// accepts replays a run up to its wait, and asks its workflow there, as production does.
func (w *world) accepts(r replayed, x *updating) bool {
	if _, begun := r.j.StartedUnixMs(); !begun || r.state.Status.Terminal() {
		return false
	}
	entries := r.j.Entries()
	if wait, waits := r.j.Suspension(); waits && r.j.Paused() {
		entries = entries[:min(int(wait.Seq), len(entries))]
	}
	g := &env{query: x.name, wait: func() error { return replay.ErrSuspend }}
	_, err := w.replay(r.j, entries, w.byMod[r.state.Module], replay.Config{Mode: replay.Query, Rested: r.j.Rested(),
		Query: replay.QueryRequest{Name: x.name, Input: x.data}}, g)
	var differs *replay.Mismatch
	if errors.As(err, &differs) && !w.forced(r.j.Started(), r.j.Entries()) {
		w.broken("a run can be asked by its journal", "%s: %v", x.run, err)
	}
	return errors.Is(err, replay.ErrQueryEnd) && g.m.Outcome().ReplyOK
}

// accepted records that a user was told that an update was accepted, and may wait for the answer.
func (u *users) accepted(w *world, x *updating) {
	w.seen.mustBe(w, store.RunKey{ID: x.run}, x.inc)
	u.acked[x.key()] = true
	u.updates++
	for range w.rng.IntN(3) {
		w.later(nil, w.between(0, 1)*w.between(0, 60_000), "user: the answer to "+x.id, func() { u.result(w, x) })
	}
}

// result asks for the answer to an update, as Host.UpdateResult does.
func (u *users) result(w *world, x *updating) {
	var known journal.Key
	status, retries := "", 0
	of := *x // other calls may ask for it at the same time
	x = &of
	look := run.Look{Func: func(r *run.Run) error {
		j := r.Journal()
		x.inc = r.State().Incarnation
		if h := w.seen.incs[x.inc]; h != nil {
			retries = h.retries
		}
		status = becomes(j, x)
		if status != updateLost {
			return nil
		}
		if k, ok := j.Known(x.name, x.id); ok && k.Iteration != j.Started().Iteration {
			known, status = k, ""
		}
		return nil
	}}
	u.calls(w, x.run, "result of "+x.id, look, func(_ run.Answer, err error) {
		h := w.seen.incs[x.inc]
		if err != nil || h != w.seen.runs[h.key] || h.deleted { // it has been replaced since
			return
		}
		if status == "" { // the journal of an earlier iteration is read once its end is durable
			status = becomes(w.earlier(store.RunKey{ID: x.run}, known.Iteration), x)
		}
		w.note("result of %s is %s", x.id, status)
		if status != updateEnded || retries == h.retries { // else it goes on
			w.seen.answered(w, x, status)
		}
	})
}

// earlier reads the journal of an earlier iteration.
func (w *world) earlier(key store.RunKey, iteration uint32) *journal.Journal {
	j := &journal.Journal{}
	for e, err := range w.db.Load(ctx, key, iteration, 0) {
		if err == nil {
			err = j.Load(e)
		}
		if err != nil {
			w.broken("a journal can be read", "%s: %v", key.ID, err)
		}
	}
	return j
}

// becomes returns the status of an update by the journal of an iteration.
func becomes(j *journal.Journal, x *updating) string {
	at, here := j.Update(x.name, x.id)
	switch {
	case !here:
		return updateLost
	case at.Reply != 0:
		return answer(&j.Entries()[at.Reply])
	case j.Ended() != store.KindInvalid:
		return updateEnded
	}
	return updateAccepted
}

// answer is the answer to an update in an entry.
func answer(e *store.Entry) string { return fmt.Sprintf("%d %s", e.Code, e.Input) }

// answered checks what a user is told about an update.
func (s *shadow) answered(w *world, x *updating, status string) {
	u, key := &w.users, x.key()
	h := s.incs[x.inc]
	if h == nil {
		w.broken("what is reported as durable is durable", "%s of %s", x.id, x.run)
	}
	if status == updateLost {
		if u.acked[key] {
			w.broken("an acknowledged update is there", "%s of %s", x.id, x.run)
		}
		return
	}
	durable, ok := h.replies[key]
	if by := status != updateAccepted && status != updateEnded; by && (!ok || durable != status) {
		w.broken("an answer comes after what it says is durable", "%s: %s, durable %q", x.id, status, durable)
	}
	told, ok := u.told[key]
	if ok && told != status {
		w.broken("an update has one answer", "%s of %s: %s, before %s", x.id, x.run, status, told)
	}
	if status != updateAccepted {
		u.told[key] = status
		u.answers++
	}
}

// update follows what becomes durable of updates.
func (s *shadow) update(w *world, h *history, e *store.Entry) {
	switch {
	case e.Kind == store.KindSignalAccepted && strings.HasPrefix(e.Name, abi.UpdatePrefix):
		if e.Target == "" {
			w.broken("an update keeps its id", "%s: entry %d: %q", h.key.ID, e.Seq, e.Data)
		}
		h.accepts[answerKey{h.state.Incarnation, string(e.Data)}] = true
	case e.Kind == store.KindRetried:
		h.retries++
		// Updates that had ended without an answer continue, also in the iterations that follow.
		maps.DeleteFunc(w.users.told, func(key answerKey, status string) bool {
			return key.inc == h.state.Incarnation && status == updateEnded
		})
	case e.Kind == store.KindUpdateReply && e.Refused == 0:
		asked := h.j.All()[h.j.Handle(e.Handle).Signal]
		key := answerKey{h.state.Incarnation, string(asked.Data)}
		if before, ok := h.replies[key]; ok {
			w.broken("an update is answered once", "%s of %s: entry %d, before %s", asked.Target, h.key.ID, e.Seq, before)
		}
		h.replies[key] = answer(e)
	}
}

// accepted checks that an update was accepted in the state in which the workflow was asked: only entries for passed
// deadlines may come in between.
func (s *shadow) accepted(w *world, h *history, iteration uint32, e *store.Entry) {
	length, ok := w.users.asks[string(e.Data)]
	if !ok || e.Kind != store.KindSignalAccepted {
		return
	}
	for seq := length; seq < e.Seq; seq++ {
		switch k := h.journal[iteration][seq].Kind; k {
		case store.KindTimer, store.KindSignalTimeout, store.KindClock, store.KindClockSet, store.KindCancel:
		default:
			w.broken("an update is accepted as the workflow stood", "%s: entry %d (%s), and it was asked at %d", h.key.ID, seq, k, length)
		}
	}
}

// updates checks at the end that what users were told is true.
func (s *shadow) updates(w *world) {
	for key := range w.users.acked {
		h := s.incs[key.inc]
		if h == nil || !h.accepts[key] {
			w.broken("an acknowledged update is there", "%s", key.data)
		}
		told := w.users.told[key]
		if durable, ok := h.replies[key]; ok && told != "" && told != durable {
			w.broken("an update has one answer", "%s of %s: %s, told %s", key.data, h.key.ID, durable, told)
		}
	}
}
