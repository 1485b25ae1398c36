// Command compared has workflows that its tests run twice, on a host and in the environment for tests: how they end, when, and
// what they tell must be the same. What the calls of rules.json cannot express is compared here.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func main() {} // a host calls what is registered

// workflowFunc is a workflow that tells what came of its calls.
type workflowFunc = func(ctx context.Context, in string) ([]string, error)

// all are the workflows by their names.
var all = map[string]workflowFunc{}

// add registers a workflow.
func add(name string, fn workflowFunc, opts ...workflow.RegisterOption) {
	all[name] = fn
	workflow.Register(name, fn, opts...)
}

// stacks are what differs in every build.
var stacks = regexp.MustCompile(`"stack":"(\\.|[^"\\])*"`)

// runIDs are those that a host gives to children, which differ from those of the environment.
var runIDs = regexp.MustCompile(`\(run [^)]*\)`)

// outcome is what came of a call, as a line.
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

// shortened replaces a text that nobody would read by its ends and its length.
func shortened(s string) string {
	if len(s) < 10_000 {
		return s
	}
	return fmt.Sprintf("%s … %s of %d bytes", s[:100], s[len(s)-100:], len(s))
}
