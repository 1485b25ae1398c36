package host_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// handmade is a test host with a handwritten workflow, of which it starts a run "r".
func handmade(t *testing.T, m *wasmgen.Module, opts ...hosttest.Option) *hosttest.Host {
	t.Helper()
	h := hosttest.New(t, opts...)
	if _, err := h.Upload(ctx, "w", m.Export(abi.ExportRun).Bytes(), host.AllowStep("*")); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Start(ctx, "w", nil, host.WithRunID("r")); err != nil {
		t.Fatal(err)
	}
	return h
}

// big is a module with the maximum memory.
func big(locals int) *wasmgen.Module {
	m := wasmgen.New(locals)
	m.Pages = abi.MaxMemoryBytes / 65536
	return m
}

// failure returns the error with which the run ended.
func failure(t *testing.T, h *hosttest.Host, id string) abi.Error {
	t.Helper()
	h.Finish(id)
	_, err := h.ResultRaw(ctx, id)
	run, ok := errors.AsType[*host.RunError](err)
	if !ok || run.Failure == nil {
		t.Fatalf("run %s has not failed: %v", id, err)
	}
	return *run.Failure
}

func fuel(n int64) hosttest.Option {
	return hosttest.WithConfig(func(c *host.Config) { c.MaxFuel = n })
}

// writeVectors calls fd_write once, with n buffers of 60 MiB.
func writeVectors(m *wasmgen.Module, n int64) *wasmgen.Module {
	const list, size = 65536, 60 << 20
	return m.I64(0).Set(0).While().Get(0).I64(n).NotLess().Break().
		Get(0).I64(8).Mul().I64(list).Add().Wrap().I64(size<<32).Store64().Count(0, 1).EndWhile().
		I32(2).I32(list).I32(int32(n)).I32(0).Call("wasi:fd_write").Drop()
}

