package host_test

import (
	"encoding/binary"
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

func TestCooperativeCancel(t *testing.T) {
	p := newPrims(t)
	id := p.begin("cooperative", 0)
	if changed, err := p.Cancel(ctx, id); err != nil || !changed {
		t.Fatal(changed, err)
	}
	if _, err := p.Cancel(ctx, id); err != nil && !errors.Is(err, host.ErrTerminal) { // it may have ended meanwhile
		t.Fatal(err)
	}
	p.Settle()
	want(t, p.status(id), host.Cancelled)
	want(t, fmt.Sprint(p.mails), "[cleaned]")
	if err := p.Replay(ctx, id); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Cancel(ctx, id); !errors.Is(err, host.ErrTerminal) {
		t.Fatal(err)
	}
	stubborn := p.begin("stubborn", 0) // completes visibly: the cancel came too late
	if _, err := p.Cancel(ctx, stubborn); err != nil {
		t.Fatal(err)
	}
	want(t, result[string](p, stubborn), "done anyway")
}

func TestRunDeadline(t *testing.T) {
	p := newPrims(t)
	hard := p.begin("receive", 1, host.WithTimeout(time.Hour))
	soft := p.begin("cooperative", 0, host.WithTimeout(time.Hour))
	late := p.begin("receive", 1, host.WithTimeout(time.Hour), host.WithStartIn(time.Hour))
	p.Advance(time.Hour - time.Millisecond)
	want(t, p.status(hard), host.Waiting)
	p.Advance(time.Millisecond)
	want(t, p.status(hard), host.Failed)
	want(t, p.status(soft), host.Cancelled)
	want(t, p.status(late), host.Waiting)
	p.Advance(time.Hour)
	want(t, p.status(late), host.Failed)
	_, err := p.ResultRaw(ctx, hard)
	var run *host.RunError
	if !errors.As(err, &run) || run.Failure == nil || run.Failure.Kind != "timeout" {
		t.Fatal(err)
	}
}

func TestPause(t *testing.T) {
	p := newPrims(t)
	id := p.begin("output", 3)
	if changed, err := p.Pause(ctx, id); err != nil || !changed {
		t.Fatal(changed, err)
	}
	want(t, p.status(id), host.Paused)
	p.Advance(24 * time.Hour)
	p.Crash()
	p.Advance(24 * time.Hour)
	want(t, p.status(id), host.Paused)
	r, _ := p.Get(ctx, id)
	want(t, r.Output, 1)
	if changed, err := p.Unpause(ctx, id); err != nil || !changed {
		t.Fatal(changed, err)
	}
	p.Settle()
	want(t, p.status(id), host.Sleeping)
	want(t, result[int64](p, id), 2)
}

func TestPauseTwice(t *testing.T) {
	p := newPrims(t)
	id := p.begin("receive", 1)
	if changed, err := p.Unpause(ctx, id); err != nil || changed {
		t.Fatal(changed, err)
	}
	for i := range 2 {
		if changed, err := p.Pause(ctx, id); err != nil || changed != (i == 0) {
			t.Fatal(changed, err)
		}
	}
	p.signal(id, "go", "kept")
	want(t, p.status(id), host.Paused)
	if _, err := p.Unpause(ctx, id); err != nil {
		t.Fatal(err)
	}
	want(t, result[string](p, id), "kept")
	if _, err := p.Pause(ctx, id); !errors.Is(err, host.ErrTerminal) {
		t.Fatal(err)
	}
	waiting := p.begin("receive", 1, host.WithStartIn(time.Hour)) // paused before it begins
	if _, err := p.Pause(ctx, waiting); err != nil {
		t.Fatal(err)
	}
	p.Advance(2 * time.Hour)
	want(t, p.status(waiting), host.Paused)
	if _, err := p.Unpause(ctx, waiting); err != nil {
		t.Fatal(err)
	}
	p.signal(waiting, "go", "x")
	want(t, result[string](p, waiting), "x")
}

func TestRetry(t *testing.T) {
	p := newPrims(t)
	p.fails = 2 // the attempt that the crash interrupts is one of the two
	id := p.begin("retryable", 0)
	want(t, p.Finish(id).Status, host.Failed)
	if err := p.Retry(ctx, id, 0); err != nil {
		t.Fatal(err)
	}
	p.Crash()
	want(t, result[string](p, id), "good,bad")
	want(t, fmt.Sprint(p.mails), "[good]") // the good step was not made again
	if err := p.Retry(ctx, id, 0); !errors.Is(err, host.ErrTerminal) {
		t.Fatal(err)
	}
	live := p.begin("receive", 1)
	if err := p.Retry(ctx, live, 0); !errors.Is(err, host.ErrConflict) {
		t.Fatal(err)
	}
	if err := p.Retry(ctx, live, 99); !errors.Is(err, host.ErrNotFound) {
		t.Fatal(err)
	}
}

// TestRetryUnderAnotherVersion resumes a stuck run under the module with which it started.
func TestRetryUnderAnotherVersion(t *testing.T) {
	l := newLab(t)
	v1, err := l.Upload(ctx, "s01", hosttest.Build(t, "testdata/s01"))
	if err != nil {
		t.Fatal(err)
	}
	id := l.begin("s01", 1000)
	l.Settle()
	v2, err := l.Upload(ctx, "s01", hosttest.Build(t, "testdata/v2"))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Retry(ctx, id, v2.Number); !errors.Is(err, host.ErrConflict) {
		t.Fatal(err) // it lives
	}
	if err := l.Terminate(ctx, id); err != nil {
		t.Fatal(err)
	}
	_ = v1
}

func TestRestartFrom(t *testing.T) {
	p := newPrims(t)
	id := p.begin("saga", false)
	want(t, result[string](p, id), "booked")
	r, err := p.Host.Host.Restart(ctx, id, "again", "book hotel")
	if err != nil || r.ID != "again" {
		t.Fatal(r, err)
	}
	p.Settle()
	want(t, result[string](p, "again"), "booked")
	want(t, fmt.Sprint(p.mails), "[flight hotel car hotel car]")
	if _, err := p.Host.Host.Restart(ctx, id, "again", ""); !errors.Is(err, host.ErrConflict) {
		t.Fatal(err)
	}
	if _, err := p.Host.Host.Restart(ctx, id, "", "no such step"); !errors.Is(err, host.ErrNotFound) {
		t.Fatal(err)
	}
	r, err = p.Host.Host.Restart(ctx, id, "", "")
	if err != nil {
		t.Fatal(err)
	}
	want(t, result[string](p, r.ID), "booked")
	want(t, len(p.mails), 8)
}

func TestDelete(t *testing.T) {
	p := newPrims(t)
	id := p.begin("receive", 1, host.WithRunID("gone"))
	if err := p.Delete(ctx, id); !errors.Is(err, host.ErrConflict) {
		t.Fatal(err)
	}
	p.signal(id, "go", "x")
	p.Finish(id)
	if err := p.Delete(ctx, id); err != nil {
		t.Fatal(err)
	}
	p.Reopen()
	for name, err := range map[string]error{
		"get": func() error { _, err := p.Get(ctx, id); return err }(), "delete": p.Delete(ctx, id),
		"signal": p.Signal(ctx, id, "go", 1), "terminate": p.Terminate(ctx, id),
		"journal": func() error {
			for _, err := range p.Journal(ctx, id, 0) {
				return err
			}
			return nil
		}(),
	} {
		if !errors.Is(err, host.ErrNotFound) {
			t.Errorf("%s of a deleted run: %v", name, err)
		}
	}
	if _, err := p.Start(ctx, "receive", 1, host.WithRunID(id)); !errors.Is(err, host.ErrConflict) || !strings.Contains(err.Error(), "30 days") {
		t.Fatal(err)
	}
	p.Advance(31 * 24 * time.Hour)
	p.begin("receive", 1, host.WithRunID(id))
}

func TestStartOptions(t *testing.T) {
	p := newPrims(t)
	at := p.Clock.Now().Add(48 * time.Hour)
	id := p.begin("patient", 60, host.WithStartAt(at), host.WithRunID("later"))
	r, err := p.Get(ctx, id)
	if err != nil || r.Status != host.Sleeping || !r.Wake.Equal(at) || r.Reason != "until its start" {
		t.Fatalf("%+v %v", r, err)
	}
	p.Reopen()
	want(t, result[string](p, id), "timeout")
	r, _ = p.Get(ctx, id)
	want(t, r.Started.Equal(at), true)
	want(t, r.Ended.Sub(r.Started), time.Minute)

	signalled := p.begin("receive", 2, host.WithRunID("s"), host.WithSignal("go", "a", host.WithIdempotencyKey("1")))
	p.begin("receive", 2, host.WithRunID("s"), host.WithSignal("go", "a", host.WithIdempotencyKey("1")))
	p.begin("receive", 2, host.WithRunID("s"), host.WithSignal("go", "b", host.WithIdempotencyKey("2")))
	want(t, result[string](p, signalled), "a,b")
	p.begin("receive", 2, host.WithRunID("s"), host.WithSignal("go", "b", host.WithIdempotencyKey("2"))) // it was taken
	if _, err := p.Start(ctx, "receive", 1, host.WithSignal("", nil)); !errors.Is(err, host.ErrInvalid) {
		t.Fatal(err)
	}
}

// TestStartWithSignalOfEndedRun repeats a start-with-signal for an ended run: a signal that the run cannot take is
// refused with an error, and the signal of its own start is answered again.
func TestStartWithSignalOfEndedRun(t *testing.T) {
	p := newPrims(t)
	id := p.begin("receive", 1, host.WithRunID("s"), host.WithSignal("go", "a"))
	want(t, result[string](p, id), "a")
	r, err := p.Start(ctx, "receive", 1, host.WithRunID(id), host.WithSignal("go", "a"))
	if err != nil || !r.Existed {
		t.Errorf("%+v %v", r, err)
	}
	for _, opt := range []host.StartOption{host.WithSignal("go", "b"), host.WithSignal("stop", "a"),
		host.WithSignal("go", "a", host.WithIdempotencyKey("1"))} {
		_, err := p.Start(ctx, "receive", 1, host.WithRunID(id), opt)
		if !errors.Is(err, host.ErrTerminal) || !strings.Contains(err.Error(), "another id") {
			t.Error(err)
		}
	}
}

func TestConflictPolicies(t *testing.T) {
	p := newPrims(t)
	id := p.begin("receive", 1, host.WithRunID("x"))
	for policy, err := range map[host.ConflictPolicy]error{host.ConflictFail: host.ErrConflict, host.ConflictReplace: host.ErrConflict} {
		if _, got := p.Start(ctx, "receive", 1, host.WithRunID(id), host.OnConflict(policy)); !errors.Is(got, err) {
			t.Errorf("policy %d: %v", policy, got)
		}
	}
	r, err := p.Start(ctx, "receive", 2, host.WithRunID(id), host.OnConflict(host.ConflictTerminate))
	if err != nil || r.Existed {
		t.Fatalf("%+v %v", r, err)
	}
	p.Settle()
	p.signal(id, "go", "a")
	p.signal(id, "go", "b")
	want(t, result[string](p, id), "a,b")
	r, err = p.Start(ctx, "receive", 1, host.WithRunID(id), host.OnConflict(host.ConflictReplace))
	if err != nil || r.Existed {
		t.Fatalf("%+v %v", r, err)
	}
	p.Settle()
	p.Crash()
	p.signal(id, "go", "c")
	want(t, result[string](p, id), "c")
}

func TestSagaAndFutures(t *testing.T) {
	p := newPrims(t)
	id := p.begin("saga", true)
	want(t, p.Finish(id).Status, host.Failed)
	want(t, fmt.Sprint(p.mails), "[flight hotel no hotel no flight]")
	want(t, result[string](p, p.begin("futures", 0)), "ba")
}

func TestMarkers(t *testing.T) {
	p := newPrims(t)
	want(t, result[string](p, p.begin("markers", 0)), "[3 3 3 1 9 9 0 0 0 2]")
}

// TestMarkerAfterMigration reads a marker in each third of a run. A run that was migrated after the first read keeps
// the old code to its end, also after a crash; a run that starts later uses the new code everywhere.
func TestMarkerAfterMigration(t *testing.T) {
	h := hosttest.New(t)
	module := func(marked bool) []byte {
		m := wasmgen.New(1)
		ask := func(id string) {
			if marked {
				m.Get(0).I64(10).Mul().Text(id).I64(1).Call(abi.FnVersion).Add().Set(0)
			}
		}
		for _, name := range []string{"a", "b"} {
			ask("a")
			m.Text(name).I64(3_600_000).Call(abi.FnSleep).Drop()
		}
		ask("a")
		ask("new")
		return m.I32(16384).Get(0).Store64().I32(16384).I32(8).Call(abi.FnComplete).Drop().I32(0).Export(abi.ExportRun).Bytes()
	}
	upload := func(marked bool) {
		_, err := h.Upload(ctx, "flow", module(marked))
		do(t, err)
	}
	begin := func(id string) {
		_, err := h.StartRaw(ctx, "flow", nil, host.WithRunID(id))
		do(t, err)
		h.Settle()
	}
	upload(false)
	begin("older")
	upload(true)
	begin("newer")
	sum, err := h.Workflows().Migrate(ctx, "flow", host.MigrateOptions{To: 2, Each: func(host.RunCheck) error { return nil }})
	do(t, err)
	if sum.Diverging+sum.NotChecked > 0 {
		t.Fatalf("%+v", sum)
	}
	h.Advance(90 * time.Minute)
	h.Kill()
	h.Reopen()
	for id, want := range map[string]uint64{"older": 1, "newer": 1111} {
		h.Finish(id)
		b, err := h.ResultRaw(ctx, id)
		do(t, err)
		if got := binary.LittleEndian.Uint64(b); got != want {
			t.Errorf("%s: %d, want %d", id, got, want)
		}
		do(t, h.Replay(ctx, id))
	}
}
