package host_test

import (
	"context"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/store"
)

// TestForkedOrCopied executes bodies in the workflow's own instance, and in copies of it: results, journal and memory
// at each wait are the same, live and in replays.
func TestForkedOrCopied(t *testing.T) {
	m := &memories{hashes: map[point][32]byte{}}
	for _, alone := range []bool{true, false} {
		if !alone && testing.Short() {
			break
		}
		id, beside, ways := "alone", 0, []string{"auto", "none"} // none has copies
		if !alone {
			id, beside, ways[0] = "several", 2, "drop"
		}
		var lists, kinds [2][]string
		for way, reset := range ways {
			h := hosttest.New(t, hosttest.WithConfig(func(c *host.Config) {
				c.ResetBy(reset)
				c.Events.GuestWaits = m.see
				c.Random = func(b []byte) { clear(b) }
			}))
			if _, err := h.Upload(ctx, "", hosttest.Build(t, "testdata/fork")); err != nil {
				t.Fatal(err)
			}
			lists[way] = finished[[]string](t, h, "ends", id, beside)
			for e, err := range h.Journal(ctx, id, 0) {
				if err != nil {
					t.Fatal(err)
				}
				kinds[way] = append(kinds[way], e.Kind.String()+" "+e.Name)
			}
			h.Stop()
		}
		if !reflect.DeepEqual(lists[0], lists[1]) {
			t.Errorf("%s: %q, in copies %q", id, lists[0], lists[1])
		}
		if !reflect.DeepEqual(kinds[0], kinds[1]) {
			t.Errorf("%s: %q, in copies %q", id, kinds[0], kinds[1])
		}
		for i, line := range lists[0] {
			if !strings.HasSuffix(line, ", "+string(rune('0'+i%10))+" 0 0") && i < 10 {
				t.Errorf("a body is seen: %q", line)
			}
		}
	}
	if len(m.diffs) > 0 || m.points < 50 {
		t.Fatalf("memory differs at %d of %d points: %v", len(m.diffs), m.points, m.diffs)
	}
}

// TestTimerBesideABody has a timer come due while a body runs in the workflow's own instance: the workflow continues
// in another instance, and the body completes.
func TestTimerBesideABody(t *testing.T) {
	h := newReal(t, nil)
	if _, err := h.UploadAll(ctx, "", hosttest.Build(t, "testdata/fork")); err != nil {
		t.Fatal(err)
	}
	r, err := h.Start(ctx, "beside", 100)
	if err != nil {
		t.Fatal(err)
	}
	until(t, h, r.ID, func(r host.Run) bool { return r.Output == 1 })
	if got, err := host.Result[string](ctx, h, r.ID); err != nil || got != "body 1<nil> 0" {
		t.Fatal(got, err)
	}
	var woke, done store.Seq
	for e, err := range h.Journal(ctx, r.ID, 0) {
		switch {
		case err != nil:
			t.Fatal(err)
		case e.Kind == store.KindEmit:
			woke = e.Seq
		case e.Kind == store.KindStepResult:
			done = e.Seq
		}
	}
	if woke == 0 || woke > done {
		t.Errorf("the workflow went on at entry %d, the body ended at %d", woke, done)
	}
	if err := h.Replay(ctx, r.ID); err != nil {
		t.Fatal(err)
	}
}

// noInstances waits until all instances are gone.
func noInstances(t *testing.T, h *host.Host) {
	t.Helper()
	deadline, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for h.Stats().Instances != 0 {
		runtime.Gosched()
		if deadline.Err() != nil {
			t.Fatal("an instance is left")
		}
	}
}

// TestEndOfAForkedBody terminates a run, and pauses one, while a body runs in its instance.
func TestEndOfAForkedBody(t *testing.T) {
	h := newReal(t, nil)
	if _, err := h.UploadAll(ctx, "", hosttest.Build(t, "testdata/fork")); err != nil {
		t.Fatal(err)
	}
	begin := func(ms int) string {
		r, err := h.Start(ctx, "long", ms)
		if err != nil {
			t.Fatal(err)
		}
		until(t, h, r.ID, func(r host.Run) bool { return r.Status == host.Running && r.Entries > 2 })
		return r.ID
	}
	id := begin(60_000)
	if err := h.Terminate(ctx, id); err != nil {
		t.Fatal(err)
	}
	if _, err := h.ResultRaw(ctx, id); err == nil {
		t.Fatal(err)
	}
	noInstances(t, h)

	id = begin(300)
	if _, err := h.Pause(ctx, id); err != nil {
		t.Fatal(err)
	}
	until(t, h, id, func(r host.Run) bool { return r.Status == host.Paused })
	noInstances(t, h)
	if _, err := h.Unpause(ctx, id); err != nil {
		t.Fatal(err)
	}
	if got, err := host.Result[string](ctx, h, id); err != nil || got != "done" {
		t.Fatal(got, err)
	}
}

// TestInterpreterBodies executes bodies of a Go guest in the interpreter. The interpreter cannot undo a body in the
// workflow's instance, so bodies are executed in copies.
func TestInterpreterBodies(t *testing.T) {
	h := hosttest.New(t, hosttest.WithConfig(func(c *host.Config) { c.Interpreter = true }))
	if _, err := h.Upload(ctx, "", hosttest.Build(t, "testdata/s01")); err != nil {
		t.Fatal(err)
	}
	if got := finished[string](t, h, "s01", "r", 1000); got != "ab" {
		t.Errorf("%q", got)
	}
}
