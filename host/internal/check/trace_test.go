package check

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/store"
)

// traced returns the calls of a guest, one per line.
func traced(t *testing.T, w *world) string {
	t.Helper()
	var lines []string
	k := w.checker().Over(w, func(c Call) {
		lines = append(lines, fmt.Sprintf("%d %s(%s) = %s", c.Seq, c.Name, c.Asked, c.Got))
	})
	if _, err := k.Run(t.Context(), w.state.Run, w.mod, engine.FuelGrant); err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// TestTrace shows the calls and answers of a guest up to the end of the journal.
func TestTrace(t *testing.T) {
	w := newWorld(t, func(h engine.Host) (int32, error) {
		h.Input()
		h.Now()
		h.Random(make([]byte, 2))
		_, _ = h.Sleep("nap", 500)
		_, _ = h.Await([]int64{1})
		_, _ = h.Step("pay", "host/pay", []byte("1"), nil)
		_, _ = h.Await(nil)
		h.Result(2)
		h.Result(9)
		_, _ = h.Cancel(9)
		_, _ = h.ChildID(2)
		h.Log(1, []byte("a line"))
		h.Output(1, []byte("printed\n"))
		h.NextEvent()
		for kind, want := range map[abi.EventKind]string{abi.EventResolved: "handle 7 is resolved", abi.EventRunBody: "run the body of handle 7",
			abi.EventCancel: "cancel", abi.EventQuery: "event 4 of handle 7"} {
			if got := event(abi.PackEvent(kind, 7)); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		h.Complete([]byte("\x00\xff"))
		h.Fail([]byte(strings.Repeat("x", maxTraced+1)))
		_, err := h.Await([]int64{2, 1})
		return 0, err
	}, activated, nap, woken, step, paid)
	got := traced(t, w)
	for _, want := range []string{"input() = input\n", "now() = 1970-01-01T00:00:01.001Z\n", "random(2 bytes) = ",
		`2 sleep("nap", 500 ms) = handle 1` + "\n", "3 await([1]) = handle 1\n", `4 step("pay", "host/pay", 1) = handle 2` + "\n",
		"5 await(any handle) = handle 2\n", "5 result(handle 2) = ok\n", "5 result(handle 9) = UNKNOWN_HANDLE, ",
		"cancel(handle 9) = UNKNOWN_HANDLE, ", "child_id(handle 2) = ", "log(level 1, a line) = 0\n", "fd_write(1, printed) = 8\n",
		"next_event() = ", `complete("\x00\xff") = `, "x… (1025 bytes)) = "} {
		if !strings.Contains(got+"\n", want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
}

// TestTraceEnds shows each call at which a replay may end.
func TestTraceEnds(t *testing.T) {
	for i, c := range []struct {
		call func(h engine.Host) error
		want string
	}{
		{func(h engine.Host) error { _, err := h.Await([]int64{1}); return err }, "await([1]) = the journal ends here"},
		{func(h engine.Host) error { _, err := h.WaitEvent(-1); return err }, "wait_event(without time-out) = the journal ends here"},
		{func(h engine.Host) error { _, err := h.WaitEvent(1e18); return err }, "wait_event(at most 1000000000000000000 ns) = the journal"},
		{func(h engine.Host) error { _, err := h.Poll(engine.Poll{Events: true}); return err }, "poll_oneoff(without time-out) = the"},
		{func(h engine.Host) error { _, err := h.Sleep("nap", 1); return err }, `sleep("nap", 1 ms) = `},
		{func(h engine.Host) error { _, err := h.SleepUntil("b", 9000); return err }, `sleep_until("b", 9000) = the journal ends here`},
		{func(h engine.Host) error { _, err := h.SleepText("b", "1h"); return err }, `sleep_text("b", "1h") = the journal ends here`},
		{func(h engine.Host) error { _, err := h.StepBegin("b", nil); return err }, `step_begin("b") = the journal ends here`},
		{func(h engine.Host) error { _, err := h.Signal("s", -1); return err }, `signal("s", -1 ms) = the journal ends here`},
		{func(h engine.Host) error { _, err := h.SignalSend("b", "r2", "s", []byte("1")); return err }, `signal_send("b", "r2", "s", 1) = the`},
		{func(h engine.Host) error { _, err := h.Child("c", "w", []byte("1"), nil); return err }, `child("c", "w", 1) = the journal ends here`},
		{func(h engine.Host) error { _, err := h.Hook("h", "", nil); return err }, `hook("h") = the journal ends here`},
		{func(h engine.Host) error { _, err := h.Emit("t", []byte("1")); return err }, `emit("t", 1) = the journal ends here`},
		{func(h engine.Host) error { _, err := h.SetAttribute("k", []byte("v")); return err }, `set_attribute("k", v) = the journal ends here`},
		{func(h engine.Host) error { _, err := h.CancelPolicy(1); return err }, `cancel_policy(1) = the journal ends here`},
		{func(h engine.Host) error { _, err := h.Version("v", 1); return err }, `version("v", 1) = `},
		{func(h engine.Host) error { return h.ContinueAsNew([]byte("1"), nil) }, `continue_as_new(1) = `},
	} {
		w := newWorld(t, func(h engine.Host) (int32, error) {
			if _, err := h.Sleep("nap", 500); err != nil {
				return 0, err
			}
			return 0, c.call(h)
		}, activated, nap)
		if got := traced(t, w); !strings.Contains(got, "\n2 "+c.want) {
			t.Errorf("%d: %s, want %s", i, got, c.want)
		}
	}
	w := newWorld(t, func(h engine.Host) (int32, error) { _, err := h.Sleep("other", 500); return 0, err }, activated, nap)
	const want = `sleep("other", 500 ms) = replay differs from the journal at entry 2: the journal has sleep "nap", the workflow did sleep "other"`
	if got := traced(t, w); !strings.Contains(got, want) {
		t.Error(got)
	}
}

// TestVerifyWith verifies strictly against a given module.
func TestVerifyWith(t *testing.T) {
	w := newWorld(t, naps("2", returns), activated, nap, woken, step, paid)
	w.gone = store.ErrNotFound // the module of the run
	if err := w.checker().VerifyWith(t.Context(), w.state.Run, w.mod); err == nil || !strings.Contains(err.Error(), "another input") {
		t.Error(err)
	}
}
