package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// doing is an operation of a program: see testdata/restarts.
type doing struct {
	Do    string  `json:"do"`
	Name  string  `json:"name,omitempty"`
	Token string  `json:"token,omitempty"`
	ID    string  `json:"id,omitempty"`
	MS    int     `json:"ms,omitempty"`
	Ops   []doing `json:"ops,omitempty"`
	Undo  string  `json:"undo,omitempty"`
	Fails bool    `json:"fails,omitempty"`
}

// restarts is a host that runs programs and records which run made which step.
type restarts struct {
	*hosttest.Host
	t      *testing.T
	mu     sync.Mutex
	made   []string        // run/step
	broken map[string]bool // steps that fail
}

func newRestarts(t *testing.T, opts ...hosttest.Option) *restarts {
	t.Helper()
	g := &restarts{t: t, broken: map[string]bool{}}
	g.Host = hosttest.New(t, append(opts, hosttest.WithHandlers(func(h *host.Host) {
		host.HandleStep(h, "note", func(ctx context.Context, name string) (string, error) {
			g.mu.Lock()
			defer g.mu.Unlock()
			s := host.StepInfo(ctx)
			g.made = append(g.made, s.RunID+"/"+name)
			if g.broken[name] {
				return "", host.Fatal(errors.New(name + " is broken"))
			}
			return name, nil
		})
	}))...)
	_, err := g.UploadAll(ctx, "", hosttest.Build(t, "testdata/restarts"), host.AllowStep("*"))
	do(t, err)
	return g
}

// breaks sets which steps fail from now on.
func (g *restarts) breaks(names ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.broken = map[string]bool{}
	for _, n := range names {
		g.broken[n] = true
	}
}

// of returns the steps that a run has made.
func (g *restarts) of(id string) (list []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.made {
		if run, step, _ := strings.Cut(m, "/"); run == id {
			list = append(list, step)
		}
	}
	return list
}

func (g *restarts) begin(id string, ops ...doing) {
	g.t.Helper()
	_, err := g.Start(ctx, "program", ops, host.WithRunID(id))
	do(g.t, err)
	g.Settle()
}

// ends is how a run has ended.
func (g *restarts) ends(id string) string {
	g.t.Helper()
	r := g.Finish(id)
	b, err := g.ResultRaw(ctx, id)
	if err != nil {
		return fmt.Sprintf("%s: %v", r.Status, err)
	}
	var trace []string
	_ = json.Unmarshal(b, &trace)
	do(g.t, g.Replay(ctx, id))
	return strings.Join(trace, " ")
}

// again restarts a run from a call.
func (g *restarts) again(id, newID, from string) {
	g.t.Helper()
	_, err := g.Host.Restart(ctx, id, newID, from)
	do(g.t, err)
	g.Settle()
}

// refused checks that a restart is refused with all of the texts and changes nothing, and that the plan says the
// same.
func (g *restarts) refused(id string, o host.RestartOptions, texts ...string) {
	g.t.Helper()
	o.NewID = "refused"
	_, err := g.RestartWith(ctx, id, o)
	if !errors.Is(err, host.ErrConflict) && !errors.Is(err, host.ErrNotFound) {
		g.t.Errorf("restart from %q: %v", o.From, err)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			g.t.Errorf("restart from %q: %v, want %q", o.From, err, text)
		}
	}
	if _, err := g.Get(ctx, "refused"); !errors.Is(err, host.ErrNotFound) {
		g.t.Error("there is a new run:", err)
	}
	p, planned := g.PlanRestart(ctx, id, o)
	if errors.Is(err, host.ErrConflict) && (planned != nil || p.Refused != err.Error()) {
		g.t.Errorf("the plan says %q %v, want %v", p.Refused, planned, err)
	}
}

