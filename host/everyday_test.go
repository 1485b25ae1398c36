package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// TestNamedWake ends one sleep by its name. The deadline of the context in the workflow does not change, live and in
// replays.
func TestNamedWake(t *testing.T) {
	const want = "reminded after 30m0s, context deadline exceeded after 3h0m0s"
	for _, crash := range []bool{false, true} {
		f := newMixed(t)
		f.begin("reminded", 0)
		f.Advance(30 * time.Minute)
		if n, err := f.Wake(ctx, "r", "reminder"); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if crash {
			f.Crash()
		}
		f.finish("r", want)
		if r := f.is("r", host.Completed); !r.Ended.Equal(hosttest.Epoch.Add(3 * time.Hour)) {
			t.Error("its deadline passed at", r.Ended)
		}
		do(t, f.Replay(ctx, "r"))
	}
}

// TestUnnamedWake skips the rest of a run's sleep.
func TestUnnamedWake(t *testing.T) {
	f := newMixed(t)
	f.begin("nap", 3_600_000)
	f.Settle()
	if n, err := f.Wake(ctx, "r", ""); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	f.finish("r", "slept")
	do(t, f.Replay(ctx, "r"))
}

// TestWakeOfADelayedStart begins a run before its time.
func TestWakeOfADelayedStart(t *testing.T) {
	for _, crash := range []bool{false, true} {
		f := newMixed(t)
		f.begin("nap", 60_000, host.WithStartIn(24*time.Hour))
		f.Advance(time.Hour)
		f.is("r", host.Sleeping)
		if n, err := f.Wake(ctx, "r", "nap"); n != 0 || err != nil { // it does not sleep yet
			t.Fatal(n, err)
		}
		if n, err := f.Wake(ctx, "r", ""); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if crash {
			f.Crash()
		}
		f.Settle()
		if r := f.is("r", host.Sleeping); !r.Started.Equal(hosttest.Epoch.Add(time.Hour)) || r.Wake.Sub(r.Started) != time.Minute {
			t.Error(r.Started, r.Wake)
		}
		f.finish("r", "slept")
	}
	f := newMixed(t) // paused, it begins when it is unpaused
	f.begin("nap", 60_000, host.WithStartIn(24*time.Hour))
	_, err := f.Pause(ctx, "r")
	do(t, err)
	if n, err := f.Wake(ctx, "r", ""); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	f.Advance(time.Hour)
	f.is("r", host.Paused)
	_, err = f.Unpause(ctx, "r")
	do(t, err)
	f.finish("r", "slept")
}

// TestStepUnderADeadline ends the context of a step during its attempt.
func TestStepUnderADeadline(t *testing.T) {
	begun := make(chan struct{}, 9)
	f := newMixed(t, hosttest.WithHandlers(func(h *host.Host) {
		host.HandleStep(h, "obeys", func(c context.Context, _ string) (string, error) {
			begun <- struct{}{}
			<-c.Done()
			return "", c.Err()
		})
	}))
	f.begin("expires", 0)
	<-begun
	f.Clock.Set(hosttest.Epoch.Add(2 * time.Minute)) // but not past the timeout of the attempt
	f.Finish("r")
	got, err := host.Result[string](ctx, f.Host.Host, "r")
	if err != nil || !strings.HasPrefix(got, "true true ") || !strings.Contains(got, "deadline exceeded") {
		t.Errorf("%q %v", got, err)
	}
	do(t, f.Replay(ctx, "r"))
}

// TestRandomInBodies draws from Go's global generators. In a workflow they are deterministic; in bodies and step
// functions no number repeats.
func TestRandomInBodies(t *testing.T) {
	f := newMixed(t)
	var runs [2][]string
	for i := range runs {
		id := []string{"a", "b"}[i]
		_, err := f.Start(ctx, "numbers", 0, host.WithRunID(id))
		do(t, err)
		f.Finish(id)
		runs[i], err = host.Result[[]string](ctx, f.Host.Host, id)
		if err != nil || len(runs[i]) != 5 {
			t.Fatal(runs[i], err)
		}
		do(t, f.Replay(ctx, id))
	}
	a, b := runs[0], runs[1]
	if a[0] != b[0] || a[4] != b[4] {
		t.Errorf("the workflow's own numbers differ: %q, %q", a, b)
	}
	drawn := slices.Concat(a[1:4], b[1:4], a[:1], a[4:])
	for i, x := range drawn {
		if slices.Contains(drawn[:i], x) {
			t.Errorf("%q came twice in %q", x, drawn)
		}
	}
}

// TestFilesAndZones checks for what a guest lacks, and for time zones, which it has.
func TestFilesAndZones(t *testing.T) {
	for workflow, want := range map[string]string{"files": "true true true 0 1", "zone": "14:00 CEST", "durations": "true"} {
		f := newMixed(t)
		f.begin(workflow, 0)
		f.finish("r", want)
	}
}

