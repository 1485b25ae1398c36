package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/store"
)

var ctx = context.Background()

// lab is a test host with the scenarios' workflows and handlers.
type lab struct {
	*hosttest.Host
	t      *testing.T
	counts atomic.Int64
	fails  atomic.Int64 // how often host/flaky fails
	asks   atomic.Int64 // at which ask host/status says yes
	calls  []host.Step
	times  []time.Time
	slow   chan struct{} // host/slow has begun
}

func newLab(t *testing.T, opts ...hosttest.Option) *lab {
	l := &lab{t: t, slow: make(chan struct{}, 1)}
	l.Host = hosttest.New(t, append(opts, hosttest.WithHandlers(l.handlers))...)
	if _, err := l.Upload(ctx, "", hosttest.Build(t, "testdata/scenarios"), host.AllowStep("*")); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *lab) handlers(h *host.Host) {
	host.HandleStep(h, "count", func(ctx context.Context, _ int) (int, error) {
		l.calls = append(l.calls, host.StepInfo(ctx))
		return int(l.counts.Add(1)), nil
	})
	host.HandleStep(h, "status", func(_ context.Context, i int) (bool, error) { return int64(i) == l.asks.Load(), nil })
	host.HandleStep(h, "fail", func(_ context.Context, i int) (int, error) {
		if i < 5 {
			return 0, errors.New("not yet")
		}
		return i, nil
	})
	host.HandleStep(h, "flaky", func(ctx context.Context, _ string) (string, error) {
		l.times = append(l.times, l.Clock.Now())
		l.calls = append(l.calls, host.StepInfo(ctx))
		if l.fails.Add(-1) >= 0 {
			return "", errors.New(fmt.Sprint("failure at attempt ", host.StepInfo(ctx).Attempt))
		}
		return fmt.Sprintf("attempt %d", host.StepInfo(ctx).Attempt), nil
	})
	host.HandleStep(h, "fatal", func(context.Context, string) (string, error) {
		l.counts.Add(1)
		return "", host.Fatal(errors.New("never again"))
	})
	host.HandleStep(h, "later", func(context.Context, string) (string, error) {
		l.times = append(l.times, l.Clock.Now())
		if len(l.times) == 1 {
			return "", host.RetryAfter(errors.New("busy"), time.Hour)
		}
		return "ok", nil
	})
	host.HandleStep(h, "panic", func(context.Context, string) (string, error) { panic("handler panics") })
	host.HandleStep(h, "payload", func(_ context.Context, n int) (string, error) { return strings.Repeat("\x00é", n), nil })
	host.HandleStep(h, "slow", func(ctx context.Context, _ int) (string, error) {
		l.slow <- struct{}{}
		<-ctx.Done() // told by the workflow's cancel
		return "charged", nil
	})
	host.HandleStep(h, "broken", func(context.Context, int) (string, error) {
		<-l.slow // otherwise the cancel could come before "slow" has begun
		return "", errors.New("no paper")
	})
}

func (l *lab) begin(workflow string, input any, opts ...host.StartOption) string {
	l.t.Helper()
	r, err := l.Start(ctx, workflow, input, opts...)
	if err != nil {
		l.t.Fatal(err)
	}
	return r.ID
}

// run starts a workflow, lets time pass until it ends, and returns its result.
func run[T any](l *lab, workflow string, input any) T {
	l.t.Helper()
	id := l.begin(workflow, input)
	l.Finish(id)
	v, err := host.Result[T](ctx, l.Host.Host, id)
	if err != nil {
		l.t.Fatalf("workflow %s: %v", workflow, err)
	}
	return v
}

func (l *lab) kinds(id string) (list []string) {
	l.t.Helper()
	for e, err := range l.Journal(ctx, id, 0) {
		if err != nil {
			l.t.Fatal(err)
		}
		list = append(list, strings.TrimSpace(e.Kind.String()+" "+e.Name))
	}
	return list
}

