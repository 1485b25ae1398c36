//go:build !wasip1

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// runID is the id of the run, on a host and in the environment.
const runID = "test"

// caller sends messages to a run.
type caller interface {
	signal(name string, v any) error
	deliver(token string, v any) error
	query(name string, in any) ([]byte, error)
	update(name string, in any) (answer func() ([]byte, error), err error) // returns when the run has accepted it
	cancel() error
}

// event is an action on a run at a time after its start. It returns the text to compare.
type event struct {
	at time.Duration
	do func(c caller) string
	// hurried performs the event in the environment before other work that is due at this instant has settled.
	hurried bool
}

// cases are the workflows with the events of their runs.
var cases = []struct {
	workflow string
	events   []event
}{
	{"several-wait-for-a-child", nil},
	{"a-wait-ends-before-others", nil},
	{"waits-for-a-child-are-cancelled", []event{{at: time.Minute, do: cancels}}},
	{"huge-errors", nil},
	{"failures-of-handlers", nil},
	{"details-of-failures", nil},
	{"what-steps-know", nil},
	{"errors-that-panic", []event{{at: time.Minute, do: failsQuery("nil")}, {at: time.Minute, do: failsQuery("panics")},
		{at: time.Minute, do: failsUpdate("panics")}}},
	{"child-ends-at-the-time-out", nil},
	{"channel-of-an-earlier-iteration", []event{{at: 3 * time.Hour, do: signals("go", 7)}}},
	{"takes-more-than-it-lists", []event{{at: time.Second, do: asks("listed", 1)}, {at: time.Second, do: asks("unlisted", 1)},
		{at: time.Second, do: updates("listed", 1)}, {at: time.Second, do: updates("unlisted", 1)}}},
	{"napping-children", nil},
	{"unanswered-update", unanswered()},
	{"unanswered-update-when-failing", slices.Delete(unanswered(), 1, 2)},
	{"unanswered-update-when-told", unanswered()},
	{"signals-at-time-outs", signalsEachHour()},
	{"signal-when-many-wait", []event{{at: time.Second, do: fills}, {at: time.Second, do: signals("awaited", "go on")},
		{at: time.Second, do: updates("u", "x")}, {at: time.Second, do: signals("other", "x")},
		{at: 2 * time.Second, do: signals("awaited", "end")}}},
}

func cancels(c caller) string { return fmt.Sprint(c.cancel()) }

func signalsEachHour() (events []event) {
	for n := range 10 {
		events = append(events, event{at: time.Duration(n+1) * time.Hour, do: signals("s", n), hurried: true})
	}
	return events
}

func signals(name string, v any) func(c caller) string {
	return func(c caller) string { return code(c.signal(name, v)) }
}

func asks(name string, in any) func(c caller) string {
	return func(c caller) string {
		b, err := c.query(name, in)
		return string(b) + " " + code(err)
	}
}

// failsQuery sends a query that fails. Only the fact that it fails is compared.
func failsQuery(name string) func(c caller) string {
	return func(c caller) string {
		b, err := c.query(name, 1)
		return fmt.Sprint(string(b), err != nil)
	}
}

// failsUpdate sends an update that is refused. Only the fact that it is refused is compared.
func failsUpdate(name string) func(c caller) string {
	return func(c caller) string {
		_, err := c.update(name, 1)
		return fmt.Sprint("refused ", err != nil)
	}
}

func updates(name string, in any) func(c caller) string {
	return func(c caller) string {
		answer, err := c.update(name, in)
		if err != nil {
			return code(err)
		}
		b, err := answer()
		return string(b) + " " + code(err)
	}
}

// unanswered are an update that the run does not answer, and a cancel.
func unanswered() []event {
	var answer func() ([]byte, error)
	return []event{
		{at: time.Second, do: func(c caller) (told string) {
			var err error
			answer, err = c.update("slow", 1)
			return code(err)
		}},
		{at: 2 * time.Second, do: cancels},
		{at: 3 * time.Second, do: func(caller) string {
			_, err := answer()
			text := code(err)
			_, text, _ = strings.Cut(text, "the run ") // a host's message begins with the name of the update
			return text
		}},
	}
}

// fills sends signals up to the limit for a run that does not wait for them, and one more.
func fills(c caller) (told string) {
	for n := range abi.MaxPendingSignalBytes/abi.MaxPayloadBytes + 1 {
		told += code(c.signal(fmt.Sprint("unawaited ", n), strings.Repeat("x", abi.MaxPayloadBytes-len(`""`)))) + " "
	}
	return told
}

// code returns the code of an error that a caller got.
func code(err error) string {
	var a *abi.Error
	switch {
	case err == nil:
		return "OK"
	case errors.Is(err, host.ErrBusy), errors.As(err, &a) && a.Code == abi.Limit:
		return "LIMIT"
	case strings.Contains(err.Error(), "has no such "):
		return "NOT LISTED"
	}
	return err.Error()
}

// TestCompared runs the workflows on a host and in the environment.
func TestCompared(t *testing.T) {
	wasm := hosttest.Build(t, ".")
	for _, c := range cases {
		t.Run(c.workflow, func(t *testing.T) {
			onHost := onHost(t, wasm, c.workflow, c.events)
			var inEnv []string
			synctest.Test(t, func(t *testing.T) { inEnv = inEnvironment(t, c.workflow, c.events) })
			if a, b := strings.Join(onHost, "\n"), strings.Join(inEnv, "\n"); a != b {
				t.Errorf("a host says\n%s\nand the environment\n%s", a, b)
			}
		})
	}
}