// TestRestartWithTheSignalOfTheStart restarts a run that was started with a signal, from the beginning: the new run
// has that signal, but no later ones.
func TestRestartWithTheSignalOfTheStart(t *testing.T) {
	for _, at := range []time.Duration{0, time.Minute} {
		g := newRestarts(t)
		_, err := g.Start(ctx, "program", []doing{{Do: "signal", Name: "go", MS: 3000}, {Do: "signal", Name: "go", MS: 3000}},
			host.WithRunID("r"), host.WithSignal("go", "first", host.WithIdempotencyKey("1")), host.WithStartAt(g.Clock.Now().Add(at)))
		do(t, err)
		g.Clock.Advance(at + time.Second)
		g.Settle()
		do(t, g.Signal(ctx, "r", "go", "second"))
		want(t, g.ends("r"), "go=first go=second")
		plan, err := g.PlanRestart(ctx, "r", host.RestartOptions{})
		do(t, err)
		want(t, plan.Signal, "go")
		g.again("r", "again", "")
		want(t, g.ends("again"), "go=first go=nobody")
		g.again("again", "and-again", "")
		want(t, g.ends("and-again"), "go=first go=nobody")
	}
}

// TestRestartWithoutLaterSignals restarts, from the beginning, runs that got a signal before their workflow began but
// not with their start, and a copy of such a run: the new runs have no signal.
func TestRestartWithoutLaterSignals(t *testing.T) {
	g := newRestarts(t)
	_, err := g.Start(ctx, "program", []doing{{Do: "signal", Name: "go", MS: 3000}, {Do: "call", Name: "ship"}},
		host.WithRunID("r"), host.WithStartAt(g.Clock.Now().Add(time.Minute)))
	do(t, err)
	do(t, g.Signal(ctx, "r", "go", "later"))
	g.Clock.Advance(time.Minute)
	want(t, g.ends("r"), "go=later ship=ship")
	g.again("r", "copy", "ship")
	want(t, g.ends("copy"), "go=later ship=ship")
	for _, of := range []string{"r", "copy"} {
		g.again(of, "again-"+of, "")
		want(t, g.ends("again-"+of), "go=nobody ship=ship")
	}
}

// TestRestartWithOpenTimers restarts, and retries, runs in which timers of the workflow fired between the kept calls.
// The replay delivers each where the first run did, whatever the time is. Later timers see the present time.
func TestRestartWithOpenTimers(t *testing.T) {
	for _, timer := range []doing{{Do: "timer", Name: "t", MS: 1000}, {Do: "timer", Name: "t", MS: 700, ID: "ticks"}} {
		g := newRestarts(t)
		g.breaks("ship")
		ops := []doing{timer, {Do: "sleep", Name: "nap", MS: 3000}, {Do: "call", Name: "ship", Fails: true}, {Do: "signal", Name: "go", MS: 5000}}
		g.begin("r", ops...)
		g.Advance(4 * time.Second)
		g.begin("f", timer, doing{Do: "sleep", Name: "nap", MS: 3000}, doing{Do: "fail", Name: "no", Fails: true})
		g.Advance(time.Hour)
		g.breaks()
		for _, crash := range []bool{false, true} {
			id := fmt.Sprint("again-", crash)
			_, err := g.Host.Restart(ctx, "r", id, "ship")
			do(t, err)
			if crash {
				g.Crash()
			}
			g.Settle()
			g.Clock.Advance(4 * time.Second)
			g.Settle()
			do(t, g.Signal(ctx, id, "go", "in time")) // its time-out counts from the restart
			if got := g.ends(id); !strings.HasSuffix(got, "nap=slept ship=ship go=in time") {
				t.Errorf("%+v, crash %v: %s", timer, crash, got)
			}
		}
		for _, id := range []string{"r", "f"} {
			do(t, g.Retry(ctx, id, 0))
			if r := g.Finish(id); r.Status == host.Stuck {
				t.Errorf("%+v: %s", timer, r.Reason)
			}
		}
	}
}

