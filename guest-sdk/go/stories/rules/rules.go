// Package rules has the workflow "rules", which makes the calls of a case in host/conformance/rules.json and returns the
// outcome of each call. It runs on a host and in a workflow.Env.
package rules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

// Name is the name of the workflow, and of the step function, query and update that make calls.
const Name = "rules"

// Case is the input of the workflow.
type Case struct {
	// In is the code that makes the calls: "" for the workflow, or "body", "beside" (beside a body), "function" (a step
	// function), "query", "validator" (of an update).
	In    string `json:"in,omitempty"`
	Calls []Call `json:"calls"`
	// Repeats reports whether names are used again. Some SDKs number repeated names.
	Repeats bool `json:"repeats,omitempty"`
	// Messages requests the messages of errors in the outcomes.
	Messages bool `json:"messages,omitempty"`
}

// Call is one call of the SDK. host/conformance/rules.json explains the fields.
type Call struct {
	Call    string          `json:"call"`
	Name    Text            `json:"name,omitempty"`
	Handler Text            `json:"handler,omitempty"` // of a step, or the workflow of a child
	To      Text            `json:"to,omitempty"`      // the run of a signal, text of a sleep, token of a hook, or value
	Ms      int64           `json:"ms,omitempty"`
	Newest  int64           `json:"newest,omitempty"`
	Options json.RawMessage `json:"options,omitempty"`
	Times   int             `json:"times,omitempty"` // repetitions: # in texts is the number, from 0; the last outcome counts

	Payload json.RawMessage `json:"payload,omitempty"`
	Bytes   int             `json:"bytes,omitempty"` // length in JSON of a payload that is a string
	Bad     string          `json:"bad,omitempty"`   // a value that has no JSON
	Fails   string          `json:"fails,omitempty"` // how a body ends: error, fatal, panic

	// Only for programs. A body or the step function rules-late succeeds at attempt Until. Calls are the inner calls of
	// together, within and race.
	Until    int      `json:"until,omitempty"`
	Calls    []Call   `json:"calls,omitempty"`
	Branches [][]Call `json:"branches,omitempty"`

	messages bool
}

// Text is a string. In JSON it may also be {"repeat": "n", "times": 257}.
type Text string

// UnmarshalJSON reads both forms.
func (t *Text) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		*t = Text(s)
		return nil
	}
	var long struct {
		Repeat string
		Times  int
	}
	err := json.Unmarshal(b, &long)
	*t = Text(strings.Repeat(long.Repeat, long.Times))
	return err
}

// Register registers the workflow, with its step function.
func Register() {
	workflow.Register(Name, Run, workflow.InputSchema("true"))
	workflow.Register("rules-child", func(_ context.Context, in any) (any, error) { return in, nil })
	workflow.RegisterStep(Name, func(s workflow.Step, calls []Call) ([]string, error) { return All(s, calls), nil })
	workflow.RegisterStep("rules-late", func(s workflow.Step, until int) (int, error) {
		if s.Attempt < until {
			return 0, fmt.Errorf("attempt %d of %d", s.Attempt, s.Attempts)
		}
		return s.Attempt, nil
	})
	workflow.RegisterStep("rules-echo", func(_ workflow.Step, in any) (any, error) { return in, nil })
}

