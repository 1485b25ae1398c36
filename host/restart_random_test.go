package host_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

var (
	randomRestarts     = flag.Int("restarts.n", 25, "random programs whose runs are restarted from their calls")
	randomRestartsSeed = flag.Uint64("restarts.seed", 1, "the first one of them")
)

// TestRandomRestarts runs random programs with pauses, crashes, cancels and clock changes in between, and restarts
// each from some of its calls, and some of the new runs from theirs. Calls that the plan keeps are not repeated and
// have the same outcome; compensated steps are not kept; restarts that the plan refuses are refused; and a refused
// retry recommends a restart that is accepted.
func TestRandomRestarts(t *testing.T) {
	g := newRestarts(t)
	for seed := *randomRestartsSeed; seed < *randomRestartsSeed+uint64(*randomRestarts); seed++ {
		r := &restarting{restarts: g, r: rand.New(rand.NewPCG(seed, 32)), id: fmt.Sprint("seed", seed)}
		r.make()
		if t.Failed() {
			t.Fatalf("seed %d: the program %+v, whose broken steps are %v, has made %v", seed, r.ops, g.broken, g.of(r.id))
		}
	}
}

type restarting struct {
	*restarts
	r   *rand.Rand
	id  string
	ops []doing
	n   int // of restarts

	ahead  time.Duration // of the clock
	second bool          // the run is a restart itself
}

func (r *restarting) odds(n, of int) bool { return r.r.IntN(of) < n }

// program draws a program. A step that another step undoes is in its saga.
func (r *restarting) program() (ops []doing, steps []string) {
	for i := range 3 + r.r.IntN(6) {
		name := fmt.Sprint("c", i)
		o := doing{Do: "call", Name: name, Fails: r.odds(2, 3)}
		switch r.r.IntN(19) {
		case 0, 1, 2:
			o.Undo = "undo " + name
		case 3:
			o = doing{Do: "body", Name: name}
		case 4:
			o = doing{Do: "sleep", Name: name, MS: 1 + r.r.IntN(5000)}
		case 5:
			o = doing{Do: "hook", Name: name, MS: 3000}
			if r.odds(1, 2) {
				o.Token = "token-" + r.id + name
			}
		case 6:
			o = doing{Do: "signal", Name: name, MS: 3000}
		case 7:
			o = doing{Do: "child", Name: name, MS: 1 + r.r.IntN(3000)}
		case 8:
			o = doing{Do: "start", Name: name, MS: 1 + r.r.IntN(9000), Undo: []string{"abandon", "cancel", "terminate"}[r.r.IntN(3)]}
		case 9:
			o = doing{Do: "race", Name: "race " + name, Ops: []doing{{Do: "call", Name: name}, {Do: "sleep", Name: "s" + name, MS: 10}}}
		case 10:
			o = doing{Do: "emit", Name: name}
		case 11:
			o = doing{Do: "timer", Name: name, MS: 1 + r.r.IntN(5000)}
			if r.odds(1, 3) {
				o.ID = "ticks"
			}
		case 12, 13:
			o = doing{Do: "pause", Name: name, MS: 1 + r.r.IntN(5000)}
		case 14:
			o = doing{Do: "select", Name: name, MS: 1 + r.r.IntN(3000)}
		case 15:
			o = doing{Do: "within", Name: "within " + name, MS: 1 + r.r.IntN(8000), Ops: []doing{{Do: "sleep", Name: name, MS: 1 + r.r.IntN(5000)},
				{Do: "call", Name: "w" + name}, {Do: "pause", Name: "p" + name, MS: 1 + r.r.IntN(3000)}}}
		case 16:
			o = doing{Do: "marker", Name: name}
		case 17:
			ms := 1 + r.r.IntN(3000)
			o = doing{Do: "race", Name: "race " + name, Ops: []doing{{Do: "sleep", Name: "q" + name, MS: ms},
				{Do: "sleep", Name: "s" + name, MS: ms}, {Do: "signal", Name: name, MS: 3000}}}
		case 18:
			o = doing{Do: "group", Name: "group " + name, Ops: []doing{{Do: "call", Name: name},
				{Do: "timer", Name: "t" + name, MS: 1 + r.r.IntN(5000)},
				{Do: "sleep", Name: "s" + name, MS: 1 + r.r.IntN(3000)}, {Do: "signal", Name: name, MS: 3000}}}
		}
		ops = append(ops, o)
		if o.Do == "call" {
			steps = append(steps, name)
		}
		if r.odds(1, 15) {
			ops = append(ops, doing{Do: "continue"})
		}
	}
	if r.odds(1, 3) {
		ops = append(ops, doing{Do: "fail", Name: "fail", Fails: true})
	}
	return ops, steps
}

