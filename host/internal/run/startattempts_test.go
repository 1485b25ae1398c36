package run

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// After each event an attempt goes on of every open step whose delay has passed and whose handler is there, however many steps
// there are, in whatever order attempts end, fail or are given up, and whichever handlers come and go.
func TestEveryStepThatMayBeginHasAnAttempt(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		missing := map[string]bool{}
		steps := rapid.SampledFrom([]int{1, 3, 20, 3 * mostDue}).Draw(rt, "steps")
		w := newWide(t, steps, func(i int) store.Entry {
			e := aStep(i)
			e.Target = fmt.Sprint(abi.HandlerPrefix, i%3)
			e.Options = []byte(rapid.SampledFrom([]string{`{}`, `{"delay":"0s"}`, `{"delay":"50ms"}`}).Draw(rt, "options"))
			return e
		})
		w.r.handled = func(name string) bool { return !missing[name] }
		paused := false
		rt.Repeat(map[string]func(*rapid.T){
			"": func(rt *rapid.T) {
				for h := range w.r.Journal().Steps {
					name, _ := strings.CutPrefix(h.Target, abi.HandlerPrefix)
					if w.r.going[h.ID] == nil && h.Step.RetryMs <= w.now && !missing[name] && !paused {
						rt.Fatalf("at %d no attempt of step %d goes on, which waits until %d", w.now, h.ID, h.Step.RetryMs)
					}
				}
			},
			"end": func(rt *rapid.T) {
				if len(w.going) == 0 {
					rt.Skip()
				}
				i := rapid.IntRange(0, len(w.going)-1).Draw(rt, "attempt")
				a := w.going[i]
				w.going = append(w.going[:i:i], w.going[i+1:]...)
				out := rapid.SampledFrom([]StepOutcome{{Data: []byte("1")}, StepFailure("x", "fails", true), {Abandoned: true}}).Draw(rt, "outcome")
				w.goOn(AttemptEnds{Attempt: a, Outcome: out})
			},
			"time": func(rt *rapid.T) {
				w.now += rapid.SampledFrom([]int64{1, 40, 10_000}).Draw(rt, "ms")
				w.goOn(Due{})
			},
			"handler": func(rt *rapid.T) {
				name := rapid.SampledFrom([]string{"0", "1", "2"}).Draw(rt, "handler")
				missing[name] = !missing[name]
				w.goOn(Due{})
			},
			"pause": func(*rapid.T) {
				paused = !paused
				if paused {
					w.goOn(Pause{})
				} else {
					w.goOn(Unpause{})
				}
			},
		})
	})
}

// goOn steps the run, and keeps the attempts that begin.
func (w *wide) goOn(ev Event) {
	w.going = append(w.going, w.do(ev).Start...)
	w.commit()
}