// TestCallsUseFuel spends the fuel in calls instead of instructions. A replay does the same.
func TestCallsUseFuel(t *testing.T) {
	for name, m := range map[string]*wasmgen.Module{
		"fd_write": writeVectors(big(1).While(), abi.MaxIOVectors).EndWhile(),
		"random":   big(0).While().I32(0).I32(60 << 20).Call(abi.FnRandom).Drop().EndWhile(),
		"log":      big(0).While().I32(1).I32(0).I32(60 << 20).Call(abi.FnLog).Drop().EndWhile(),
	} {
		h := handmade(t, m.I32(0), fuel(200_000_000))
		if e := failure(t, h, "r"); e.Code != abi.Limit || e.Kind != "cpu" {
			t.Errorf("%s: %+v", name, e)
		}
		if err := h.Replay(ctx, "r"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHaltedWithinACall ends a run, and then a host, whose guest never runs out of fuel and is always within a call.
func TestHaltedWithinACall(t *testing.T) {
	endless := hosttest.WithConfig(func(c *host.Config) {
		c.MaxFuel, c.MaxSegmentCPU, c.StartLinger = math.MaxInt64/2, time.Hour, time.Millisecond
	})
	for name, m := range map[string]*wasmgen.Module{
		"fd_write": writeVectors(big(1).While(), abi.MaxIOVectors).EndWhile(),
		"random":   big(0).While().I32(0).I32(60 << 20).Call(abi.FnRandom).Drop().EndWhile(),
	} {
		h := handmade(t, m.I32(0), endless)
		for { // until the guest is at it
			r, err := h.Get(ctx, "r")
			if err != nil {
				t.Fatal(err)
			}
			if r.Status == host.Running {
				break
			}
			runtime.Gosched()
		}
		if err := h.Terminate(ctx, "r"); err != nil {
			t.Fatal(err)
		}
		h.Settle() // fails if the guest goes on
		if r, err := h.Get(ctx, "r"); r.Status != host.Terminated || err != nil {
			t.Errorf("%s: %s %v", name, r.Status, err)
		}
		if _, err := h.Start(ctx, "w", nil, host.WithRunID("r2")); err != nil {
			t.Fatal(err)
		}
		if err := h.Close(); err != nil { // does not return if the guest continues
			t.Fatal(err)
		}
	}
}

// TestUploadEnds uploads a module whose start-up makes one long call after another.
func TestUploadEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("computes until the fuel of a start is gone")
	}
	h := hosttest.New(t)
	m := big(0).While().I32(0).I32(abi.MaxMemoryBytes).Call("wasi:random_get").Drop().EndWhile().Export(abi.ExportInitialize)
	_, err := h.Upload(ctx, "w", m.I32(0).Export(abi.ExportRun).Bytes())
	if err == nil || !strings.Contains(err.Error(), "_initialize or the start section computes too long") {
		t.Error(err)
	}
}

// TestRefusedCalls makes refused calls forever.
func TestRefusedCalls(t *testing.T) {
	m := wasmgen.New(0).While().Text("").Text("").Call(abi.FnEmit).Drop().EndWhile().I32(0)
	h := handmade(t, m)
	if e := failure(t, h, "r"); e.Code != abi.Limit || e.Kind != abi.KindJournal {
		t.Errorf("%+v", e)
	}
	r, err := h.Get(ctx, "r")
	if err != nil || r.Entries > abi.MaxEntries {
		t.Error(r.Entries, err)
	}
	if err := h.Replay(ctx, "r"); err != nil {
		t.Error(err)
	}
}

// TestPollForEver polls with the longest timeout, which must not return at once.
func TestPollForEver(t *testing.T) {
	for _, flags := range []int64{0, 1} {
		m := wasmgen.New(0).I32(16).I64(1).Store64().I32(24).I64(math.MaxInt64).Store64().I32(40).I64(flags).Store64().
			While().I32(0).I32(128).I32(1).I32(256).Call("wasi:poll_oneoff").Drop().EndWhile().I32(0)
		h := handmade(t, m)
		if next, ok := h.Settle(); !ok || next.Year() < 2262 {
			t.Error("it wakes", next, ok)
		}
		if r, err := h.Get(ctx, "r"); r.Status != host.Sleeping || r.Entries > 2 || err != nil {
			t.Errorf("%s after %d entries: %v", r.Status, r.Entries, err)
		}
	}
}

// TestEndlessAttempts retries steps endlessly in a journal that is nearly full: within an activation, and by timers.
// The entry that exceeds the limit is the start or the failure of an attempt.
func TestEndlessAttempts(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	const steps = 64 // many at a time, since each attempt may read the whole journal
	last := map[store.Kind]bool{}
	for i, linger := range []time.Duration{0, 0, -1, -1} {
		calls := int64(abi.MaxEntries - abi.MaxEntries/abi.DeliveryReserveShare - 10 - steps - i%2*steps*3/2)
		var tries atomic.Int64
		m := wasmgen.New(1).While().Get(0).I64(calls).NotLess().Break().Text("t").Text("").Call(abi.FnEmit).Drop().Count(0, 1).EndWhile()
		for n := range steps {
			m.Text(fmt.Sprint("s", n)).Text("host/never").Text("").Text(`{"attempts":0,"delay":"1s","max_delay":"1s"}`)
			if n < steps-1 {
				m.Call(abi.FnStepStart).Drop()
			}
		}
		m.I32(0).I32(0).Call(abi.FnStepDo).Drop().I32(0)
		h := handmade(t, m, hosttest.WithConfig(func(c *host.Config) { c.Linger = linger }),
			hosttest.WithHandlers(func(h *host.Host) {
				host.HandleStep(h, "never", func(context.Context, any) (any, error) {
					tries.Add(1)
					return nil, errors.New("no")
				})
			}))
		if e := failure(t, h, "r"); e.Code != abi.Limit || e.Kind != abi.KindJournal {
			t.Errorf("%+v", e)
		}
		r, err := h.Get(ctx, "r")
		if r.Entries != abi.MaxEntries+1 || tries.Load() < 2000 || err != nil {
			t.Error(r.Entries, tries.Load(), err)
		}
		for e, err := range h.Journal(ctx, "r", store.Seq(r.Entries-2)) {
			do(t, err)
			last[e.Kind] = true
			break
		}
		if s := h.Stats(); s.Instances != 0 {
			t.Errorf("something goes on: %+v", s)
		}
	}
	if len(last) < 2 {
		t.Errorf("the last records are all of one kind: %v", last)
	}
}

func TestKeyAcrossNames(t *testing.T) {
	h := handmade(t, wasmgen.New(0).Text("paid").I64(-1).I32(0).I32(0).Call(abi.FnSignalWait).Drop().
		Text("shipped").I64(-1).I32(0).I32(0).Call(abi.FnSignalWait).Drop().I32(0))
	h.Settle()
	for _, name := range []string{"paid", "paid", "shipped"} {
		if err := h.Signal(ctx, "r", name, nil, host.WithIdempotencyKey("order-42")); err != nil {
			t.Fatal(err)
		}
	}
	h.Settle()
	if r, err := h.Get(ctx, "r"); r.Status != host.Completed || err != nil {
		t.Error("the second signal was acknowledged and dropped:", r.Status, err)
	}
}

// TestLimitsLowered opens data with a limit below what runs have already used: before a wait, and before a call.
func TestLimitsLowered(t *testing.T) {
	spin := func(m *wasmgen.Module) *wasmgen.Module {
		return m.I64(0).Set(0).While().Get(0).I64(20_000_000).NotLess().Break().Count(0, 1).EndWhile()
	}
	for name, m := range map[string]*wasmgen.Module{
		"before the call": spin(wasmgen.New(1)).Text("nap").I64(1000).Call(abi.FnSleep).Drop().I32(0),
		"before the wait": spin(wasmgen.New(1).Text("nap").I64(1000).Call(abi.FnSleepStart).Drop()).I32(0).I32(0).
			Call(abi.FnAwait).Drop().I32(0),
	} {
		data := memstore.New()
		inData := hosttest.WithStore(func() store.Store { return data.Open() })
		h := handmade(t, m, inData)
		if next, ok := h.Settle(); !ok {
			t.Fatal("it does not sleep", next)
		}
		h.Stop()
		h = hosttest.New(t, inData, fuel(5_000_000))
		if r := h.Finish("r"); r.Status != host.Completed {
			_, err := h.ResultRaw(ctx, "r")
			t.Errorf("%s: it fails for what its journal had passed: %v", name, err)
		}
		if err := h.Replay(ctx, "r"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := h.Start(ctx, "w", nil, host.WithRunID("new")); err != nil {
			t.Fatal(err)
		}
		if e := failure(t, h, "new"); e.Kind != "cpu" {
			t.Errorf("%s: a new run has the lower limit: %+v", name, e)
		}
	}
}

// TestQueuedWhenItsHostDied lowers the limit of a run that was ready to continue when its host died.
func TestQueuedWhenItsHostDied(t *testing.T) {
	m := wasmgen.New(1).Text("go").I64(-1).Call(abi.FnSignalStart).Drop().
		While().Get(0).I64(20_000_000).NotLess().Break().Count(0, 1).EndWhile().
		I32(0).I32(0).Call(abi.FnAwait).Drop().I32(0)
	data := memstore.New()
	inData := hosttest.WithStore(func() store.Store { return data.Open() })
	h := handmade(t, m, inData)
	h.Settle()
	h.CrashAt(0, true)
	_ = h.Signal(ctx, "r", "go", nil) // durable, though nobody is told
	h.Stop()
	h = hosttest.New(t, inData, fuel(50_000_000))
	if r := h.Finish("r"); r.Status != host.Completed {
		_, err := h.ResultRaw(ctx, "r")
		t.Errorf("it fails for what its journal had passed: %v", err)
	}
}

// TestTokenWithADot delivers to a chosen token that looks like a token made by the host, and to one made by the host.
func TestTokenWithADot(t *testing.T) {
	const token = "invoice-approval-000123456.acme"
	h := handmade(t, wasmgen.New(0).Text("decision").Text(token).I32(0).I32(0).Call(abi.FnHookStart).Drop().
		Text("decision").I64(-1).I32(0).I32(0).Call(abi.FnSignalWait).Drop().I32(0))
	h.Settle()
	if _, err := h.Start(ctx, "w", nil, host.WithRunID("acme")); err != nil { // whose claim is refused
		t.Fatal(err)
	}
	h.Settle()
	if _, err := h.Hooks().Deliver(ctx, token, nil); err != nil {
		t.Error(err)
	}
	h.Settle()
	if r, err := h.Get(ctx, "r"); r.Status != host.Completed || err != nil {
		t.Error(r.Status, err)
	}
	if _, err := h.Hooks().Deliver(ctx, token, nil); !errors.Is(err, host.ErrNotFound) {
		t.Error(err)
	}
	made := handmade(t, wasmgen.New(0).Text("decision").I32(0).I32(0).I32(0).I32(0).Call(abi.FnHookStart).Drop().
		Text("decision").I64(-1).I32(0).I32(0).Call(abi.FnSignalWait).Drop().I32(0))
	made.Settle()
	for e, err := range made.Journal(ctx, "r", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == store.KindHookReady {
			if _, err := made.Hooks().Deliver(ctx, string(e.Data), nil); err != nil {
				t.Error(err)
			}
		}
	}
	if r := made.Finish("r"); r.Status != host.Completed {
		t.Error(r.Status)
	}
}

// TestLongStarts delays starts by more than the 292 years of a time.Duration.
func TestLongStarts(t *testing.T) {
	h := hosttest.New(t)
	nap := wasmgen.New(0).Text("nap").I64(1000).Call(abi.FnSleep).Drop().I32(0).Export(abi.ExportRun).Bytes()
	if _, err := h.Upload(ctx, "w", nap); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		opt  host.StartOption
		year int
		err  string
	}{{host.WithStartInText("110000d"), 2327, ""}, {host.WithStartIn(math.MaxInt64), 2318, ""},
		{host.WithStartAt(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)), 9999, ""}, {host.WithStartIn(-time.Hour), 2026, ""},
		{host.WithStartAt(time.Unix(math.MinInt64, 0)), 2026, ""}, {host.WithTimeoutText("110000d"), 2026, ""},
		{host.WithStartInText("2920000d"), 0, "beyond the end of year 9999"}, {host.WithStartInText("1y"), 0, "start in: INVALID_DURATION"},
		{host.WithStartAt(time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)), 0, "the last instant is 9999-12-31"},
		{host.WithTimeoutText("2920000d"), 0, "beyond the end of year 9999"}} {
		id := fmt.Sprint("r", i)
		_, err := h.Start(ctx, "w", nil, c.opt, host.WithRunID(id))
		if c.err != "" {
			if !errors.Is(err, host.ErrInvalid) || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%d: %v, want %q", i, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Fatal(i, err)
		}
		h.Settle()
		if r, err := h.Get(ctx, id); r.Status != host.Sleeping || r.Wake.Year() != c.year || err != nil {
			t.Errorf("%d: %s until %s: %v", i, r.Status, r.Wake, err)
		}
	}
}