// Run makes the calls of a case and returns their outcomes.
func Run(ctx context.Context, c Case) ([]string, error) {
	switch c.In {
	case "body":
		return workflow.Do(ctx, "body", func(s workflow.Step) ([]string, error) { return All(s, c.Calls), nil })
	case "beside":
		return workflow.Do(ctx, "body", func(workflow.Step) ([]string, error) {
			made := make(chan []string)
			go func() { made <- All(ctx, c.Calls) }()
			return <-made, nil
		})
	case "function":
		return workflow.Call[[]string](ctx, "function", Name, c.Calls)
	case "query":
		workflow.Query(ctx, Name, func(any) ([]string, error) { return All(ctx, c.Calls), nil })
		return nil, workflow.Sleep(ctx, "asked", time.Minute)
	case "validator":
		workflow.OnUpdate(ctx, Name, func(context.Context, any) (any, error) { return nil, nil }, workflow.Validate(func(any) error {
			b, err := json.Marshal(All(ctx, c.Calls))
			return errors.Join(errors.New(string(b)), err)
		}))
		return nil, workflow.Sleep(ctx, "asked", time.Minute)
	}
	calls := demand(c.Calls, c.Messages)
	if last := len(calls) - 1; last >= 0 && calls[last].Call == "continue_as_new" && calls[last].Bad == "" {
		All(ctx, calls[:last])
		return nil, workflow.ContinueAsNew(ctx, calls[last].payload(), calls[last].option())
	}
	return All(ctx, calls), nil
}

// demand sets whether the outcomes of calls and their inner calls have messages.
func demand(calls []Call, messages bool) []Call {
	for i := range calls {
		calls[i].messages = messages
		demand(calls[i].Calls, messages)
		for _, branch := range calls[i].Branches {
			demand(branch, messages)
		}
	}
	return calls
}

// All makes calls one after the other.
func All(ctx context.Context, calls []Call) (outcomes []string) {
	for i := range calls {
		outcomes = append(outcomes, calls[i].repeated(ctx))
	}
	return outcomes
}

func (c Call) repeated(ctx context.Context) string {
	name, to := c.Name, c.To
	for i := range c.Times - 1 {
		c.Name, c.To = numbered(name, i), numbered(to, i)
		c.make(ctx)
	}
	if c.Times > 0 {
		c.Name, c.To = numbered(name, c.Times-1), numbered(to, c.Times-1)
	}
	return c.make(ctx)
}

func numbered(t Text, i int) Text { return Text(strings.ReplaceAll(string(t), "#", strconv.Itoa(i))) }

// make makes the call and returns its outcome: OK, with a value for some calls, or the code of the error.
func (c *Call) make(ctx context.Context) string {
	name, handler, to := string(c.Name), string(c.Handler), string(c.To)
	switch c.Call {
	case "sleep":
		return c.plain(workflow.Sleep(ctx, name, time.Duration(c.Ms)*time.Millisecond))
	case "sleep_until":
		return c.plain(workflow.SleepUntil(ctx, name, time.UnixMilli(c.Ms)))
	case "sleep_text":
		return c.plain(workflow.SleepText(ctx, name, to))
	case "body":
		v, err := workflow.Do(ctx, name, func(s workflow.Step) (any, error) { return c.body(s) }, c.option())
		return c.outcome(v, err)
	case "step":
		v, err := workflow.Call[any](ctx, name, handler, c.payload(), c.option())
		return c.outcome(v, err)
	case "signal":
		_, err := workflow.ReceiveTimeout[any](ctx, name, time.Duration(c.Ms)*time.Millisecond)
		return c.plain(err)
	case "send":
		if to == "self" {
			to = workflow.Info(ctx).RunID
		}
		return c.plain(workflow.Send(ctx, to, name, c.payload()))
	case "hook":
		_, err := workflow.Hook(ctx, name, to, c.option())
		return c.plain(err)
	case "child":
		v, err := workflow.Child[any](ctx, name, handler, c.payload(), c.option())
		return c.outcome(v, err)
	case "emit":
		n, err := workflow.Emit(ctx, name, c.payload())
		return c.outcome(n, err)
	case "attribute":
		return c.plain(workflow.SetAttribute(ctx, name, to))
	case "version":
		return fmt.Sprint("OK ", workflow.Version(ctx, name, int(c.Newest)))
	case "cancel_policy":
		return c.plain(workflow.SetCancelPolicy(ctx, workflow.CancelPolicy(c.Newest)))
	case "continue_as_new":
		return c.plain(workflow.ContinueAsNew(ctx, c.payload(), c.option()))
	}
	return c.several(ctx)
}

