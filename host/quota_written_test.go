package host_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// writers are workflows that emit ten kilobytes repeatedly, by what they do in between.
var writers = map[string]func(m *wasmgen.Module, i int){
	"naps": func(m *wasmgen.Module, i int) { m.Text(fmt.Sprint("nap", i)).I64(1).Call(abi.FnSleep).Drop() },
	"steps": func(m *wasmgen.Module, i int) {
		m.Text(fmt.Sprint("step", i)).Text("host/noop").Text("1").Text("").I32(0).I32(0).Call(abi.FnStepDo).Drop()
	},
	"again": nil, // it continues as new
}

// writer returns the module of a writer. It emits the given number of times and calls between after each. If between
// is nil, it emits once and continues as new.
func writer(times int, between func(m *wasmgen.Module, i int)) []byte {
	m := wasmgen.New(0)
	for i := range times {
		m.Text("t").I32(32_768).I32(10_000).Call(abi.FnEmit).Drop()
		if between == nil {
			m.I32(0).I32(0).I32(0).I32(0).Call(abi.FnContinueAsNew)
			break
		}
		between(m, i)
	}
	return m.I32(0).Export(abi.ExportRun).Bytes()
}

// TestQuotaOfBytesWritten has runs write endlessly, in every way of continuing. They write as much as their namespace
// may, also after a crash, and runs of another namespace wake when they are due.
func TestQuotaOfBytesWritten(t *testing.T) {
	const perSecond, seconds, runs, round = 100_000, 10, 4, 10_500
	for name, between := range writers {
		t.Run(name, func(t *testing.T) {
			h := hosttest.New(t, hosttest.WithHandlers(withNoop))
			a, b := tenant(t, h, "a", nil), tenant(t, h, "b", nil)
			_, err := a.Upload(ctx, "w", writer(400, between), host.AllowStep("*"))
			do(t, err)
			for i := range runs {
				_, err := a.StartRaw(ctx, "w", nil, host.WithRunID(fmt.Sprint("w", i)), host.WithStartIn(time.Second))
				do(t, err)
			}
			do(t, h.SetQuota(ctx, "a", host.Quota{BytesPerSecond: perSecond}))
			h.Advance(time.Second)
			_, err = b.StartRaw(ctx, "nap", []byte("5s"), host.WithRunID("b"))
			do(t, err)
			h.Advance(5 * time.Second)
			r, err := b.Get(ctx, "b")
			do(t, err)
			if r.Status != host.Completed || r.Updated.Sub(r.Created) > 5*time.Second+10*time.Millisecond {
				t.Errorf("the run of another namespace is %v at %v", r.Status, r.Updated)
			}
			written := func(seconds int64) {
				t.Helper()
				u, err := a.Usage(ctx)
				do(t, err)
				// Data other than entries also counts, so fewer may be written; a guest may write more before it is checked
				// again.
				if least, most := seconds*perSecond*8/10, (seconds+1)*perSecond+runs*2*round; u.Bytes < least || u.Bytes > most {
					t.Errorf("%d bytes were written in %d s, want %d to %d", u.Bytes, seconds, least, most)
				}
			}
			written(5)
			h.Crash() // forgets what was owed
			a, err = h.Namespace(ctx, "a")
			do(t, err)
			h.Advance((seconds - 5) * time.Second)
			written(seconds + 1)
			do(t, h.SetQuota(ctx, "a", host.Quota{MaxRuns: runs}))
			for i := range runs {
				if name == "again" {
					do(t, a.Terminate(ctx, fmt.Sprint("w", i)))
				}
			}
			h.Advance(time.Minute)
			for i := range runs {
				if r, err := a.Get(ctx, fmt.Sprint("w", i)); err != nil || !r.Status.Terminal() {
					t.Errorf("%v, %v without a quota", r.Status, err)
				}
			}
		})
	}
}