// hostCaller sends messages to the run on a host.
type hostCaller struct{ *hosttest.Host }

func (h hostCaller) signal(name string, v any) error {
	return h.Signal(context.Background(), runID, name, v)
}

func (h hostCaller) deliver(token string, v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		_, err = h.Hooks().Deliver(context.Background(), token, b)
	}
	return err
}

func (h hostCaller) query(name string, in any) ([]byte, error) {
	return h.Query(context.Background(), runID, name, in)
}

func (h hostCaller) update(name string, in any) (func() ([]byte, error), error) {
	u, err := h.Update(context.Background(), runID, name, in, host.UntilAccepted())
	return func() ([]byte, error) {
		u, err := h.UpdateResult(context.Background(), runID, name, u.ID, true)
		return u.Result, err
	}, err
}

func (h hostCaller) cancel() error {
	_, err := h.Cancel(context.Background(), runID)
	return err
}

// newHost returns a host on which a run of a workflow has started.
func newHost(t *testing.T, wasm []byte, name string) *hosttest.Host {
	t.Helper()
	h := hosttest.New(t)
	if err := h.HandleRemote("slow"); err != nil {
		t.Fatal(err)
	}
	host.HandleStep(h.Host, "fails", func(_ context.Context, how string) (any, error) { return fails(how, host.Fatal) })
	if _, err := h.UploadAll(t.Context(), "", wasm, host.AllowStep("*")); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Start(t.Context(), name, "", host.WithRunID(runID)); err != nil {
		t.Fatal(err)
	}
	return h
}

// onHost runs a workflow on a host and returns the texts to compare.
func onHost(t *testing.T, wasm []byte, name string, events []event) (told []string) {
	t.Helper()
	h := newHost(t, wasm, name)
	h.Settle()
	for _, e := range events {
		h.Advance(hosttest.Epoch.Add(e.at).Sub(h.Clock.Now()))
		told = append(told, e.do(hostCaller{h}))
		h.Settle()
	}
	return append(told, finished(t, h)...)
}

// finished waits for the end of the run and returns its outcome.
func finished(t *testing.T, h *hosttest.Host) []string {
	t.Helper()
	r := h.Finish(runID)
	told := []string{fmt.Sprintf("%s after %v", r.Status, r.Ended.Sub(hosttest.Epoch))}
	if r.Failure != nil {
		told = append(told, shortened(r.Failure.Message))
	}
	if r.Status == host.Completed {
		list, err := host.Result[[]string](t.Context(), h, runID)
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, list...)
	}
	return told
}

// envCaller sends messages to the run in an environment.
type envCaller struct{ *workflow.Env }

func (e envCaller) signal(name string, v any) error   { return e.SendSignal(name, v) }
func (e envCaller) deliver(token string, v any) error { return e.Deliver(token, v) }

func (e envCaller) query(name string, in any) (answer []byte, err error) {
	var raw json.RawMessage
	err = e.Ask(name, in, &raw)
	return raw, err
}

func (e envCaller) update(name string, in any) (func() ([]byte, error), error) {
	var raw json.RawMessage
	answered := make(chan error, 1)
	go func() { answered <- e.Update(context.Background(), name, in, &raw) }()
	synctest.Wait()
	select {
	case err := <-answered:
		answered <- err
		if errors.Is(err, workflow.ErrUpdateRefused) {
			return nil, err
		}
	default:
	}
	return func() ([]byte, error) { return raw, <-answered }, nil
}

func (e envCaller) cancel() error {
	e.Cancel()
	return nil
}

// inEnvironment runs a workflow in the environment and returns the texts to compare.
func inEnvironment(t *testing.T, name string, events []event) (told []string) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // goroutines run in a fixed order, as on a host
	time.Sleep(time.Until(hosttest.Epoch))
	env := workflow.NewEnv()
	workflow.Handle(env, "host/slow", func(_ workflow.Step, seconds int) (int, error) {
		time.Sleep(time.Duration(seconds) * time.Second)
		return 0, errors.New(tooSlow)
	})
	workflow.Handle(env, "host/fails", func(_ workflow.Step, how string) (any, error) { return fails(how, workflow.Fatal) })
	began := time.Now()
	ended := make(chan []string, 1)
	go func() {
		list, err := workflow.Run(t.Context(), env, all[name], "")
		after := time.Since(began)
		switch {
		case errors.Is(err, workflow.ErrCancelled):
			ended <- []string{fmt.Sprintf("cancelled after %v", after)}
		case err != nil:
			ended <- []string{fmt.Sprintf("failed after %v", after), shortened(err.Error())}
		default:
			ended <- append([]string{fmt.Sprintf("completed after %v", after)}, list...)
		}
	}()
	synctest.Wait()
	for _, e := range events {
		time.Sleep(time.Until(began.Add(e.at)))
		if !e.hurried {
			synctest.Wait()
		}
		told = append(told, e.do(envCaller{env}))
		synctest.Wait()
	}
	told = append(told, <-ended...)
	time.Sleep(24 * time.Hour) // until all goroutines of the run have ended
	return told
}