// several makes the inner calls of a call.
func (c *Call) several(ctx context.Context) string {
	switch c.Call {
	case "together":
		lists := make([][]string, len(c.Branches))
		var all sync.WaitGroup
		for i, branch := range c.Branches {
			all.Go(func() { lists[i] = All(ctx, branch) })
			runtime.Gosched() // the branches begin in this order
		}
		all.Wait()
		return fmt.Sprintf("%q", lists)
	case "within":
		ctx, cancel := context.WithTimeout(ctx, time.Duration(c.Ms)*time.Millisecond)
		defer cancel()
		return fmt.Sprintf("%q", All(ctx, c.Calls))
	case "race":
		outer := ctx
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		won := make(chan string, len(c.Calls))
		for i := range c.Calls {
			go func() { won <- fmt.Sprint(i, " ", c.Calls[i].make(ctx)) }()
			runtime.Gosched()
		}
		first := <-won
		cancel()
		for range len(c.Calls) - 1 { // waits for steps that have begun
			<-won
		}
		if outer.Err() != nil { // the order in which the branches learn of it depends on the machine
			return "all are over"
		}
		return first
	}
	return "there is no call " + c.Call
}

// option sets the options of the case unchanged.
func (c *Call) option() func(map[string]any) {
	return func(o map[string]any) {
		set := map[string]any{}
		if len(c.Options) > 0 && json.Unmarshal(c.Options, &set) != nil {
			panic("options are an object")
		}
		maps.Copy(o, set)
	}
}

func (c *Call) payload() any {
	switch {
	case c.Bad != "":
		return bad(c.Bad)
	case c.Bytes > 0:
		return strings.Repeat("x", c.Bytes-2)
	}
	return c.Payload
}

func bad(what string) any {
	switch what {
	case "nan":
		return math.NaN()
	case "infinity inside":
		return map[string]any{"a": []any{1, math.Inf(-1)}}
	case "cycle":
		list := []any{nil}
		list[0] = list
		return list
	case "function":
		return func() {}
	}
	return make(chan int) // other SDKs use other values without JSON
}

func (c *Call) body(s workflow.Step) (any, error) {
	if s.Attempt < c.Until {
		return nil, fmt.Errorf("attempt %d of %d", s.Attempt, s.Attempts)
	}
	switch c.Fails {
	case "error":
		return nil, errors.New("no")
	case "fatal":
		return nil, workflow.Fatal(errors.New("no"))
	case "panic":
		panic("no")
	}
	return c.payload(), nil
}

func (c *Call) plain(err error) string {
	if err == nil {
		return "OK"
	}
	return c.outcome(nil, err)
}

// outcome returns the outcome of a call, with the error's message if the case requests messages.
func (c *Call) outcome(v any, err error) string {
	if err != nil && c.messages {
		text := outcome(v, err)
		if step := new(workflow.StepError); errors.As(err, &step) && step.Type != "" {
			text += " (" + step.Type + ")"
		}
		return text + ": " + ids.ReplaceAllString(err.Error(), "(run …)")
	}
	return outcome(v, err)
}

// ids matches the run ids of children in errors: a host and an Env choose different ids.
var ids = regexp.MustCompile(`\(run [^)]*\)`)

// longestValue is the length of the longest value that is shown in full in an outcome.
const longestValue = 40

func outcome(v any, err error) string {
	if err == nil {
		b, err := json.Marshal(v)
		if err != nil {
			return err.Error()
		}
		if len(b) > longestValue {
			return fmt.Sprintf("OK %d bytes", len(b))
		}
		return "OK " + string(b)
	}
	var step *workflow.StepError
	switch {
	case errors.As(err, &step) && step.Attempts > 0:
		return fmt.Sprintf("%s %s %d", step.Code, step.Kind, step.Attempts)
	case errors.As(err, &step):
		return strings.TrimSuffix(step.Code+" "+step.Kind, " ")
	case errors.Is(err, workflow.ErrNotHere):
		return "NOT_HERE"
	}
	return "ERROR" // of the SDK itself
}