func want[T comparable](t *testing.T, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func TestDurationTexts(t *testing.T) {
	l := newLab(t)
	texts := []string{"500ms", "30s", "5m", "1h", "24h", "7d", "1w", "1.5h", "1h30m", "PT5M", "P1DT12H"}
	got := run[[]string](l, "texts", texts)
	expect := []string{"500", "30000", "300000", "3600000", "86400000", "604800000", "604800000", "5400000", "5400000", "300000", "129600000"}
	if !slices.Equal(got, expect) {
		t.Fatalf("slept %v, want %v", got, expect)
	}
}

func TestInvalidDurationTexts(t *testing.T) {
	l := newLab(t)
	texts := []string{"", "5", "5x", "abc", "-1s", "ms", "s5", "1mo", "5y", "5 seconds"}
	for i, message := range run[[]string](l, "texts", texts) {
		if !strings.Contains(message, fmt.Sprintf("%q", texts[i])) {
			t.Errorf("%q: %s", texts[i], message)
		}
	}
}

func TestZeroSleeps(t *testing.T) {
	l := newLab(t)
	id := l.begin("zeros", 1000)
	want(t, l.Finish(id).Entries, 2003)
	want(t, l.Clock.Now(), hosttest.Epoch)
}

func TestUntil(t *testing.T) {
	l := newLab(t)
	want(t, run[int64](l, "until", 60_000), 60_000)
	want(t, run[int64](l, "until", -60_000), 0)
	want(t, run[int64](l, "until", -1), 0)
}

func TestFarSleeps(t *testing.T) {
	for _, d := range []time.Duration{25 * 24 * time.Hour, 366 * 24 * time.Hour, 3653 * 24 * time.Hour} {
		l := newLab(t)
		id := l.begin("until", d.Milliseconds())
		l.Settle()
		timers, err := collect(l.Timers(ctx, hosttest.Epoch.Add(d)))
		if err != nil || len(timers) != 1 || !timers[0].Due.Equal(hosttest.Epoch.Add(d)) {
			t.Fatalf("timers %v %v", timers, err)
		}
		l.Advance(d - time.Millisecond)
		r, _ := l.Get(ctx, id)
		want(t, r.Status, host.Sleeping)
		l.Advance(time.Millisecond)
		r, _ = l.Get(ctx, id)
		want(t, r.Status, host.Completed)
		want(t, r.Ended, hosttest.Epoch.Add(d))
	}
}

func TestDuplicateName(t *testing.T) {
	l := newLab(t)
	if got := run[string](l, "duplicate", 0); !strings.Contains(got, "pause") || !strings.Contains(got, "index") {
		t.Fatal(got)
	}
}

func TestIterations(t *testing.T) {
	l := newLab(t)
	at := run[[]int64](l, "iterate", 3)
	if at[1]-at[0] != 3000 || at[2]-at[1] != 3000 || l.counts.Load() != 3 {
		t.Fatalf("at %v, %d steps", at, l.counts.Load())
	}
}

func TestPoll(t *testing.T) {
	l := newLab(t)
	l.asks.Store(7)
	want(t, run[int](l, "poll", 0), 8)
	want(t, l.Clock.Now().Sub(hosttest.Epoch), 35*time.Second)
	l.asks.Store(1000)
	id := l.begin("poll", 0)
	want(t, l.Finish(id).Status, host.Failed)
	var re *host.RunError
	if _, err := l.ResultRaw(ctx, id); !errors.As(err, &re) || !strings.Contains(err.Error(), "after 60 tries") {
		t.Fatal(err)
	}
}

func TestHandWrittenBackoff(t *testing.T) {
	l := newLab(t)
	if got := run[[]int](l, "backoff", 0); !slices.Equal(got, []int{2, 4, 8, 16}) {
		t.Fatal(got)
	}
}

func TestCallsInABody(t *testing.T) {
	l := newLab(t)
	want(t, run[string](l, "inbody", 0), "true true 0")
}

func TestParallelSleeps(t *testing.T) {
	l := newLab(t)
	want(t, run[int64](l, "parallel", 10), 1000)
}

func TestRace(t *testing.T) {
	l := newLab(t)
	want(t, run[string](l, "race", 0), "short")
	want(t, l.Clock.Now().Sub(hosttest.Epoch), 500*time.Millisecond)
	if next, ok := l.Settle(); ok {
		t.Fatalf("something is left: a wake at %v", next)
	}
}

func TestBackgroundSleep(t *testing.T) {
	l := newLab(t)
	want(t, run[int](l, "background", 0), 6)
	want(t, l.Clock.Now(), hosttest.Epoch)
}

func TestPlainGoProgram(t *testing.T) {
	h := hosttest.New(t)
	if _, err := h.Upload(ctx, "plain", hosttest.BuildCommand(t, "testdata/plain")); err != nil {
		t.Fatal(err)
	}
	r, err := h.Start(ctx, "plain", json.RawMessage(`"hello"`))
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		h.Advance(20 * time.Hour)
		h.Crash()
	}
	want(t, h.Finish(r.ID).Status, host.Completed)
	b, err := h.ResultRaw(ctx, r.ID)
	if err != nil || !strings.HasPrefix(string(b), `"hello" [1 2 3] 73h0m`) {
		t.Fatalf("%s %v", b, err)
	}
}

