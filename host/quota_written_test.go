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

// writers are workflows that emit ten kilobytes, again and again, and what they do in between.
var writers = map[string]func(m *wasmgen.Module, i int){
	"naps": func(m *wasmgen.Module, i int) { m.Text(fmt.Sprint("nap", i)).I64(1).Call(abi.FnSleep).Drop() },
	"steps": func(m *wasmgen.Module, i int) {
		m.Text(fmt.Sprint("step", i)).Text("host/noop").Text("1").Text("").I32(0).I32(0).Call(abi.FnStepDo).Drop()
	},
	"again": nil, // it continues as new
}

// writer returns the module of one of them. It emits a number of times, and calls between after each; without between, it emits once
// and continues as new.
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

// TestQuotaOfBytesWritten has runs write without end, in each way in which they can go on: they write as much as their namespace may,
// also after a crash, and others wake when they are due.
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
				// What is counted beside the entries makes it less, what one guest writes before it is asked again makes it more.
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

// TestQuotaOfBodiesWritten has a workflow in Go execute bodies, which its own instance does where it may: that of a namespace that owes
// is given up first.
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

// TestOwingRunsAreDealtWith has a namespace owe for long: its runs are queried for their state, signalled, cancelled, terminated and
// deleted as others are, and a signal is received when it may write again.
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

// dozer returns the module of a workflow that does what first writes, and then takes a number of naps of so many milliseconds.
func dozer(times int, ms int64, first func(m *wasmgen.Module)) []byte {
	m := wasmgen.New(0)
	first(m)
	for i := range times {
		m.Text(fmt.Sprint("nap", i)).I64(ms).Call(abi.FnSleep).Drop()
	}
	return m.I32(0).Export(abi.ExportRun).Bytes()
}

// TestQuotaOfStatesWritten has a run take many naps that has large attributes, which each commit writes.
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

// TestQuotaOfWaitsThatAreNone has a workflow sleep for no time: it gives its instance up there all the same.
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

// TestSignalledRunsLetOthersGoOn has runs of a namespace that owes be signalled without end: those that sleep go on in turn with them,
// and runs may begin. A turn is until a run has nothing to go on with, so those with many signals write more.
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

// TestSkippedSleepsOfWhoOwes has a run skip its sleeps whose namespace owes: its clock is not moved for that.
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

// TestSkippedSleepsOfAFamilyThatOwes has a parent with a deadline wait for a child whose namespace owes when it wakes: nobody's clock
// is moved past that.
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

// TestHeldRunsGoOn has a run wait until its namespace may write again, in minutes: without a quota it goes on at once.
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
	h.Settle() // no time passes, so that only the quota's end can have brought it on
	r, err = a.Get(ctx, r.ID)
	do(t, err)
	want(t, r.Status, host.Completed)
}

// TestHeldRunsOfAnEarlierClock sets the clock back by an hour while a run waits for its namespace: it waits no longer for that.
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