// TestQuotaOfBodiesWritten has a Go workflow execute bodies in its own instance if possible. In a namespace with
// write debt the instance is given up first.
func TestQuotaOfBodiesWritten(t *testing.T) {
	h := hosttest.New(t)
	_, err := h.Upload(ctx, "", hosttest.Build(t, "testdata/bench"))
	do(t, err)
	do(t, h.SetQuota(ctx, "default", host.Quota{BytesPerSecond: 1000}))
	r, err := h.Start(ctx, "bench", plan{Kind: "body", Steps: 300})
	do(t, err)
	h.Advance(10 * time.Second)
	u, err := h.Usage(ctx)
	do(t, err)
	if most := int64(11*1000 + 16<<10 + 4096); u.Bytes > most {
		t.Errorf("%d bytes were written, want %d at most", u.Bytes, most)
	}
	if end := h.Finish(r.ID); end.Status != host.Completed {
		t.Error(end.Status, end.Reason)
	}
	if took := h.Clock.Now().Sub(hosttest.Epoch); took < time.Minute {
		t.Errorf("it took %v", took)
	}
}

// TestOwingRunsAreDealtWith puts a namespace deep into write debt. Its runs can still be queried for their state,
// signalled, cancelled, terminated and deleted. A signal is received when the namespace may write again.
func TestOwingRunsAreDealtWith(t *testing.T) {
	h := hosttest.New(t)
	m := wasmgen.New(0).Text("t").I32(2048).I32(10_000).Call(abi.FnEmit).Drop()
	m.Text("go").I64(-1).I32(0).I32(0).Call(abi.FnSignalWait).Drop()
	a := tenant(t, h, "a", m.I32(0))
	for _, id := range []string{"signalled", "terminated", "started"} {
		_, err := a.StartRaw(ctx, "w", nil, host.WithRunID(id))
		do(t, err)
	}
	h.Settle()
	do(t, h.SetQuota(ctx, "a", host.Quota{BytesPerSecond: 1000}))
	_, err := a.StartRaw(ctx, "w", nil, host.WithRunID("last"))
	do(t, err)
	h.Settle()
	status := func(id string) host.Status {
		t.Helper()
		r, err := a.Get(ctx, id)
		do(t, err)
		return r.Status
	}
	do(t, a.Signal(ctx, "signalled", "go", nil))
	do(t, a.Terminate(ctx, "terminated"))
	do(t, a.Delete(ctx, "terminated"))
	want(t, status("signalled"), host.Queued)
	next, ok := h.Settle()
	if owes := next.Sub(hosttest.Epoch); !ok || owes < 10*time.Second || owes > 40*time.Second {
		t.Errorf("it is looked at again after %v, %v", owes, ok)
	}
	refusedStart(t, a, "the runs of the namespace write more than 1000 bytes a second, its quota; try again in ")
	h.Advance(8 * time.Second)
	want(t, status("signalled"), host.Queued)
	h.Advance(2 * time.Minute)
	want(t, status("signalled"), host.Completed)
	want(t, status("started"), host.Waiting)
	_, err = a.StartRaw(ctx, "w", nil)
	do(t, err)
}

// TestBadQuotaOfBytesWritten refuses limits that cannot be.
func TestBadQuotaOfBytesWritten(t *testing.T) {
	h := hosttest.New(t)
	for _, n := range []int64{-1, host.MaxQuota + 1} {
		err := h.SetQuota(ctx, "a", host.Quota{BytesPerSecond: n})
		if !errors.Is(err, host.ErrInvalid) || !strings.Contains(err.Error(), "a quota of bytes a second must be from 0 to") {
			t.Error(err)
		}
	}
}

// dozer returns the module of a workflow that first writes, and then takes the given number of naps.
func dozer(times int, ms int64, first func(m *wasmgen.Module)) []byte {
	m := wasmgen.New(0)
	first(m)
	for i := range times {
		m.Text(fmt.Sprint("nap", i)).I64(ms).Call(abi.FnSleep).Drop()
	}
	return m.I32(0).Export(abi.ExportRun).Bytes()
}

// TestQuotaOfStatesWritten has a run with large attributes, which each commit writes, take many naps.
func TestQuotaOfStatesWritten(t *testing.T) {
	h := hosttest.New(t)
	a := tenant(t, h, "a", nil)
	_, err := a.Upload(ctx, "w", dozer(500, 1, func(m *wasmgen.Module) {
		for i := range 32 {
			m.Text(fmt.Sprint("k", i)).Text(strings.Repeat("x", 1000)).Call(abi.FnSetAttribute).Drop()
		}
	}))
	do(t, err)
	r, err := a.StartRaw(ctx, "w", nil)
	do(t, err)
	do(t, h.SetQuota(ctx, "a", host.Quota{BytesPerSecond: 100_000}))
	commits := h.Stats().Commits
	h.Advance(10 * time.Second)
	if n := h.Stats().Commits - commits; n < 10 || n > 40 { // of 32 kB each
		t.Errorf("it made %d commits", n)
	}
	do(t, a.Terminate(ctx, r.ID))
}