// make makes the run, and restarts it.
func (r *restarting) make() {
	r.t.Helper()
	ops, steps := r.program()
	r.ops = ops
	r.breaks()
	if len(steps) > 0 && r.odds(3, 4) {
		r.breaks(steps[len(steps)-1])
	}
	r.begin(r.id, ops...)
	for range r.r.IntN(6) {
		r.disturb(r.id)
	}
	_, err := r.Unpause(ctx, r.id)
	if err != nil && !errors.Is(err, host.ErrTerminal) {
		r.t.Fatal(err)
	}
	r.Finish(r.id)
	r.Advance(10 * time.Second) // children that nobody awaits end, too
	r.retried()
	r.breaks()
	for _, from := range r.names() {
		r.from(from)
	}
}

// disturb performs a random action on a run, or advances the clock.
func (r *restarting) disturb(id string) {
	pick := r.ops[r.r.IntN(len(r.ops))]
	switch r.r.IntN(9) {
	case 6:
		by := time.Duration(r.r.IntN(20_000)) * time.Millisecond
		if r.odds(1, 3) {
			by = 24 * time.Hour
		}
		if r.ahead > 0 && r.odds(2, 3) {
			by = -r.ahead
		} else if r.odds(1, 3) {
			by = -by
		}
		r.Clock.Step(by)
		r.ahead += by
	case 7:
		if r.odds(1, 4) {
			_, _ = r.Cancel(ctx, id)
		}
	case 0:
		_, _ = r.Pause(ctx, id)
	case 1:
		_, _ = r.Unpause(ctx, id)
	case 2:
		r.Crash()
	case 3:
		_ = r.Signal(ctx, id, pick.Name, "for "+pick.Name)
	case 4:
		if pick.Do == "hook" && pick.Token != "" {
			_, _ = r.Hooks().Deliver(ctx, pick.Token, []byte(`"delivered"`))
		}
	default:
		r.Advance(time.Duration(r.r.IntN(4000)) * time.Millisecond)
	}
	r.Settle()
}

// outcomes returns the data that resolved each call of a run's newest iteration, by the call's name, and the names of
// its calls.
func (r *restarting) outcomes(id string) (data map[string]string, calls []string) {
	r.t.Helper()
	data, byHandle := map[string]string{}, map[int64]string{}
	for e, err := range r.Journal(ctx, id, 0) {
		do(r.t, err)
		kind := e.Kind.String()
		switch {
		case e.Kind.Call() && e.Handle != 0 && kind != "withdraw":
			byHandle[e.Handle] = kind + " " + e.Name
			calls = append(calls, e.Name)
		case e.Kind.Delivery() && e.Handle != 0:
			data[byHandle[e.Handle]] = fmt.Sprint(e.Kind, " ", string(e.Data))
		}
	}
	return data, calls
}

func (r *restarting) names() (names []string) {
	_, names = r.outcomes(r.id)
	names = slices.DeleteFunc(names, func(n string) bool { return strings.HasPrefix(n, "undo ") || strings.HasPrefix(n, "host/") })
	r.r.Shuffle(len(names), func(i, k int) { names[i], names[k] = names[k], names[i] })
	return append(names[:min(len(names), 3)], "")
}

// retried retries a failed run. If the retry is refused, the restart that the error recommends must be accepted.
func (r *restarting) retried() {
	r.t.Helper()
	err := r.Retry(ctx, r.id, 0)
	if err == nil {
		_, _ = r.Unpause(ctx, r.id)
		if run := r.Finish(r.id); run.Status == host.Stuck {
			r.t.Errorf("the retry is stuck: %s", run.Reason)
		}
		return
	}
	if _, advice, ok := strings.Cut(err.Error(), `restart the run from "`); ok {
		from, _, _ := strings.Cut(advice, `"`)
		if p, err := r.PlanRestart(ctx, r.id, host.RestartOptions{From: from}); err != nil || strings.Contains(p.Refused, "undone") {
			r.t.Errorf("a retry advises a restart from %q, which is refused: %q %v", from, p.Refused, err)
		}
	}
}

