package run

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// places imitates the source of places for attempts: a few for each handler.
type places struct {
	free    map[string]int
	answer  func() Verdict
	waiting map[int64]string // handlers, by the handle of the step
	soon    map[int64]bool
	given   map[*string]bool // each place is a pointer to the name of its handler
}

func (p *places) give(handler string) *string {
	p.free[handler]--
	p.given[&handler] = true
	return &handler
}

func (p *places) ask(a Ask) (place any, v Verdict) {
	if _, waits := p.waiting[a.Handle]; !waits && p.free[a.Handler] > 0 {
		return p.give(a.Handler), Begins
	} else if !waits {
		p.soon[a.Handle] = p.answer() == Soon
	}
	p.waiting[a.Handle] = a.Handler
	if p.soon[a.Handle] {
		return nil, Soon
	}
	return nil, Queues
}

func (p *places) back(place any) {
	name := place.(*string) //nolint:forcetypeassert // see places
	if !p.given[name] {
		panic("a place is returned twice")
	}
	delete(p.given, name)
	p.free[*name]++
}

// obey carries out the effects that concern places.
func (w *wide) obey(p *places, ev Event) {
	fx := w.do(ev)
	w.going = append(w.going, fx.Start...)
	if fx.WithdrawAll {
		clear(p.waiting)
	}
	for _, h := range fx.Withdraw {
		delete(p.waiting, h)
	}
	for _, place := range fx.Return {
		p.back(place)
	}
	for _, a := range fx.Drop {
		w.going = slices.DeleteFunc(w.going, func(b *Attempt) bool { return a == b })
		p.back(a.Place)
	}
	w.commit()
}

// After each event, each open step whose delay has passed has an attempt in flight or waits for a place: however many
// steps there are, in whatever order attempts end, fail or are given up, however places come and go, and if the run
// has left memory in between. Each place belongs to one attempt in flight.
func TestEveryStepThatMayBeginHasAnAttemptOrWaits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := &places{free: map[string]int{"0": 2, "1": 100, "2": 0}, waiting: map[int64]string{}, soon: map[int64]bool{},
			given: map[*string]bool{}}
		p.answer = func() Verdict { return rapid.SampledFrom([]Verdict{Soon, Queues}).Draw(rt, "verdict") }
		steps := rapid.SampledFrom([]int{1, 3, 20, 3 * mostDue}).Draw(rt, "steps")
		w := newWide(t, steps, func(i int) store.Entry {
			e := aStep(i)
			e.Target = fmt.Sprint(abi.HandlerPrefix, i%3)
			e.Options = []byte(rapid.SampledFrom([]string{`{}`, `{"delay":"0s"}`, `{"delay":"50ms"}`}).Draw(rt, "options"))
			return e
		})
		for _, a := range w.going {
			a.Place = p.give(strings.TrimPrefix(a.Target, abi.HandlerPrefix))
		}
		w.r.ask = p.ask
		paused := false
		rt.Repeat(map[string]func(*rapid.T){
			"": func(rt *rapid.T) {
				for h := range w.r.Journal().Steps {
					_, waits := p.waiting[h.ID]
					if w.r.going[h.ID] == nil && h.Step.RetryMs <= w.now && !waits && !paused {
						rt.Fatalf("at %d no attempt of step %d goes on, which waits until %d", w.now, h.ID, h.Step.RetryMs)
					}
				}
				if len(p.given) != len(w.going) || paused && len(p.waiting) > 0 {
					rt.Fatalf("%d places are given, to %d attempts; %d wait, paused %v", len(p.given), len(w.going), len(p.waiting), paused)
				}
			},
			"end": func(rt *rapid.T) {
				if len(w.going) == 0 {
					rt.Skip()
				}
				i := rapid.IntRange(0, len(w.going)-1).Draw(rt, "attempt")
				a := w.going[i]
				w.going = append(w.going[:i:i], w.going[i+1:]...)
				p.back(a.Place)
				out := rapid.SampledFrom([]StepOutcome{{Data: []byte("1")}, StepFailure("x", "fails", true), {Abandoned: true}}).Draw(rt, "outcome")
				w.obey(p, AttemptEnds{Attempt: a, Outcome: out})
			},
			"time": func(rt *rapid.T) {
				w.now += rapid.SampledFrom([]int64{1, 40, 10_000}).Draw(rt, "ms")
				w.obey(p, Due{})
			},
			"more places": func(rt *rapid.T) { p.free[rapid.SampledFrom([]string{"0", "2"}).Draw(rt, "handler")]++ },
			"admit": func(rt *rapid.T) {
				if len(p.waiting) == 0 {
					rt.Skip()
				}
				h := rapid.SampledFrom(slices.Sorted(maps.Keys(p.waiting))).Draw(rt, "step")
				name := p.waiting[h]
				if delete(p.waiting, h); rapid.Bool().Draw(rt, "another handler") { // the place was for a step of an earlier iteration
					name = "another"
				}
				w.obey(p, Admitted{Handle: h, Handler: name, Place: p.give(name)})
			},
			"queue": func(rt *rapid.T) {
				for h, soon := range p.soon {
					if _, waits := p.waiting[h]; waits && soon {
						p.soon[h] = false
						w.obey(p, Queued{Handle: h})
						break
					}
				}
			},
			"leave memory": func(rt *rapid.T) {
				if w.r.AtRest() {
					r, err := Load(w.r.State(), w.r.Journal().All(), Config{Active: true, Ask: p.ask})
					if err != nil {
						rt.Fatal(err)
					}
					w.r = r
					w.obey(p, Due{})
				}
			},
			"pause": func(*rapid.T) {
				paused = !paused
				if paused {
					w.obey(p, Pause{})
				} else {
					w.obey(p, Unpause{})
				}
			},
		})
	})
}