// TestLogAfterRetry keeps the log lines of the repeated part, and earlier lines only once.
func TestLogAfterRetry(t *testing.T) {
	fails := 1
	m := wasmgen.New(1).I32(1).Text("a").Call(abi.FnLog).Drop().Text("nap").I64(1000).Call(abi.FnSleep).Drop().
		I32(1).Text("b").Call(abi.FnLog).Drop().
		Text("s").Text("host/once").Text("").Text(`{"attempts":1}`).I32(0).I32(0).Call(abi.FnStepDo).I64(63).Op(0x88).Set(0).
		I32(1).Text("c").Call(abi.FnLog).Drop().Get(0).Wrap() // 1 if the step has failed
	h := handmade(t, m, hosttest.WithHandlers(func(h *host.Host) {
		host.HandleStep(h, "once", func(_ context.Context, _ any) (any, error) {
			fails--
			if fails >= 0 {
				return nil, errors.New("no")
			}
			return nil, nil
		})
	}))
	if r := h.Finish("r"); r.Status != host.Failed {
		t.Fatal(r.Status)
	}
	for range 2 {
		lines, err := h.Logs(ctx, "r", 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		var text []string
		for _, l := range lines {
			text = append(text, l.Text)
		}
		if r, _ := h.Get(ctx, "r"); r.Status == host.Completed {
			want(t, strings.Join(text, " "), "a b c c")
			return
		}
		want(t, strings.Join(text, " "), "a b c")
		if err := h.Retry(ctx, "r", 0); err != nil {
			t.Fatal(err)
		}
		h.Crash() // what is stored must not depend on the state in memory
		if r := h.Finish("r"); r.Status != host.Completed {
			t.Fatal(r.Status)
		}
	}
}

// TestOutputCountsWhileParked evicts a command whose output exceeds the memory for parked instances. It is replayed
// when its step is done, and its output is complete.
func TestOutputCountsWhileParked(t *testing.T) {
	const lines, size = 16, 60_000
	begun, leave := make(chan struct{}), make(chan struct{})
	m := wasmgen.New(1).I32(16).I64(4096|size<<32).Store64().While().Get(0).I64(lines).NotLess().Break().
		I32(1).I32(16).I32(1).I32(8).Call("wasi:fd_write").Drop().Count(0, 1).EndWhile().
		Text("s").Text("host/slow").Text("").Text("").I32(0).I32(0).Call(abi.FnStepDo).Drop().Export(abi.ExportStart)
	h := hosttest.New(t, hosttest.WithConfig(func(c *host.Config) { c.ParkBytes = lines * size / 2 }),
		hosttest.WithHandlers(func(h *host.Host) {
			host.HandleStep(h, "slow", func(context.Context, any) (any, error) {
				close(begun)
				<-leave
				return nil, nil
			})
		}))
	if _, err := h.Upload(ctx, "w", m.Bytes(), host.AllowStep("*")); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Start(ctx, "w", nil, host.WithRunID("r")); err != nil {
		t.Fatal(err)
	}
	<-begun
	soon, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for h.Stats().Instances > 0 && soon.Err() == nil {
		runtime.Gosched()
	}
	if soon.Err() != nil {
		t.Error("its instance is kept")
	}
	close(leave)
	h.Finish("r")
	if b, err := h.ResultRaw(ctx, "r"); len(b) != lines*size || err != nil {
		t.Error(len(b), err)
	}
}
