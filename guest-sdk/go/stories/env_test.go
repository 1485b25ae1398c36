//go:build !wasip1

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
	"github.com/wfhost/wfhost/host/conformance"
)

// callsOf returns the calls of a run and of its children, as recorded by an environment.
func callsOf(e *workflow.Env, id string) (list []conformance.Call) {
	var children []string
	for _, c := range e.Calls() {
		list = append(list, conformance.Call{Run: id, Iteration: int(c.Iteration), Kind: c.Kind, Name: c.Name, Target: c.Target,
			Input: string(c.Input), Refused: c.Refused, AtMs: c.At.Milliseconds(), EndedMs: c.Ended.Milliseconds(), Attempts: c.Attempts,
			Code: c.Code, Message: c.Message, Result: string(c.Result)})
		if c.RunID != "" {
			children = append(children, c.RunID)
		}
	}
	for _, child := range children {
		list = append(list, callsOf(e.Child(child), child)...)
	}
	return list
}

// tell runs a story in an environment and returns its result, error and calls.
func tell(t *testing.T, s *conformance.Story) (result []byte, err error, calls []conformance.Call) {
	t.Helper()
	env := workflow.NewEnv(workflow.EnvRunID(s.Name))
	env.Absent("nobody-is-there")
	began, done := time.Now(), make(chan error, 1)
	input := s.Input
	if s.Text != "" {
		input = json.RawMessage(s.Text)
	}
	go func() {
		var err error
		result, err = inMemory[s.Workflow](t.Context(), env, input)
		done <- err
	}()
	atEnd := func() {}
	for _, e := range s.Do {
		if e.At == "end" {
			before := atEnd
			atEnd = func() { before(); happen(t, env, &e) }
			continue
		}
		after, err := time.ParseDuration(e.At)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(began.Add(after)))
		synctest.Wait()
		happen(t, env, &e)
		synctest.Wait()
	}
	err = <-done
	atEnd()
	return result, err, callsOf(env, s.Name)
}

// happen applies an event to the run under test.
func happen(t *testing.T, env *workflow.Env, e *conformance.Event) {
	t.Helper()
	var err error
	var got json.RawMessage
	switch {
	case e.Signal != "":
		err = env.SendSignal(e.Signal, e.Data)
	case e.Deliver != "":
		err = env.Deliver(e.Deliver, e.Data)
	case e.Cancel:
		env.Cancel()
	case e.Query != "":
		err = env.Ask(e.Query, e.Data, &got)
	case e.Update != "":
		err = env.Update(t.Context(), e.Update, e.Data, &got)
	}
	switch {
	case e.Error != "" && (err == nil || !strings.Contains(err.Error(), e.Error)):
		t.Errorf("at %s: %v, want an error with %q", e.At, err, e.Error)
	case e.Error == "" && err != nil:
		t.Errorf("at %s: %v", e.At, err)
	case len(e.Want) > 0 && !bytes.Equal(got, compact(t, e.Want)):
		t.Errorf("at %s: %s, want %s", e.At, got, e.Want)
	}
}

func compact(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// differs replaces parts of a host's results with the environment's: it does not know the grants of a version, and a
// comment allows the change that a body makes.
var differs = map[string]*strings.Replacer{
	"refusals": strings.NewReplacer("DENIED", "UNKNOWN_HANDLER",
		`refusals@1 is not allowed to call \"host/vault\": upload it with that step allowed`,
		`no handler \"host/vault\" is registered in this test: workflow.Handle(env, \"host/vault\", fn)`),
	"bodies": strings.NewReplacer(`"NOT_HERE",0]`, `"NOT_HERE",1]`),
}

// concurrent lists the stories that start several calls at one instant, in an order that depends on Go.
var concurrent = []string{"bodies", "parallel", "race-lost", "race-won", "steps", "updates"}

// TestStoriesInEnv runs the stories in the test environment and compares results and calls with a host's.
func TestStoriesInEnv(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // goroutines are scheduled in the same order as in a module
	stories, err := conformance.Stories()
	if err != nil || len(stories) < 25 {
		t.Fatal(len(stories), err)
	}
	for _, s := range stories {
		t.Run(s.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				changed = 0 // as in an instance, which is new for each run
				result, err, calls := tell(t, &s)
				status := "completed"
				switch {
				case errors.Is(err, workflow.ErrCancelled):
					status = "cancelled"
				case err != nil:
					status = "failed"
				}
				host, err2 := conformance.Calls(s.Journal)
				if err2 != nil {
					t.Fatal(err2)
				}
				if slices.Contains(concurrent, s.Name) {
					conformance.Sort(calls)
					conformance.Sort(host)
				}
				r := differs[s.Name]
				if r == nil {
					r = strings.NewReplacer()
				}
				if want := r.Replace(string(s.Output())); status != s.Status || want != "" && string(result) != want {
					t.Errorf("%s %s %v, want %s %s", status, result, err, s.Status, want)
				}
				if got, want := conformance.Lines(calls), r.Replace(conformance.Lines(host)); got != want {
					t.Errorf("the environment has made the calls\n%s\nand a host\n%s", got, want)
				}
			})
		})
	}
}