// TestLongestDuration waits for the longest time.Duration.
func TestLongestDuration(t *testing.T) {
	for _, how := range []string{"receive", "sleep", "context"} {
		f := newMixed(t)
		f.begin("forever", how, host.WithTimeout(math.MaxInt64))
		f.Advance(100 * 365 * 24 * time.Hour)
		if r, err := f.Get(ctx, "r"); err != nil || r.Status.Terminal() || r.Wake.Year() < 2300 {
			t.Errorf("%s: %s, wakes %v, %v", how, r.Status, r.Wake, err)
		}
	}
	f := newMixed(t)
	f.begin("forever", "child")
	f.finish("r", "slept")
	f.begin("forever", "step", host.OnConflict(host.ConflictReplace))
	<-f.begun
	f.Clock.Set(f.Clock.Now().Add(100 * 365 * 24 * time.Hour))
	f.is("r", host.Running)
	f.close()
	f.finish("r", "")
}

// TestTimeouts gives runs the shortest timeouts.
func TestTimeouts(t *testing.T) {
	f := newMixed(t)
	for _, o := range []host.StartOption{host.WithTimeout(1), host.WithTimeoutText("0.1ms"), host.WithTimeoutText("PT0.0001S")} {
		f.begin("nap", 60_000, o, host.OnConflict(host.ConflictReplace))
		f.Advance(time.Second)
		f.is("r", host.Failed)
	}
	f.begin("nap", 60_000, host.WithTimeoutText("0s"), host.OnConflict(host.ConflictReplace)) // none
	f.finish("r", "slept")
	if _, err := f.Start(ctx, "nap", 0, host.WithTimeout(-1)); !errors.Is(err, host.ErrInvalid) {
		t.Error(err)
	}
}

// TestOutputFromTheEnd reads the last chunks of a topic.
func TestOutputFromTheEnd(t *testing.T) {
	f := newMixed(t)
	f.begin("topics", 0)
	f.finish("r", "done")
	for _, c := range []struct {
		topic string
		from  int64
		want  []uint64
	}{
		{"rare", -1, []uint64{400}}, {"rare", -2, []uint64{200, 400}}, {"rare", -3, []uint64{0, 200, 400}},
		{"rare", -9, []uint64{0, 200, 400}}, {"rare", math.MinInt64, []uint64{0, 200, 400}}, {"rare", 201, []uint64{400}},
		{"", -2, []uint64{598, 599}}, {"often", -2, []uint64{598, 599}}, {"never", -3, nil},
	} {
		var got []uint64
		for chunk, err := range f.Output(ctx, "r", c.topic, c.from) {
			do(t, err)
			got = append(got, chunk.Index)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q from %d: %d, want %d", c.topic, c.from, got, c.want)
		}
	}
}

// TestTakenChild starts a child with an id that is already in use.
func TestTakenChild(t *testing.T) {
	f := newMixed(t)
	f.begin("taken", 0)
	f.Finish("r")
	got, err := host.Result[string](ctx, f.Host.Host, "r")
	if err != nil || !strings.HasPrefix(got, "true false ") || !strings.Contains(got, `"twin" was not started`) {
		t.Errorf("%q %v", got, err)
	}
	do(t, f.Replay(ctx, "r"))
}

// TestMembersOfTheInputInAnotherOrder repeats a start with the members of its input in another order.
func TestMembersOfTheInputInAnotherOrder(t *testing.T) {
	f := newMixed(t)
	start := func(input string) error {
		_, err := f.Start(ctx, "nap", json.RawMessage(input), host.WithRunID("r"))
		return err
	}
	do(t, start(`{"b":[1,{"y":1,"x":2}],"a":"z"}`))
	do(t, start(`{"a": "z", "b": [1, {"x": 2, "y": 1}]}`))
	for _, other := range []string{`{"a":"z","b":[{"x":2,"y":1},1]}`, `{"a":"z","b":[1,{"x":2,"y":1.0}]}`, `{"a":"z"}`, `null`} {
		if err := start(other); !errors.Is(err, host.ErrConflict) {
			t.Errorf("%s: %v", other, err)
		}
	}
}

// TestErrorOfARun shows the error of a failed run.
func TestErrorOfARun(t *testing.T) {
	f := newMixed(t)
	f.fails.Store(9)
	f.begin("steps", []string{"flaky"})
	f.Finish("r")
	if r := f.is("r", host.Failed); !strings.Contains(r.Error, "out of order") {
		t.Errorf("%q", r.Error)
	}
	f.begin("nap", 0, host.OnConflict(host.ConflictReplace))
	f.finish("r", "slept")
	if r := f.is("r", host.Completed); r.Error != "" {
		t.Error(r.Error)
	}
}

// TestTestHostHidesNothing compares the methods of a test host with those of the host within it.
func TestTestHostHidesNothing(t *testing.T) {
	inner, outer := reflect.TypeFor[*host.Host](), reflect.TypeFor[*hosttest.Host]()
	for m := range inner.Methods() {
		o, _ := outer.MethodByName(m.Name)
		if n := m.Type.NumIn(); o.Type.NumIn() != n || n > 1 && o.Type.In(1) != m.Type.In(1) || o.Type.NumOut() != m.Type.NumOut() {
			t.Errorf("%s of a test host is %v, that of the host is %v", m.Name, o.Type, m.Type)
		}
	}
}