func TestCrashAtEveryCommit(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := 0; ; n++ {
			l := newLab(t)
			l.CrashAt(n, after)
			_, err := l.Start(ctx, "iterate", 3, host.WithRunID("r"))
			for range 3 {
				l.Advance(3 * time.Second)
			}
			crashed := l.Crashed()
			if crashed {
				l.Crash()
			}
			if err != nil { // the start was not acknowledged
				l.begin("iterate", 3, host.WithRunID("r"))
			}
			r := l.Finish("r")
			want(t, r.Status, host.Completed)
			at, err := host.Result[[]int64](ctx, l.Host.Host, "r")
			if err != nil || at[1]-at[0] < 3000 || at[2]-at[1] < 3000 {
				t.Fatalf("crash at %d: %v %v", n, at, err)
			}
			results := 0
			for _, k := range l.kinds("r") {
				if k == "step_result" {
					results++
				}
			}
			want(t, results, 3)
			keys := map[string]bool{}
			for _, c := range l.calls {
				keys[c.IdempotencyKey] = true
			}
			want(t, len(keys), 3)
			if !crashed {
				break
			}
		}
	}
}

func TestEffectOnce(t *testing.T) {
	l := newLab(t)
	id := l.begin("iterate", 1)
	l.Settle()
	for range 3 {
		l.Crash()
		l.Settle()
	}
	l.Finish(id)
	want(t, l.counts.Load(), 1)
}

func TestPayloads(t *testing.T) {
	l := newLab(t)
	for _, n := range []int{0, 1, 100_000} {
		want(t, run[bool](l, "payload", n), true)
	}
}

type request struct {
	Handler string
	Options map[string]any
	Catch   bool
}

func TestFailsTwice(t *testing.T) {
	l := newLab(t)
	l.fails.Store(2)
	want(t, run[string](l, "call", request{Handler: "host/flaky"}), "attempt 3")
	if l.calls[0].IdempotencyKey != l.calls[2].IdempotencyKey || l.calls[0].Attempts != 3 {
		t.Fatalf("%+v", l.calls)
	}
}

func TestDelays(t *testing.T) {
	for name, c := range map[string]struct {
		options map[string]any
		gaps    []time.Duration
	}{
		"fixed":       {map[string]any{"backoff": "fixed", "delay": "10s"}, []time.Duration{10 * time.Second, 10 * time.Second, 10 * time.Second}},
		"linear":      {map[string]any{"backoff": "linear", "delay": "10s"}, []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second}},
		"exponential": {map[string]any{"delay": "10s", "factor": 3}, []time.Duration{10 * time.Second, 30 * time.Second, 90 * time.Second}},
		"cap":         {map[string]any{"delay": "10s", "max_delay": "15s"}, []time.Duration{10 * time.Second, 15 * time.Second, 15 * time.Second}},
	} {
		l := newLab(t)
		l.fails.Store(3)
		c.options["attempts"] = 4
		want(t, run[string](l, "call", request{Handler: "host/flaky", Options: c.options}), "attempt 4")
		for i, gap := range c.gaps {
			if got := l.times[i+1].Sub(l.times[i]); got != gap {
				t.Errorf("%s: gap %d is %v, want %v", name, i, got, gap)
			}
		}
	}
	l := newLab(t)
	l.fails.Store(1)
	run[string](l, "call", request{Handler: "host/flaky", Options: map[string]any{"delay": "10s", "jitter": 0.5}})
	if gap := l.times[1].Sub(l.times[0]); gap < 5*time.Second || gap > 10*time.Second {
		t.Errorf("gap with jitter: %v", gap)
	}
	l = newLab(t)
	want(t, run[string](l, "call", request{Handler: "host/later"}), "ok")
	want(t, l.times[1].Sub(l.times[0]), time.Hour)
}

