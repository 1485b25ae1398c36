// Command compared has workflows that its tests run twice, on a host and in a workflow.Env. Their ends, times and results
// must be the same. The workflows cover cases that the calls of rules.json cannot express.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func main() {} // a host calls the registered workflows

// workflowFunc is a workflow that returns the outcomes of its calls.
type workflowFunc = func(ctx context.Context, in string) ([]string, error)

// all holds the workflows by name.
var all = map[string]workflowFunc{}

// add registers a workflow.
func add(name string, fn workflowFunc, opts ...workflow.RegisterOption) {
	all[name] = fn
	workflow.Register(name, fn, opts...)
}

// stacks matches stacks, which differ in every build.
var stacks = regexp.MustCompile(`"stack":"(\\.|[^"\\])*"`)

// runIDs matches the run ids of children: a host and an Env choose different ids.
var runIDs = regexp.MustCompile(`\(run [^)]*\)`)

// outcome returns the outcome of a call as a line.
func outcome(v any, err error) string {
	if err == nil {
		return "OK " + shown(v)
	}
	step, ok := errors.AsType[*workflow.StepError](err)
	if !ok {
		return fmt.Sprintf("%T %s", err, shortened(err.Error()))
	}
	b, err := json.Marshal(step.Details)
	if err != nil {
		return err.Error()
	}
	details := stacks.ReplaceAllString(string(b), `"stack":"…"`)
	text := runIDs.ReplaceAllString(step.Error(), "(run …)")
	return fmt.Sprintf("%s %s %s %s %d %s cause %v details %s", step.Code, step.Kind, step.Type, step.Name, step.Attempts,
		shortened(text), step.Cause, shortened(runIDs.ReplaceAllString(details, "(run …)")))
}

func shown(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return shortened(string(b))
}

// shortened returns a string of 10,000 bytes or more as its ends and its length.
func shortened(s string) string {
	if len(s) < 10_000 {
		return s
	}
	return fmt.Sprintf("%s … %s of %d bytes", s[:100], s[len(s)-100:], len(s))
}
