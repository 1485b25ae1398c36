package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// handlerNames are the handlers that steps name. Each host has some of them, and registers the others later.
var handlerNames = []string{"quick", "fails", "slow", "stubborn", "late"}

// work is an attempt that is performed.
type work struct {
	a       *run.Attempt
	end     *item // nil for a body in its guest's instance
	told    bool
	dropped bool
	n       int // of the ledger
}

// Start starts an attempt.
func (x *writer) Start(a *run.Attempt) {
	x.calls++
	w := x.w
	w.seen.started(w, a)
	w.effect.started(w, a)
	wk := &work{a: a, n: w.effect.n}
	x.works[a] = wk
	a.Performer = wk
	w.note("%s: attempt %d of %s of %s starts, fork %v", x.name(), a.Number, a.Name, a.Run.Run.ID, a.Fork != nil)
	if a.Fork != nil {
		guestOf(a.Fork).orders = append(guestOf(a.Fork).orders, told{fork: a})
		return
	}
	took, out := x.outcome(a)
	x.endsIn(wk, took, out)
}

func (x *writer) outcome(a *run.Attempt) (int64, run.StepOutcome) {
	if a.Target == "" {
		if x.copyOf(a) {
			return x.bodyOutcome(a)
		}
		return 0, run.StepFailure(abi.KindError, errElsewhere.Error(), true)
	}
	w := x.w
	done := run.StepOutcome{Data: fmt.Appendf(nil, "%s by %s #%d", a.Name, a.Target, x.works[a].n)}
	timeout := run.StepFailure(abi.KindTimeout, "it took too long", true)
	took := w.between(0, 5)
	name, _ := strings.CutPrefix(a.Target, abi.HandlerPrefix)
	switch name {
	case "fails":
		if w.odds(2, 3) {
			done = run.StepFailure(abi.KindError, "as it must", w.odds(4, 5))
		}
		if w.odds(1, 5) {
			done.RetryAfterMs = w.between(0, 3000)
		}
	case "slow":
		took = w.between(0, 30_000)
	case "stubborn":
		if w.odds(1, 2) {
			took = forever
		}
	}
	if !x.h.handlers.Handled(name) {
		return took, run.StepOutcome{Abandoned: true}
	}
	if took >= a.Options.TimeoutMs {
		return a.Options.TimeoutMs, timeout
	}
	return took, done
}

func (x *writer) bodyOutcome(a *run.Attempt) (int64, run.StepOutcome) {
	took := x.w.between(0, 50)
	if x.w.odds(1, 4) {
		return took, run.StepFailure(abi.KindError, "the body failed", x.w.odds(4, 5))
	}
	return took, run.StepOutcome{Data: fmt.Appendf(nil, "body %s #%d", a.Name, x.works[a].n)}
}

// Ask, Asks, Withdraw and Return manage the places of attempts, as in production.
func (x *writer) Ask(a run.Ask) (any, run.Verdict)        { return x.h.handlers.Ask(a) }
func (x *writer) Asks(key store.RunKey) bool              { return x.h.handlers.Asks(key) }
func (x *writer) Withdraw(key store.RunKey, handle int64) { x.h.handlers.Withdraw(key, handle) }
func (x *writer) WithdrawRun(key store.RunKey)            { x.h.handlers.WithdrawRun(key) }
func (x *writer) WithdrawPartition(p store.PartitionID)   { x.h.handlers.WithdrawPartition(p) }
func (x *writer) Return(place any)                        { place.(*handler.Place).Return() } //nolint:forcetypeassert // see Ask
func (x *writer) placeOf(a *run.Attempt) (p *handler.Place) {
	p, _ = a.Place.(*handler.Place)
	return p
}

// endsIn makes an attempt end after a random time.
func (x *writer) endsIn(wk *work, afterMs int64, out run.StepOutcome) {
	a := wk.a
	wk.end = x.w.later(x.h, afterMs, fmt.Sprintf("%s: attempt %d of %s of %s ends", x.name(), a.Number, a.Name, a.Run.Run.ID),
		func() {
			x.placeOf(a).Return()
			x.post(func(now int64) { x.shard.Inside(now, a.Run.Run, run.AttemptEnds{Attempt: a, Outcome: out}, nil) })
		})
	if x.w.odds(1, 20) {
		line := store.LogLine{UnixMs: x.h.now(), Step: a.Name, Attempt: a.Number, Text: "a line"}
		x.post(func(now int64) { x.shard.Inside(now, a.Run.Run, run.AttemptLogs{Attempt: a, Line: line}, nil) })
	}
}