// TestRestartBehindAHook restarts a run from a step after a hook with a chosen or generated token: everything before
// the step is kept, including the hook's delivery, and the new run takes over the token.
func TestRestartBehindAHook(t *testing.T) {
	for _, chosen := range []string{"", "token-approve"} {
		g := newRestarts(t)
		g.breaks("ship")
		g.begin("r", doing{Do: "call", Name: "reserve"}, doing{Do: "hook", Name: "approve", Token: chosen, MS: 100_000},
			doing{Do: "call", Name: "charge"}, doing{Do: "call", Name: "ship", Fails: true}, doing{Do: "signal", Name: "approve", MS: 1000})
		token := g.tokenOf("r")
		deliver := func(text string) error {
			_, err := g.Hooks().Deliver(ctx, token, []byte(text))
			g.Settle()
			return err
		}
		g.refused("r", host.RestartOptions{From: "approve and more"}, "no step, sleep or child", `"reserve"`)
		do(t, deliver(`"yes"`))
		g.Finish("r")
		g.breaks()
		g.again("r", "r2", "ship")
		do(t, deliver(`"to the new one"`)) // while it waits for the second one
		want(t, g.ends("r2"), "reserve=reserve approve="+chosen+":yes charge=charge ship=ship approve=to the new one")
		want(t, fmt.Sprint(g.of("r2")), "[ship]")
		g.again("r", "r3", "ship") // the token was given up
		g.refused("r", host.RestartOptions{From: "ship"}, `the token of hook "approve"`, `run "r3" holds`)
		g.Crash()
		do(t, deliver(`"after a crash"`))
		want(t, g.ends("r3"), "reserve=reserve approve="+chosen+":yes charge=charge ship=ship approve=after a crash")
		if err := deliver(`"x"`); !errors.Is(err, host.ErrNotFound) {
			t.Error("a token of runs that have ended:", err)
		}
		g.refused("r", host.RestartOptions{From: "no-such-step"}, `no step, sleep or child named "no-such-step"`)
		g.refused("r", host.RestartOptions{From: "chaarge"}, `did you mean "charge"?`)
	}
}

// tokenOf returns the token of a run's hook.
func (g *restarts) tokenOf(id string) (token string) {
	g.t.Helper()
	for e, err := range g.Journal(ctx, id, 0) {
		do(g.t, err)
		if e.Kind.String() == "hook" {
			token = string(e.Data)
		}
	}
	return token
}

// TestRetryAfterARestartTookTheToken refuses to retry a run while a restart of it holds the token of its hook: only
// one of them could get deliveries. When the restart has ended, the run can be retried.
func TestRetryAfterARestartTookTheToken(t *testing.T) {
	for _, chosen := range []string{"", "token-approve"} {
		g := newRestarts(t)
		g.breaks("ship")
		g.begin("r", doing{Do: "hook", Name: "approve", Token: chosen, MS: 100_000}, doing{Do: "call", Name: "ship", Fails: true},
			doing{Do: "signal", Name: "approve", MS: 1000})
		token := g.tokenOf("r")
		_, err := g.Hooks().Deliver(ctx, token, []byte(`"yes"`))
		do(t, err)
		g.Finish("r")
		g.breaks()
		g.again("r", "r2", "ship")
		for range 2 {
			if err := g.Retry(ctx, "r", 0); !errors.Is(err, host.ErrConflict) || !strings.Contains(err.Error(), `run "r2" has taken over the token of hook "approve"`) {
				t.Fatal(err)
			}
			g.Crash()
		}
		do(t, g.Terminate(ctx, "r2"))
		do(t, g.Retry(ctx, "r", 0))
		g.Settle()
		_, err = g.Hooks().Deliver(ctx, token, []byte(`"to the first"`))
		do(t, err)
		want(t, g.ends("r"), "approve="+chosen+":yes ship=ship approve=to the first")
	}
}

// TestRestartOfALiveHolder restarts a live run that holds a token.
func TestRestartOfALiveHolder(t *testing.T) {
	for _, chosen := range []string{"", "token-approve"} {
		g := newRestarts(t)
		g.begin("r", doing{Do: "hook", Name: "approve", Token: chosen, MS: 1000}, doing{Do: "call", Name: "charge"},
			doing{Do: "sleep", Name: "long", MS: 3_600_000})
		g.Advance(2 * time.Second)
		g.refused("r", host.RestartOptions{From: "charge"}, `token of hook "approve"`, `run "r" holds`)
		g.again("r", "r2", "") // from the beginning, where the new run sees that the token is taken
		do(t, g.Terminate(ctx, "r"))
		g.again("r", "r3", "charge")
		want(t, fmt.Sprint(g.of("r3")), "[charge]")
		want(t, g.ends("r3"), "approve="+chosen+":nobody charge=charge long=slept")
	}
}