// TestQuotaOfWaitsThatAreNone has a workflow sleep for zero time repeatedly: the quota applies there, too.
func TestQuotaOfWaitsThatAreNone(t *testing.T) {
	h := hosttest.New(t)
	a := tenant(t, h, "a", nil)
	_, err := a.Upload(ctx, "w", writer(400, func(m *wasmgen.Module, i int) { m.Text(fmt.Sprint("nap", i)).I64(0).Call(abi.FnSleep).Drop() }))
	do(t, err)
	do(t, h.SetQuota(ctx, "a", host.Quota{BytesPerSecond: 10_000}))
	r, err := a.StartRaw(ctx, "w", nil)
	do(t, err)
	h.Settle()
	if u, err := a.Usage(ctx); err != nil || u.Bytes > 100_000 {
		t.Errorf("%d bytes were written at once, %v", u.Bytes, err)
	}
	do(t, a.Terminate(ctx, r.ID))
}

// TestSignalledRunsLetOthersGoOn signals runs of a namespace in write debt endlessly. Sleeping runs take turns with
// them, and new runs can start. A turn lasts until a run has nothing left to do, so runs with many signals write
// more.
func TestSignalledRunsLetOthersGoOn(t *testing.T) {
	h := hosttest.New(t)
	a := tenant(t, h, "a", nil)
	m := wasmgen.New(0)
	for range 400 {
		m.Text("go").I64(-1).I32(0).I32(0).Call(abi.FnSignalWait).Drop().Text("t").I32(32_768).I32(10_000).Call(abi.FnEmit).Drop()
	}
	for name, wasm := range map[string][]byte{"signalled": m.I32(0).Export(abi.ExportRun).Bytes(), "sleeps": writer(400, writers["naps"])} {
		_, err := a.Upload(ctx, name, wasm)
		do(t, err)
	}
	for i := range 3 {
		for _, w := range []string{"signalled", "sleeps"} {
			_, err := a.StartRaw(ctx, w, nil, host.WithRunID(fmt.Sprint(w, i)))
			do(t, err)
		}
	}
	do(t, h.SetQuota(ctx, "a", host.Quota{BytesPerSecond: 100_000}))
	began := 0
	for i := range 600 {
		do(t, a.Signal(ctx, fmt.Sprint("signalled", i%3), "go", nil))
		if i%20 == 0 {
			if _, err := a.StartRaw(ctx, "nap", []byte("1d")); err == nil {
				began++
			}
		}
		h.Advance(50 * time.Millisecond)
	}
	for i := range 3 {
		for _, w := range []string{"signalled", "sleeps"} {
			if r, err := a.Get(ctx, fmt.Sprint(w, i)); err != nil || r.Output < 4 {
				t.Errorf("%s%d has emitted %d times in 30 s, %v", w, i, r.Output, err)
			}
		}
	}
	if began == 0 {
		t.Error("no run could begin in 30 s")
	}
}

// TestSkippedSleepsOfWhoOwes skips the sleeps of a run in write debt: its virtual clock does not skip the wait for
// the quota.
func TestSkippedSleepsOfWhoOwes(t *testing.T) {
	h := hosttest.New(t)
	a := tenant(t, h, "a", nil)
	_, err := a.Upload(ctx, "w", writer(3, writers["naps"]))
	do(t, err)
	do(t, h.SetQuota(ctx, "a", host.Quota{BytesPerSecond: 1000}))
	r, err := a.StartRaw(ctx, "w", nil, host.WithTimeout(24*time.Hour))
	do(t, err)
	going, stop := context.WithCancel(ctx)
	skipped := make(chan error, 1)
	id := r.ID
	go func() { skipped <- a.SkipSleeps(going, id) }()
	for range 100 {
		h.Advance(time.Second)
	}
	stop()
	<-skipped
	r, err = a.Get(ctx, r.ID)
	do(t, err)
	if took := r.Updated.Sub(r.Created); r.Status != host.Completed || took > 2*time.Minute {
		t.Errorf("it is %v after %v", r.Status, took)
	}
}