// Tell reports to an attempt that the workflow has cancelled it. A stubborn one ignores this.
func (x *writer) Tell(a *run.Attempt) {
	x.calls++
	wk := x.works[a]
	if wk == nil {
		return // it has not started
	}
	wk.told = true
	if wk.end != nil && !wk.end.gone && a.Target != abi.HandlerPrefix+"stubborn" && x.w.odds(1, 2) {
		x.cancel(wk)
		x.endsIn(wk, x.w.between(0, 5), run.StepFailure(abi.KindError, "cancelled", true))
	}
}

// Drop stops an attempt. Its outcome may still arrive.
func (x *writer) Drop(a *run.Attempt) {
	x.calls++
	x.goesWith(a)
	if a.Fork != nil {
		guestOf(a.Fork).halt(run.ErrTerminal)
	}
	wk := x.works[a]
	if wk == nil {
		x.placeOf(a).Return()
		return // it has not started
	}
	wk.dropped, x.w.effect.dropped[wk.n] = true, true
	if wk.end != nil && !wk.end.gone && x.w.odds(1, 2) {
		x.cancel(wk)
		x.endsIn(wk, 0, run.StepOutcome{Abandoned: true})
	}
}

func (x *writer) cancel(wk *work) {
	x.w.items = slices.DeleteFunc(x.w.items, func(it *item) bool { return it == wk.end })
}

// copyOf executes a copy of the workflow up to the body, as in production. It returns false if the workflow waits for
// another event instead.
func (x *writer) copyOf(a *run.Attempt) bool {
	g := &env{w: x.w, m: replay.New(bodyConfig(a)), prog: x.w.byMod[a.Run.Module], enter: func() error { return nil },
		wait: func() error { return errElsewhere }, it: a.Started.Iteration}
	_, err := g.run()
	elsewhere := a.Until.Poll && !a.Until.Events || len(a.Until.Awaited) > 0 && !slices.Contains(a.Until.Awaited, a.Handle)
	switch {
	case errors.Is(err, errRunBody):
		return true
	case !elsewhere || !errors.Is(err, errElsewhere):
		x.w.broken("a copy comes to its body", "run %s, step %s, entries %d, until %+v: %v", a.Run.Run.ID, a.Name, len(a.Entries),
			a.Until, err)
	}
	return false
}

var errElsewhere = errors.New("the workflow waits, but not for its body")

// bodyConfig configures the machine that executes a body.
func bodyConfig(a *run.Attempt) replay.Config {
	return replay.Config{Mode: replay.Body, Started: a.Started, Input: a.Entries[0].Input, StartedUnixMs: a.StartedMs,
		Tail: frozen(a.Entries), Until: a.Until.Seq, Rested: a.Until.Seq, Handle: a.Handle, BodiesEvent: true,
		Step: &replay.StepInfo{Name: a.Name, Attempt: a.Number}, RealTime: func() (int64, int64) { return 0, 0 },
		RealRandom: func([]byte) {}}
}

// frozen is a journal that does not grow.
type frozen []store.Entry

func (f frozen) Entries() []store.Entry                    { return f }
func (f frozen) Append(e store.Entry) (store.Entry, error) { return e, errElsewhere }
func (f frozen) CallRoom() error                           { return nil }
func (f frozen) CheckAttribute(string) error               { return nil }
func (f frozen) Now() int64                                { return 0 }

// ledger has the effects of attempts, as an outside observer sees them.
type ledger struct {
	inputs  map[string]string // by idempotency key
	n       int
	dropped map[int]bool // attempts whose outcome nobody waits for
}

func (l *ledger) init() { l.inputs, l.dropped = map[string]string{}, map[int]bool{} }

// recorded checks a result that became durable.
func (l *ledger) recorded(w *world, h *history, e *store.Entry) {
	var n int
	if _, number, ok := strings.Cut(string(e.Data), "#"); ok {
		_, _ = fmt.Sscan(number, &n)
	}
	if l.dropped[n] {
		w.broken("the result of a dropped attempt is not recorded", "%s: entry %d: %q", h.key.ID, e.Seq, e.Data)
	}
}

func (l *ledger) started(w *world, a *run.Attempt) {
	l.n++
	key := a.Key()
	what := a.Target + " " + string(a.Input)
	if before, ok := l.inputs[key]; ok && before != what {
		w.broken("one idempotency key never carries two inputs", "run %s, step %s: %q, before %q", a.Run.Run.ID, a.Name, what,
			before)
	}
	l.inputs[key] = what
}