// from restarts the run from a call.
func (r *restarting) from(from string) {
	r.t.Helper()
	r.n++
	o := host.RestartOptions{From: from, NewID: fmt.Sprint(r.id, "-", r.n)}
	p, err := r.PlanRestart(ctx, r.id, o)
	do(r.t, err)
	_, err = r.RestartWith(ctx, r.id, o)
	if p.Refused != "" {
		if !errors.Is(err, host.ErrConflict) || err.Error() != p.Refused {
			r.t.Errorf("from %q: %v, the plan says %q", from, err, p.Refused)
		}
		return
	}
	do(r.t, err)
	if r.Settle(); r.odds(1, 3) {
		r.Crash()
	}
	for range r.r.IntN(3) {
		r.disturb(o.NewID)
	}
	if r.odds(1, 4) && r.moves(o.NewID) {
		return
	}
	_, _ = r.Unpause(ctx, o.NewID)
	if run := r.Finish(o.NewID); run.Status == host.Stuck {
		r.t.Errorf("from %q: it is stuck: %s", from, run.Reason)
		return
	}
	do(r.t, r.Replay(ctx, o.NewID))
	if run, err := r.Get(ctx, o.NewID); err == nil && run.Status == host.Failed && r.odds(1, 2) {
		if r.odds(1, 2) {
			r.Advance(time.Duration(r.r.IntN(7200)) * time.Second)
		}
		if r.odds(1, 3) {
			r.disturb(o.NewID)
		}
		if err := r.Retry(ctx, o.NewID, 0); err == nil {
			if r.odds(1, 3) {
				r.Crash()
			}
			if r.odds(1, 3) {
				r.disturb(o.NewID)
			}
			_, _ = r.Unpause(ctx, o.NewID)
			if run := r.Finish(o.NewID); run.Status == host.Stuck {
				r.t.Errorf("from %q, retried: it is stuck: %s", from, run.Reason)
				return
			}
			do(r.t, r.Replay(ctx, o.NewID))
		}
	}
	if !r.second && r.odds(1, 4) {
		again := &restarting{restarts: r.restarts, r: r.r, id: o.NewID, ops: r.ops, ahead: r.ahead, second: true}
		defer func() {
			again.retried()
			for _, from := range again.names() {
				again.from(from)
			}
		}()
	}
	was, _ := r.outcomes(r.id)
	is, _ := r.outcomes(o.NewID)
	again := map[string]bool{}
	for _, c := range p.Repeated {
		again[c.Kind+" "+c.Name] = true
	}
	made, undone := r.of(o.NewID), r.of(r.id)
	iterations := slices.ContainsFunc(r.ops, func(o doing) bool { return o.Do == "continue" })
	for _, c := range p.Kept {
		what := c.Kind + " " + c.Name
		if again[what] || iterations {
			continue
		}
		if c.Kind == "step" && slices.Contains(made, c.Name) {
			r.t.Errorf("from %q: %s was kept, and made again", from, what)
		}
		if slices.Contains(undone, "undo "+c.Name) {
			r.t.Errorf("from %q: %s was undone, and is kept", from, what)
		}
		late := was[what] == "" && c.Note != "" // the outcome, such as a child's, came after the run had ended
		if c.Kind != "sleep" && c.Kind != "signal_wait" && !late && was[what] != is[what] {
			r.t.Errorf("from %q: %s is %s, and was %s", from, what, is[what], was[what])
		}
	}
	for i, name := range made {
		if slices.Contains(made[:i], name) && !iterations {
			r.t.Errorf("from %q: the new run has made %q twice: %v", from, name, made)
		}
	}
}

// moves moves a run to another namespace, where it ends.
func (r *restarting) moves(id string) bool {
	r.t.Helper()
	ns, err := r.Namespace(ctx, "elsewhere")
	do(r.t, err)
	there := 0
	for range ns.Workflows().Versions(ctx, "program") {
		there++
	}
	if there == 0 {
		_, err = ns.UploadAll(ctx, "", hosttest.Build(r.t, "testdata/restarts"), host.AllowStep("*"))
		do(r.t, err)
	}
	run, err := r.Get(ctx, id)
	do(r.t, err)
	var moved bytes.Buffer
	if err := r.Export(ctx, id, &moved, host.ExportOptions{Move: true}); err != nil {
		if !errors.Is(err, host.ErrConflict) && !errors.Is(err, host.ErrTerminal) {
			r.t.Errorf("export: %v", err)
		}
		return false
	}
	if r.odds(1, 2) {
		by := time.Duration(r.r.IntN(20_000)-10_000) * time.Millisecond
		r.Clock.Step(by)
		r.ahead += by
	}
	if _, err := ns.Import(ctx, &moved, host.ImportOptions{Adopt: true}); err != nil {
		r.t.Errorf("import of %s (%s): %v", id, run.Status, err)
		return true
	}
	_, _ = ns.Unpause(ctx, id)
	r.Advance(30*time.Second + 25*time.Hour)
	got, err := ns.Get(ctx, id)
	do(r.t, err)
	if got.Status == host.Stuck {
		r.t.Errorf("moved: it is stuck: %s", got.Reason)
		return true
	}
	if !got.Status.Terminal() {
		r.t.Errorf("moved: %s %s", got.Status, got.Reason)
	}
	if err := ns.Replay(ctx, id); err != nil {
		r.t.Errorf("moved: %v", err)
	}
	if got.Status == host.Failed && ns.Retry(ctx, id, 0) == nil {
		r.Advance(25 * time.Hour)
		if got, _ := ns.Get(ctx, id); got.Status == host.Stuck {
			r.t.Errorf("moved and retried: it is stuck: %s", got.Reason)
		}
	}
	return true
}