// TestSkippedSleepsOfAFamilyThatOwes has a parent with a timeout wait for a child that is in write debt when it
// wakes: the family's clock does not skip the wait for the quota.
func TestSkippedSleepsOfAFamilyThatOwes(t *testing.T) {
	h := hosttest.New(t)
	a := tenant(t, h, "a", nil)
	parent := wasmgen.New(0).Text("child").Text("w").I32(0).I32(0).I32(0).I32(0).I32(0).I32(0).Call(abi.FnChildRun).Drop()
	for name, wasm := range map[string][]byte{"p": parent.I32(0).Export(abi.ExportRun).Bytes(),
		"w": dozer(1, 3_600_000, func(m *wasmgen.Module) { m.Text("t").I32(32_768).I32(10_000).Call(abi.FnEmit).Drop() })} {
		_, err := a.Upload(ctx, name, wasm)
		do(t, err)
	}
	do(t, h.SetQuota(ctx, "a", host.Quota{BytesPerSecond: 1000}))
	r, err := a.StartRaw(ctx, "p", nil, host.WithTimeout(2*time.Hour))
	do(t, err)
	going, stop := context.WithCancel(ctx)
	skipped := make(chan error, 1)
	id := r.ID
	go func() { skipped <- a.SkipSleeps(going, id) }()
	for range 100_000 { // while another goroutine skips the sleeps, in real time
		r, err = a.Get(ctx, id)
		if err != nil || r.Status.Terminal() {
			break
		}
		h.Advance(10 * time.Millisecond)
	}
	stop()
	<-skipped
	do(t, err)
	if took := r.Updated.Sub(r.Created); r.Status != host.Completed || took < time.Hour || took > 100*time.Minute {
		t.Errorf("it is %v after %v", r.Status, took)
	}
}

// TestHeldRunsGoOn has a run wait for minutes for its write quota: if the quota is removed, the run continues at
// once.
func TestHeldRunsGoOn(t *testing.T) {
	h := hosttest.New(t)
	m := wasmgen.New(0).Text("t").I32(32_768).I32(10_000).Call(abi.FnEmit).Drop()
	a := tenant(t, h, "a", m.Text("go").I64(-1).I32(0).I32(0).Call(abi.FnSignalWait).Drop().I32(0))
	do(t, h.SetQuota(ctx, "a", host.Quota{BytesPerSecond: 100}))
	r, err := a.StartRaw(ctx, "w", nil)
	do(t, err)
	h.Settle()
	do(t, a.Signal(ctx, r.ID, "go", nil))
	h.Settle()
	r, err = a.Get(ctx, r.ID)
	do(t, err)
	want(t, r.Status, host.Queued)
	do(t, h.SetQuota(ctx, "a", host.Quota{}))
	h.Settle() // the clock stands still, so only the removed quota can have resumed it
	r, err = a.Get(ctx, r.ID)
	do(t, err)
	want(t, r.Status, host.Completed)
}

// TestHeldRunsOfAnEarlierClock sets the clock back by an hour while a run waits for its write quota: the wait does
// not become longer.
func TestHeldRunsOfAnEarlierClock(t *testing.T) {
	h := hosttest.New(t)
	m := wasmgen.New(0).Text("t").I32(32_768).I32(10_000).Call(abi.FnEmit).Drop()
	a := tenant(t, h, "a", m.Text("go").I64(-1).I32(0).I32(0).Call(abi.FnSignalWait).Drop().I32(0))
	do(t, h.SetQuota(ctx, "a", host.Quota{BytesPerSecond: 1000}))
	r, err := a.StartRaw(ctx, "w", nil)
	do(t, err)
	h.Settle()
	do(t, a.Signal(ctx, r.ID, "go", nil))
	h.Advance(time.Second)
	r, err = a.Get(ctx, r.ID)
	do(t, err)
	want(t, r.Status, host.Queued)
	h.Clock.Set(h.Clock.Now().Add(-time.Hour))
	do(t, h.SetQuota(ctx, "b", host.Quota{MaxRuns: 1})) // all look at the clock
	h.Advance(2 * time.Minute)
	r, err = a.Get(ctx, r.ID)
	do(t, err)
	want(t, r.Status, host.Completed)
}