// TestRestartBehindAChild restarts a run from a step after a child that was not awaited.
func TestRestartBehindAChild(t *testing.T) {
	for _, end := range []string{"abandon", "cancel", "terminate"} {
		g := newRestarts(t)
		g.breaks("ship")
		g.begin("r", doing{Do: "call", Name: "reserve"},
			doing{Do: "race", Name: "race", Ops: []doing{{Do: "start", Name: "kid", Undo: end, MS: 50_000}, {Do: "sleep", Name: "short", MS: 10}}},
			doing{Do: "call", Name: "charge"}, doing{Do: "call", Name: "ship", Fails: true})
		g.Advance(time.Second)
		g.breaks()
		if end == "abandon" {
			g.refused("r", host.RestartOptions{From: "ship"}, `its child "kid"`, "is still running")
			g.Advance(time.Minute)
			g.again("r", "r2", "ship")
		} else {
			was := map[string]string{"cancel": "cancelled", "terminate": "terminated"}[end]
			g.refused("r", host.RestartOptions{From: "ship"}, `its child "kid"`, "was "+was, `restart from "kid" or earlier`)
			_, err := g.RestartWith(ctx, "r", host.RestartOptions{NewID: "r2", From: "ship", KeepUndone: true})
			do(t, err)
		}
		want(t, g.ends("r2"), "reserve=reserve race=kid=started charge=charge ship=ship")
		want(t, fmt.Sprint(g.of("r2")), "[ship]")
		g.refused("r", host.RestartOptions{From: "no-such-step"}, "no step, sleep or child")
		g.again("r", "r3", "kid")
		g.Finish("r3")
		want(t, fmt.Sprint(g.of("r3")), "[charge ship]")
	}
}

// TestRestartOfIterations restarts a run that has continued as new: from its beginning, from each of its steps, and
// from the beginning of an iteration.
func TestRestartOfIterations(t *testing.T) {
	g := newRestarts(t)
	g.begin("r", doing{Do: "call", Name: "c1"}, doing{Do: "sleep", Name: "s1", MS: 1000}, doing{Do: "continue"},
		doing{Do: "call", Name: "c2"}, doing{Do: "call", Name: "both"}, doing{Do: "continue"}, doing{Do: "call", Name: "c3"}, doing{Do: "call", Name: "both"})
	want(t, g.ends("r"), "c3=c3 both=both")
	one, three := uint32(1), uint32(3)
	for i, c := range []struct {
		o         host.RestartOptions
		iteration uint32
		made      string
	}{
		{host.RestartOptions{}, 0, "[c1 c2 both c3 both]"},
		{host.RestartOptions{From: "c1"}, 0, "[c1 c2 both c3 both]"},
		{host.RestartOptions{From: "s1"}, 0, "[c2 both c3 both]"},
		{host.RestartOptions{From: "c2"}, 1, "[c2 both c3 both]"},
		{host.RestartOptions{From: "both"}, 2, "[both]"},
		{host.RestartOptions{From: "both", Iteration: &one}, 1, "[both c3 both]"},
		{host.RestartOptions{Iteration: &one}, 1, "[c2 both c3 both]"},
		{host.RestartOptions{From: "c3"}, 2, "[c3 both]"},
	} {
		id := fmt.Sprint("again", i)
		p, err := g.PlanRestart(ctx, "r", c.o)
		do(t, err)
		want(t, p.Iteration, c.iteration)
		c.o.NewID = id
		_, err = g.RestartWith(ctx, "r", c.o)
		do(t, err)
		want(t, g.ends(id), "c3=c3 both=both")
		want(t, fmt.Sprint(g.of(id)), c.made)
	}
	g.refused("r", host.RestartOptions{Iteration: &three}, "iteration 3, the newest one is 2")
	g.refused("r", host.RestartOptions{From: "c2", Iteration: new(uint32)}, "iteration 0")
}