func TestAttemptsUsedUp(t *testing.T) {
	l := newLab(t)
	l.fails.Store(99)
	got := run[string](l, "call", request{Handler: "host/flaky", Catch: true})
	want(t, got, "STEP_FAILED error 3 failure at attempt 3")
	id := l.begin("call", request{Handler: "host/flaky"})
	l.Finish(id)
	var failure string
	for e := range l.Journal(ctx, id, 0) {
		if e.Kind == store.KindStepFailure {
			failure = string(e.Data)
		}
	}
	for _, part := range []string{`"history"`, `failure at attempt 1`, `failure at attempt 2`, `failure at attempt 3`,
		`"type":"*errors.errorString"`, `"start_ms"`} {
		if !strings.Contains(failure, part) {
			t.Errorf("%s misses %s", failure, part)
		}
	}
	got = run[string](l, "call", request{Handler: "host/panic", Catch: true, Options: map[string]any{"attempts": 1}})
	want(t, got, "STEP_FAILED trap 1 the handler panicked: handler panics")
}

func TestFatalAndOneAttempt(t *testing.T) {
	l := newLab(t)
	want(t, run[string](l, "call", request{Handler: "host/fatal", Catch: true}), "STEP_FAILED error 1 never again")
	want(t, l.counts.Load(), 1)
	l.fails.Store(99)
	want(t, run[string](l, "call", request{Handler: "host/flaky", Catch: true, Options: map[string]any{"attempts": 1}}),
		"STEP_FAILED error 1 failure at attempt 1")
}

func TestUnknownAndDeniedHandlers(t *testing.T) {
	l := newLab(t)
	if _, err := l.Upload(ctx, "", hosttest.Build(t, "testdata/scenarios"), host.AllowStep("count")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"host/nobody", "nobody"} {
		if got := run[string](l, "call", request{Handler: name, Catch: true}); !strings.HasPrefix(got, "UNKNOWN_HANDLER") {
			t.Error(got)
		}
	}
	if got := run[string](l, "call", request{Handler: "host/flaky", Catch: true}); !strings.HasPrefix(got, "DENIED") {
		t.Error(got)
	}
}

func TestTooLarge(t *testing.T) {
	l := newLab(t)
	id := l.begin("payload", abi.MaxPayloadBytes)
	want(t, l.Finish(id).Status, host.Failed)
	if _, err := l.ResultRaw(ctx, id); err == nil || !strings.Contains(err.Error(), "the limit is 1048576") {
		t.Fatal(err)
	}
	for _, k := range l.kinds(id) {
		if k == "attempt_failed" {
			t.Fatal("a result that is too large was tried again")
		}
	}
}

func TestParallelBodies(t *testing.T) {
	l := newLab(t)
	if got := run[[]string](l, "bodies", 3); !slices.Equal(got, []string{"0 1", "1 1", "2 1"}) {
		t.Fatal(got)
	}
}

func TestStepFunction(t *testing.T) {
	l := newLab(t)
	want(t, run[int](l, "function", 21), 42)
}

func TestCompensation(t *testing.T) {
	l := newLab(t)
	want(t, run[string](l, "compensate", 0), "charged<nil> true")
}

// TestRegistrationCallsNoMethods: methods of a workflow's input are called to decode an input, but not by the
// registration.
func TestRegistrationCallsNoMethods(t *testing.T) {
	l := newLab(t)
	for want, in := range []string{"{}", `{"Here":1}`, `{"Here":1,"There":2}`} {
		r, err := l.Start(ctx, "methods", json.RawMessage(in))
		if err != nil {
			t.Fatal(err)
		}
		l.Finish(r.ID)
		if got, err := l.ResultRaw(ctx, r.ID); err != nil || string(got) != fmt.Sprint(want) {
			t.Errorf("input %s: %s calls, want %d; %v", in, got, want, err)
		}
	}
}
