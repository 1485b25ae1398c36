package run

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// Ask asks for a place for the next attempt of a step. A step that asks again, since its run was evicted, keeps its turn.
type Ask struct {
	Run      store.RunKey
	Workflow string
	Handle   int64 // of the step
	Step     string
	Handler  string // without its prefix; Instances for a body or step function
	Input    []byte // must not be changed
	SinceMs  int64  // the instant since which the attempt could begin, in Unix milliseconds
	// Anew withdraws all other asks of the run first.
	Anew bool
}

// Instances stands for a handler in Ask and Admitted for bodies and step functions, which need an instance instead. No handler
// can have this name.
const Instances = "\x00instances"

// Verdict is the answer to an Ask.
type Verdict uint8

const (
	Begins    Verdict = iota // the attempt has a place
	Soon                     // Admitted or Queued follows, without waiting for anything outside the host
	Queues                   // the attempt waits for its turn; Admitted follows
	Unhandled                // as Queues, and no handler of that name is registered here
)

// Events of attempts that have asked for a place.
type (
	// Admitted gives the next attempt of a step a place. A run that does not need it returns it. With Again, or without a Place, the
	// step must ask again.
	Admitted struct {
		Handle  int64
		Handler string // as in Ask
		Place   any
		Again   bool
	}
	// Queued says that the attempt of a step waits for its turn, after the verdict Soon.
	Queued struct{ Handle int64 }
)

// asks holds the steps whose next attempt has asked for a place and has none yet. A run that has only asked keeps nothing in
// memory: it may be dropped, and is loaded again for Admitted.
type asks struct {
	verdicts  map[int64]Verdict // by the handle of the step
	soon      int               // how many verdicts are Soon
	withdrawn []int64           // handles whose asks must be withdrawn, if there are any
	all       bool              // all asks must be withdrawn
	none      bool              // nothing asks: not even what was asked before the run was read from the store
}

// set records the verdict of an ask.
func (a *asks) set(handle int64, v Verdict) {
	a.forget(handle)
	if a.verdicts == nil {
		a.verdicts = map[int64]Verdict{}
	}
	a.verdicts[handle], a.none = v, false
	if v == Soon {
		a.soon++
	}
}

// forget forgets an ask that has been answered or withdrawn.
func (a *asks) forget(handle int64) {
	if a.verdicts[handle] == Soon {
		a.soon--
	}
	delete(a.verdicts, handle)
}

// withdraw withdraws the ask of a step. A run that was evicted does not know whether there is one.
func (a *asks) withdraw(handle int64) {
	a.forget(handle)
	if !a.none {
		a.withdrawn = append(a.withdrawn, handle)
	}
}

// withdrawAll withdraws all asks.
func (a *asks) withdrawAll() {
	if !a.none {
		clear(a.verdicts)
		a.soon, a.withdrawn, a.all, a.none = 0, nil, true, true
	}
}

// handlerOf returns the handler of a target, without its prefix; Instances for a body or step function.
func handlerOf(target string) string {
	name, is := strings.CutPrefix(target, abi.HandlerPrefix)
	if !is {
		return Instances
	}
	return name
}

// admit asks for a place for the next attempt of a step, unless it needs none. It reports whether the attempt may begin.
func (t *transition) admit(h *journal.Handle) (place any, ok bool) {
	if n := NextAttemptOf(h, t.rec.Restored); t.ask == nil || n.Lost || n.Poison || slices.Contains(t.unknown, h.ID) {
		return nil, true
	}
	anew := t.asks.all
	t.asks.all = false
	t.withdrawn = slices.DeleteFunc(t.withdrawn, func(id int64) bool { return id == h.ID })
	place, v := t.ask(Ask{Run: t.rec.Key, Workflow: t.rec.State.Workflow, Handle: h.ID, Step: h.Name, Handler: handlerOf(h.Target),
		Anew: anew, Input: t.rec.Journal.Entries()[h.CallSeq].Input, SinceMs: min(max(h.Step.RetryMs, h.Step.FirstMs), t.now)})
	if v != Begins {
		t.asks.set(h.ID, v)
	}
	return place, v == Begins
}

// refuse returns the place. A step that still needs one asks again.
func (e Admitted) refuse(t *transition) {
	t.asks.forget(e.Handle)
	if e.Place != nil {
		t.fx.Return = append(t.fx.Return, e.Place)
	}
}

// apply begins the attempt, or returns its place.
func (e Admitted) apply(t *transition) error {
	if e.Place == nil {
		e.refuse(t)
		return nil
	}
	h := t.rec.Journal.Handle(e.Handle)
	switch {
	case e.Again, t.rec.Blocked(), !t.active, t.pending, t.stands == guestResuming: // see transition.schedule
	case h == nil || h.Step == nil || !h.Open() || handlerOf(h.Target) != e.Handler:
	case t.going[e.Handle] != nil || h.Step.RetryMs > t.now:
	default:
		t.asks.forget(e.Handle)
		t.withdrawn = append(t.withdrawn, e.Handle) // a run that was loaded for another event has asked again
		if err := t.begins(h, e.Place); err != nil {
			t.fx.Unrecorded = err
		}
		return nil
	}
	e.refuse(t)
	return nil
}

// apply lets a run rest whose attempts wait for their turn.
func (e Queued) apply(t *transition) error {
	if t.asks.verdicts[e.Handle] == Soon {
		t.asks.set(e.Handle, Queues)
	}
	return nil
}

// waitsForPlace returns why the first step waits that has asked for a place.
func (r *Run) waitsForPlace() string {
	for _, handle := range r.rec.Journal.StepsAfter(0) {
		v, asks := r.asks.verdicts[handle]
		switch h := r.rec.Journal.Handle(handle); {
		case !asks:
		case v == Unhandled:
			return fmt.Sprintf("handler %q is not registered here", h.Target)
		case handlerOf(h.Target) == Instances:
			return fmt.Sprintf("step %q waits for an instance", h.Name)
		default:
			return fmt.Sprintf("step %q waits for its turn at handler %q", h.Name, h.Target)
		}
	}
	return "" // not reached: only open steps ask
}