// TestRestartAfterASaga restarts a run whose saga has compensated steps: only from a point where no compensated step
// is kept. A refused retry recommends exactly that restart.
func TestRestartAfterASaga(t *testing.T) {
	for name, ops := range map[string][]doing{
		"in a row": {{Do: "call", Name: "look"}, {Do: "call", Name: "reserve", Undo: "release"}, {Do: "call", Name: "note it"},
			{Do: "call", Name: "pay", Undo: "refund"}, {Do: "call", Name: "charge", Fails: true}, {Do: "call", Name: "ship"}},
		"cancelled by hand": {{Do: "call", Name: "look"}, {Do: "call", Name: "reserve", Undo: "release"}, {Do: "call", Name: "charge", Fails: true}},
	} {
		g := newRestarts(t)
		g.breaks("charge")
		g.begin("r", ops...)
		g.Finish("r")
		err := g.Retry(ctx, "r", 0)
		if !errors.Is(err, host.ErrConflict) || !strings.Contains(err.Error(), `restart the run from "reserve"`) {
			t.Errorf("%s: %v", name, err)
		}
		g.breaks()
		g.refused("r", host.RestartOptions{From: "charge"}, `would keep the result of "reserve"`, `step "release" has undone`,
			`restart from "reserve" or earlier`)
		p, err := g.PlanRestart(ctx, "r", host.RestartOptions{From: "charge"})
		do(t, err)
		if i := slices.IndexFunc(p.Kept, func(c host.RestartCall) bool { return c.Name == "reserve" }); i < 0 ||
			p.Kept[i].Note != `undone by step "release"` {
			t.Errorf("%s: kept %+v", name, p.Kept)
		}
		g.again("r", "r2", "reserve")
		g.ends("r2")
		if made := g.of("r2"); made[0] != "reserve" || slices.Contains(made, "look") || slices.Contains(made, "release") {
			t.Errorf("%s: the new run has made %v", name, made)
		}
		_, err = g.RestartWith(ctx, "r", host.RestartOptions{NewID: "r3", From: "charge", KeepUndone: true})
		do(t, err)
		g.ends("r3")
		want(t, g.of("r3")[0], "charge")
	}
}

// TestRestartAfterUndoingByHand restarts a run that made a step after its failure, which may have undone the previous
// step.
func TestRestartAfterUndoingByHand(t *testing.T) {
	g := newRestarts(t)
	g.breaks("charge")
	g.begin("r", doing{Do: "call", Name: "reserve"}, doing{Do: "byhand", Name: "charge", Undo: "release", Fails: true})
	g.Finish("r")
	if err := g.Retry(ctx, "r", 0); !errors.Is(err, host.ErrConflict) || !strings.Contains(err.Error(), "from its beginning") {
		t.Error(err)
	}
	g.breaks()
	g.refused("r", host.RestartOptions{From: "charge"}, `step "release" may have undone`, "restart from the beginning")
	g.again("r", "r2", "reserve")
	want(t, g.ends("r2"), "reserve=reserve charge=charge")
	g.begin("first", doing{Do: "sleep", Name: "s", MS: 1}, doing{Do: "byhand", Name: "charge", Undo: "release", Fails: true})
	g.Finish("first") // there is no earlier step that could have been undone
	g.again("first", "first2", "charge")
}

// TestRestartUnderAnotherVersion restarts a run under a version that fits the kept part, and under one that does not.
func TestRestartUnderAnotherVersion(t *testing.T) {
	h := hosttest.New(t)
	version := func(names ...string) {
		m := wasmgen.New(0)
		for _, n := range names {
			m.Text(n).I64(1).Call(abi.FnSleep).Drop()
		}
		_, err := h.Upload(ctx, "w", m.I32(0).Export(abi.ExportRun).Bytes())
		do(t, err)
	}
	version("a", "b")
	_, err := h.Start(ctx, "w", nil, host.WithRunID("r"))
	do(t, err)
	h.Finish("r")
	version("a", "c", "b")
	version("x", "b")
	r, err := h.RestartWith(ctx, "r", host.RestartOptions{NewID: "r2", From: "b", Version: 2})
	do(t, err)
	want(t, r.Version, uint32(2))
	want(t, h.Finish("r2").Status, host.Completed)
	do(t, h.Replay(ctx, "r2"))
	_, err = h.RestartWith(ctx, "r", host.RestartOptions{NewID: "r3", From: "b", Version: 3})
	if !errors.Is(err, host.ErrConflict) || !strings.Contains(err.Error(), `version 3 of w does not fit what the new run would keep: it diverges at entry 2: the journal has sleep "a", the workflow did sleep "x"`) {
		t.Error(err)
	}
	r, err = h.RestartWith(ctx, "r", host.RestartOptions{NewID: "r4", Version: 3})
	do(t, err)
	want(t, h.Finish("r4").Status, host.Completed)
	want(t, r.Version, uint32(3))
	_, err = h.RestartWith(ctx, "r", host.RestartOptions{Version: 9})
	if !errors.Is(err, host.ErrNotFound) {
		t.Error(err)
	}
}
