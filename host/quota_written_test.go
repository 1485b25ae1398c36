package host_test

import (
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

// writer gives one of them that does so a number of times.
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
			refusedStart(t, a, "the runs of the namespace write more than 100000 bytes a second, its quota; try again in ")
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
	if owes := next.Sub(hosttest.Epoch); !ok || owes <= 0 || owes > time.Second {
		t.Errorf("it is looked at again after %v, %v", owes, ok)
	}
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
