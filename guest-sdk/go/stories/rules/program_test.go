//go:build !wasip1

package rules

import (
	"encoding/json"
	"errors"
	"flag"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/conformance"
	"github.com/wfhost/wfhost/host/hosttest"
)

var (
	programs = flag.Int("programs", 30, "how many random programs are run")
	seed     = flag.Uint64("seed", 1, "the seed of the first one")
)

// inEnv runs a program in a test environment.
func inEnv(t *testing.T, s *conformance.Story) (told conformance.Told) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var c Case
	if err := json.Unmarshal(s.Input, &c); err != nil {
		t.Fatal(err)
	}
	env := workflow.NewEnv(workflow.EnvRunID(s.Name))
	env.Absent("nobody-is-there")
	began, done := time.Now(), make(chan struct{})
	go func() {
		defer close(done)
		list, err := workflow.Run(t.Context(), env, Run, c)
		told.Status = "completed"
		switch {
		case errors.Is(err, workflow.ErrCancelled):
			told.Status = "cancelled"
		case err != nil:
			told.Status, told.Message = "failed", err.Error()
		default:
			b, err := json.Marshal(list)
			if err != nil {
				t.Error(err)
			}
			told.Result = string(b)
		}
	}()
	for _, e := range s.Do {
		after, err := time.ParseDuration(e.At)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(began.Add(after)))
		synctest.Wait()
		if e.Cancel {
			env.Cancel()
		} else if err := env.SendSignal(e.Signal, e.Data); err != nil && !over(done) { // a run that has ended takes none
			t.Error(err)
		}
		synctest.Wait()
	}
	<-done
	told.Calls = callsOf(env, s.Name)
	return told
}

func over(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// callsOf returns the calls of a run and of its children.
func callsOf(e *workflow.Env, id string) (list []conformance.Call) {
	var children []string
	for _, c := range e.Calls() {
		list = append(list, conformance.Call{Run: id, Iteration: int(c.Iteration), Kind: c.Kind, Name: c.Name, Target: c.Target,
			Input: string(c.Input), Refused: c.Refused, AtMs: c.At.Milliseconds(), EndedMs: c.Ended.Milliseconds(), Attempts: c.Attempts,
			Code: c.Code, Message: c.Message, Result: string(c.Result), Child: c.RunID})
		if c.RunID != "" {
			children = append(children, c.RunID)
		}
	}
	for _, child := range children {
		if run := e.Child(child); run != nil {
			list = append(list, callsOf(run, child)...)
		}
	}
	return list
}

// TestProgramsInEnv runs random programs on a host and in the test environment: status, result and calls are equal.
func TestProgramsInEnv(t *testing.T) {
	var stories []conformance.Story
	for n := range *programs {
		stories = append(stories, conformance.Program(*seed+uint64(n)))
	}
	wasm, dir := hosttest.Build(t, ".."), host.UserCacheDir()
	told, err := conformance.Tell(t.Context(), wasm, dir, stories)
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for i := range stories {
		var got conformance.Told
		synctest.Test(t, func(t *testing.T) { got = inEnv(t, &stories[i]) })
		if d := told[i].Difference(&got); d != "" {
			again, err := conformance.Tell(t.Context(), wasm, dir, stories[i:i+1])
			t.Fatalf("%s with %s and %+v: %s\na host differs from itself: %v %v", stories[i].Name, stories[i].Input, stories[i].Do, d,
				err == nil && told[i].Difference(&again[0]) != "", err)
		}
		calls += len(got.Calls)
	}
	if calls < 5**programs && *programs > 10 {
		t.Errorf("%d programs have made %d calls", *programs, calls)
	}
}
