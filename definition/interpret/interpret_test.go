package interpret_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/definition"
	"github.com/wfhost/wfhost/definition/interpret"
	"github.com/wfhost/wfhost/definition/yamltext"
	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func read(t *testing.T, text string) *definition.Definition {
	t.Helper()
	n, err := yamltext.Read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	d, err := definition.Parse(n)
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return d
}

// calls records the inputs of handlers in order, and the maximum number of concurrent calls.
type calls struct {
	mu   sync.Mutex
	list []string
	at   int
	most int
}

func (c *calls) add(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, fmt.Sprintf(format, args...))
}

func (c *calls) enter(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at += n
	c.most = max(c.most, c.at)
}

// environment has the handlers of the tests' definitions: echo returns its input, fail always fails, minute takes a
// minute, flaky fails twice, count counts up, and undo is an echo.
func environment() (*workflow.Env, *calls) {
	env, c := workflow.NewEnv(), &calls{}
	tries := 0
	for name, fn := range map[string]func(s workflow.Step, in any) (any, error){
		"echo": func(_ workflow.Step, in any) (any, error) { return in, nil },
		"undo": func(_ workflow.Step, in any) (any, error) { return in, nil },
		"fail": func(_ workflow.Step, in any) (any, error) { return nil, workflow.Fatal(fmt.Errorf("broken by %v", in)) },
		"minute": func(s workflow.Step, in any) (any, error) {
			c.enter(1)
			defer c.enter(-1)
			select {
			case <-time.After(time.Minute):
				return in, nil
			case <-s.Done():
				return nil, s.Err()
			}
		},
		"flaky": func(_ workflow.Step, in any) (any, error) {
			tries++
			if tries < 3 {
				return nil, errors.New("not now")
			}
			return in, nil
		},
		"count": func(_ workflow.Step, in any) (any, error) {
			fields, _ := in.(map[string]any)
			n, _ := fields["n"].(float64)
			return map[string]any{"n": n + 1, "continue": n < 2}, nil
		},
		"http": func(_ workflow.Step, in any) (any, error) { return map[string]any{"status": 200, "request": in}, nil },
	} {
		workflow.Handle(env, "host/"+name, func(s workflow.Step, in any) (any, error) {
			b, _ := json.Marshal(in)
			c.add("%s %s %s", s.Name, name, b)
			return fn(s, in)
		})
	}
	return env, c
}

// do performs a definition in memory, and sends signals at the given times.
func do(t *testing.T, text, input string, signals map[time.Duration]string) (result string, took time.Duration, c *calls, env *workflow.Env) {
	t.Helper()
	d := read(t, text)
	synctest.Test(t, func(t *testing.T) {
		env, c = environment()
		begin := time.Now()
		if input == "" {
			input = "null"
		}
		for after, signal := range signals {
			go func() {
				select {
				case <-time.After(after):
				case <-t.Context().Done():
					return
				}
				name, payload, _ := strings.Cut(signal, " ")
				if token, ok := strings.CutPrefix(name, "token:"); ok {
					if err := env.Deliver(token, json.RawMessage(payload)); err != nil {
						t.Error(err)
					}
				} else if err := env.SendSignal(name, json.RawMessage(payload)); err != nil {
					t.Error(err)
				}
			}()
		}
		out, err := workflow.Run(t.Context(), env, func(ctx context.Context, in json.RawMessage) (json.RawMessage, error) {
			return interpret.Run(ctx, d, in)
		}, json.RawMessage(input))
		took = time.Since(begin)
		result = string(out)
		if err != nil {
			result = "error: " + err.Error()
		}
	})
	return result, took, c, env
}

func init() {
	workflow.Register("double", func(_ context.Context, n int) (int, error) {
		if n < 0 {
			return 0, fmt.Errorf("no double of %d", n)
		}
		return 2 * n, nil
	})
}

const day = 24 * time.Hour

// TestRuns performs definitions and compares results, durations, and the inputs of handlers.
func TestRuns(t *testing.T) {
	for name, c := range map[string]struct {
		text, input string
		signals     map[time.Duration]string
		want        string // a part of the result
		took        time.Duration
		calls       string // all of them, or "" for any
	}{
		"state": {text: `{name: x, steps: [{name: a, handler: echo, config: {b: "${input.n + 1}"}}, {name: c, handler: echo}, {name: d, handler: echo, config: [1]}]}`,
			input: `{"n":1}`, want: `{"b":2,"n":1}`, calls: `a echo {"b":2}; c echo {"b":2,"n":1}; d echo [1]`},
		"input that is no object": {text: `{name: x, steps: [{name: a, handler: echo, config: "${input}"}]}`, input: `[1]`, want: `{}`, calls: `a echo [1]`},
		"no input":                {text: `{name: x, steps: [{name: a, handler: echo}]}`, want: `{}`},
		"vars and result": {text: `{name: x, vars: {v: "${input.n}!"}, result: {v: "${vars.v}", s: "${steps.a.status}", w: "${run.workflow != nil}"}, steps: [{name: a, handler: echo}]}`,
			input: `{"n":1}`, want: `{"s":"completed","v":"1!","w":true}`},
		"request": {text: `{name: x, result: "${steps.a.output}", steps: [{name: a, type: http, url: "https://x/${input.n}", method: PUT, headers: {A: b, C: [d]}, body: {e: 1}}]}`,
			input: `{"n":1}`, want: `{"request":{"body":{"e":1},"headers":{"A":["b"],"C":["d"]},"method":"PUT","url":"https://x/1"},"status":200}`},
		"waits": {text: `{name: x, steps: [{name: a, type: wait, durationMs: 1000}, {name: b, type: wait, duration: "${input.d}"}, {name: c, type: wait, durationMs: "${500}"},
			{name: d, type: wait, until: 2000-01-01T02:00:00Z}, {name: e, type: wait, untilTimestamp: 1999-01-01T00:00:00Z}, {name: f, type: wait, cron: 0 9 * * *, zone: Europe/Berlin},
			{name: g, type: wait, duration: 1h, until: 2000-01-03T00:00:00Z}]}`, input: `{"d":"1h"}`, took: 2 * day, want: "{"},
		"ten years":            {text: `{name: x, steps: [{name: a, type: wait, duration: 3653d}]}`, took: 3653 * day, want: "{}"},
		"longer":               {text: `{name: x, steps: [{name: a, type: wait, until: 2010-06-01T00:00:00Z}]}`, want: "longer than the limit of 3653d"},
		"computed and longer":  {text: `{name: x, steps: [{name: a, type: wait, duration: "${input}"}]}`, input: `"3654d"`, want: "longer than the limit"},
		"computed nonsense":    {text: `{name: x, steps: [{name: a, type: wait, duration: "${input}"}]}`, input: `[]`, want: "a text or a number of milliseconds, got []"},
		"computed negative":    {text: `{name: x, steps: [{name: a, type: wait, durationMs: "${input}"}]}`, input: `-1`, want: "from 0 to 100 years, got -1"},
		"computed text":        {text: `{name: x, steps: [{name: a, type: wait, duration: "${input}"}]}`, input: `"soon"`, want: "invalid duration"},
		"computed instant":     {text: `{name: x, steps: [{name: a, type: wait, until: "${input}"}]}`, input: `5`, want: "an instant is a text of RFC 3339, got 5"},
		"computed bad instant": {text: `{name: x, steps: [{name: a, type: wait, until: "${input}"}]}`, input: `"x"`, want: "invalid instant"},
		"yes":                  {text: condition, input: `{"user":{"active":true}}`, want: "{", calls: `yes echo "y"; both echo "b"`},
		"no":                   {text: condition, input: `{"user":{"active":0}}`, want: "{", calls: `no echo "n"; both echo "b"`},
		"nothing there":        {text: condition, input: `{}`, want: "{", calls: `no echo "n"; both echo "b"`},
		"end":                  {text: `{name: x, steps: [{name: a, type: condition, if: "true", then: end}, {name: b, handler: fail}]}`, want: "{}"},
		"neither":              {text: `{name: x, steps: [{name: a, type: condition, if: "false"}, {name: b, handler: echo, config: 1}]}`, want: "{}", calls: "b echo 1"},
		"condition that fails": {text: `{name: x, steps: [{name: a, type: condition, if: input.n > 3}]}`, input: `{"n":"x"}`, want: `step "a": the expression "input.n > 3"`},
		"event": {text: `{name: x, steps: [{name: a, type: external_event, signalType: paid, timeoutMs: 60000}]}`, signals: map[time.Duration]string{time.Second: `paid {"by":"ada"}`},
			want: `{"by":"ada"}`, took: time.Second},
		"event out of time":             {text: `{name: x, steps: [{name: a, type: external_event, signalType: paid, timeoutMs: 60000}]}`, want: `step "a": no signal "paid" within 1m`, took: time.Minute},
		"event that may be out of time": {text: `{name: x, result: "${steps.a.output}", steps: [{name: a, type: event, timeout: 1m, on_timeout: continue}]}`, want: `{"timeout":true}`, took: time.Minute},
		"event that fits": {text: `{name: x, result: "${steps.a.output.n}", steps: [{name: a, type: event, where: event.id == input.id, timeout: 1m}]}`, input: `{"id":7}`,
			signals: map[time.Duration]string{time.Second: `a {"id":6,"n":1}`, 2 * time.Second: `a "no object"`, 3 * time.Second: `a {"id":7,"n":2}`}, want: "2", took: 3 * time.Second},
		"events of one signal": {text: `{name: x, nodes: [{name: a, type: event, signal: s, where: event.to == "a", timeout: 1h}, {name: b, type: event, signal: s, where: event.to == "b", timeout: 1h}, {name: c, type: event, signal: s, where: event.to == "c"}]}`,
			signals: map[time.Duration]string{time.Second: `s {"to":"b"}`, 2 * time.Second: `s {"to":"nobody"}`, 3 * time.Second: `s {"to":"c"}`, 4 * time.Second: `s {"to":"a"}`},
			want:    `{"a":{"to":"a"},"b":{"to":"b"},"c":{"to":"c"}}`, took: 4 * time.Second},
		"event that never fits": {text: `{name: x, steps: [{name: a, type: event, where: "false", timeout: 1m}]}`,
			signals: map[time.Duration]string{30 * time.Second: `a 1`}, want: "no signal", took: time.Minute},
		"approved": {text: approval, input: `{"draft":"hi"}`, signals: map[time.Duration]string{time.Hour: `token:token-1.test {"decision":"approved","decidedBy":"ada"}`}, want: `"hi"`, took: time.Hour},
		"edited":   {text: approval, input: `{"draft":"hi"}`, signals: map[time.Duration]string{time.Hour: `ok {"decision":"edited","editedContent":"ho"}`}, want: `"ho"`, took: time.Hour},
		"rejected": {text: approval, input: `{"draft":"hi"}`, signals: map[time.Duration]string{time.Hour: `ok {"approved":false,"decidedBy":"eve"}`}, want: `step "a": it was rejected by eve`, took: time.Hour},
		"rejected by nobody": {text: approval, input: `{}`, signals: map[time.Duration]string{time.Hour: `ok {"decision":"rejected"}`, time.Minute: `ok 7`, time.Second: `ok {"decision":"maybe"}`},
			want: `it was rejected`, took: time.Hour},
		"undecided":                  {text: approval, input: `{}`, want: "nobody decided within 7d", took: 7 * day},
		"rejection that is a result": {text: `{name: x, result: "${steps.a.output.decision}", steps: [{name: a, type: approval, on_rejected: continue, timeout: 1h}]}`, want: `"rejected"`, took: time.Hour},
		"approval of a config":       {text: `{name: x, nodes: [{name: a, type: approval, config: {n: 1}}]}`, signals: map[time.Duration]string{0: `a {"approved":true}`}, want: `{"approved":true,"decision":"approved"}`},
		"retries":                    {text: `{name: x, steps: [{name: a, handler: flaky, config: 1, retry: {maxAttempts: 5, backoffMs: 1000}}]}`, want: "{}", took: 3 * time.Second, calls: "a flaky 1; a flaky 1; a flaky 1"},
		"too few":                    {text: `{name: x, retry: {attempts: 2, delay: 1s, backoff: fixed, max_elapsed: 1h}, steps: [{name: a, handler: flaky, config: 1}]}`, want: "failed after 2 attempts: not now", took: time.Second},
		"optional": {text: `{name: x, result: "${steps.a}", steps: [{name: a, handler: fail, optional: true}, {name: b, handler: echo, config: 1}]}`, input: `{}`,
			want: `{"error":"step \"a\" failed after 1 attempt: broken by map[]","output":null,"status":"failed"}`},
		"recovered": {text: `{name: x, result: "${steps.a}", steps: [{name: a, handler: fail, config: 1, on_failure: f}, {name: f, handler: echo}, {name: b, handler: fail, config: 2, on_failure: f}]}`,
			want:  `"output":{"message":"step \"a\" failed after 1 attempt: broken by 1","step":"a"},"status":"recovered"`,
			calls: `a fail 1; f echo {"message":"step \"a\" failed after 1 attempt: broken by 1","step":"a"}; b fail 2; f #2 echo {"message":"step \"b\" failed after 1 attempt: broken by 2","step":"b"}`},
		"not recovered": {text: `{name: x, steps: [{name: a, handler: fail, config: 1, on_failure: f}, {name: f, handler: fail, config: "${error.step}"}]}`, want: "broken by 1\nstep \"f\" failed after 1 attempt: broken by a"},
		"skipped":       {text: `{name: x, result: "${[steps.a.status, steps.a.output]}", steps: [{name: a, handler: fail, skip_if: input.n == 1}]}`, input: `{"n":1}`, want: `["skipped",null]`},
		"not skipped":   {text: `{name: x, steps: [{name: a, handler: echo, skip_if: input.n == 1}]}`, input: `{"n":2}`, want: `{`, calls: `a echo {"n":2}`},
		"skip fails":    {text: `{name: x, steps: [{name: a, handler: echo, skip_if: input.n.m.o}]}`, input: `{"n":"x"}`, want: `step "a": the expression`},
		"config fails":  {text: `{name: x, steps: [{name: a, handler: echo, config: "${input.n.m.o}"}]}`, input: `{"n":"x"}`, want: `step "a": the expression`},
		"vars fail":     {text: `{name: x, vars: {v: "${input.n.m.o}"}, steps: [{name: a, handler: echo}]}`, input: `{"n":"x"}`, want: `vars: v: the expression`},
		"result fails": {text: `{name: x, result: "${input.n.m.o}", steps: [{name: a, handler: echo, compensate: u}, {name: u, handler: undo}]}`, input: `{"n":"x"}`, want: `result: the expression`,
			calls: `a echo {"n":"x"}; u undo {"n":"x"}`},
		"failed on purpose": {text: `{name: x, steps: [{name: a, type: fail, message: "no ${input}"}]}`, input: `3`, want: `error: step "a": no 3`},
		"next":              {text: `{name: x, steps: [{name: a, handler: echo, config: 1, next: c}, {name: b, handler: fail}, {name: c, type: set, values: {d: 1}, next: end}, {name: e, handler: fail}]}`, want: `{"d":1}`},
		"undone": {text: `{name: x, steps: [{name: a, handler: echo, config: 1, compensate: ua}, {name: b, handler: echo, config: 2, compensate: ub}, {name: c, handler: fail, config: 3, compensate: uc},
			{name: ua, handler: undo}, {name: ub, handler: undo, config: "${[error.step, steps.a.output]}"}, {name: uc, handler: undo}]}`,
			want: "broken by 3", calls: `a echo 1; b echo 2; c fail 3; ub undo ["b",1]; ua undo 1`},
		"what has not completed is not undone": {text: `{name: x, steps: [{name: a, handler: echo, skip_if: "true", compensate: u}, {name: b, handler: fail, optional: true, compensate: u},
			{name: c, handler: fail, on_failure: r, compensate: u}, {name: d, handler: fail, config: 1}, {name: u, handler: undo}, {name: r, handler: echo}]}`, want: "broken by 1",
			calls: `b fail {}; c fail {}; r echo {"message":"step \"c\" failed after 1 attempt: broken by map[]","step":"c"}; d fail 1`},
		"the input stays": {text: `{name: x, result: "${[input.n, state.n]}", steps: [{name: a, type: set, values: {n: 2}}]}`, input: `{"n":1}`, want: "[1,2]"},
		"the latest":      {text: `{name: x, steps: [{name: a, type: wait, duration: 2h, until: 1999-01-01T00:00:00Z, cron: "30 0 * * *"}]}`, want: "{}", took: 2 * time.Hour},
		"undoing fails": {text: `{name: x, steps: [{name: a, handler: echo, config: 1, compensate: ua}, {name: b, handler: echo, config: 2, compensate: ub}, {name: c, handler: fail, config: 3},
			{name: ua, handler: undo}, {name: ub, handler: fail}]}`, want: "broken by 3\nundo \"b\": step \"ub\" failed after 1 attempt: broken by 2", calls: `a echo 1; b echo 2; c fail 3; ub fail 2; ua undo 1`},
		"in time":     {text: `{name: x, timeout: 1h, steps: [{name: a, type: wait, duration: 59m}]}`, want: "{}", took: 59 * time.Minute},
		"out of time": {text: `{name: x, timeout: 1h, steps: [{name: b, handler: echo, config: 1, compensate: u}, {name: a, type: wait, duration: 61m, optional: true}, {name: u, handler: undo}]}`, want: "the run has not ended within 1h", took: time.Hour, calls: "b echo 1; u undo 1"},
		"map": {text: `{name: x, result: "${steps.a.output}", steps: [{name: a, type: map, items: "${input}", handler: echo, config: ["${item}", "${index}"], max_parallel: 1}]}`, input: `[5,6]`,
			want: `[[5,0],[6,1]]`, calls: "a[0] echo [5,0]; a[1] echo [6,1]"},
		"map of nothing":  {text: `{name: x, result: "${steps.a.output}", steps: [{name: a, type: map, items: [], handler: echo}]}`, want: `[]`},
		"map of no list":  {text: `{name: x, steps: [{name: a, type: map, items: "${input}", handler: echo}]}`, input: `{"a":1}`, want: `step "a": its items must be a list, got {"a":1}`},
		"map of too many": {text: `{name: x, steps: [{name: a, type: map, items: [1, 2, 3], max_items: 2, handler: echo}]}`, want: `step "a" has 3 items, the limit is 2`},
		"map that fails":  {text: `{name: x, steps: [{name: a, type: map, items: [1, 2], handler: fail}]}`, want: "broken by"},
		"map that is undone": {text: `{name: x, nodes: [{name: z, handler: echo, config: 0, compensate: u}, {name: a, type: map, after: z, items: [1, 2, bad, 3], workflow: double, max_parallel: 1, compensate: u},
			{name: u, handler: undo, config: "${[error.step, steps.a?.status ?? 0, steps.a?.output ?? 0]}"}]}`, want: `step "a[2]"`,
			calls: `z echo 0; u undo ["a","failed",[2,4,null,null]]; u #2 undo ["z",0,0]`},
		"map of which nothing is done": {text: `{name: x, steps: [{name: a, type: map, items: [1, 2], handler: fail, compensate: u, max_parallel: 1}, {name: u, handler: undo}]}`, want: "broken by 1", calls: "a[0] fail 1"},
		"map that is optional": {text: `{name: x, steps: [{name: a, type: map, items: [1, bad], workflow: double, max_parallel: 1, optional: true, compensate: u}, {name: b, handler: fail, config: "${steps.a.output}"}, {name: u, handler: undo}]}`,
			want: "broken by", calls: `b fail null; u undo [2,null]`},
		"map that is cut off": {text: `{name: x, nodes: [{name: a, type: map, items: [1, 2], handler: minute, max_parallel: 1, compensate: u}, {name: b, type: wait, duration: 90s}, {name: c, handler: fail, after: b, config: 3},
			{name: u, handler: undo}]}`, want: "broken by 3", took: 90 * time.Second, calls: `a[0] minute 1; a[1] minute 2; c fail 3; u undo [1,null]`},
		"map that is recovered": {text: `{name: x, steps: [{name: a, type: map, items: [1, bad], workflow: double, max_parallel: 1, on_failure: f, compensate: u}, {name: b, handler: fail, config: 1}, {name: u, handler: undo},
			{name: f, handler: echo, config: 7}]}`, want: "broken by", calls: `f echo 7; b fail 1`},
		"map with a fault": {text: `{name: x, steps: [{name: a, type: map, items: [1], handler: echo, config: "${item.x.y}"}]}`, want: `step "a[0]": the expression`},
		"items fail":       {text: `{name: x, steps: [{name: a, type: map, items: "${input.x.y.z}", handler: echo}]}`, input: `7`, want: `step "a": the expression`},
		"loop": {text: `{name: x, result: "${steps.a.output.n}", steps: [{name: a, type: loop, handler: count, max_iterations: 10, loop_delay: 1s}]}`, input: `{}`, want: "3", took: 2 * time.Second,
			calls: `a[0] count {}; a[1] count {"continue":true,"n":1}; a[2] count {"continue":true,"n":2}`},
		"loop until": {text: `{name: x, steps: [{name: a, type: loop, handler: count, max_iterations: 10, until: "output.n >= 2 || iteration > 5", config: {n: "${output?.n ?? 0}"}}]}`, want: `"n":2`,
			calls: `a[0] count {"n":0}; a[1] count {"n":1}`},
		"loop without end":  {text: `{name: x, steps: [{name: a, type: loop, handler: echo, config: {continue: true}, max_iterations: 3}]}`, want: `step "a" is not done after 3 iterations, its limit`},
		"loop for too long": {text: `{name: x, steps: [{name: a, type: loop, handler: echo, config: {continue: true}, max_iterations: 100, loop_delay: 10m, max_duration: 1h}]}`, want: `not done after 7 iterations in 1h`, took: time.Hour},
		"loop that fails":   {text: `{name: x, steps: [{name: a, type: loop, handler: fail, max_iterations: 3}]}`, want: "broken"},
		"until fails":       {text: `{name: x, steps: [{name: a, type: loop, handler: echo, until: output.x.y.z, max_iterations: 3}]}`, input: `{"x":3}`, want: `step "a": the expression`},
		"loop with a fault": {text: `{name: x, steps: [{name: a, type: loop, handler: echo, config: "${input.x.y.z}", max_iterations: 3}]}`, input: `{"x":3}`, want: `step "a": the expression`},
		"child":             {text: `{name: x, result: "${steps.a.output}", steps: [{name: a, type: workflow, workflow: double, config: "${input}", timeout: 1h}]}`, input: "4", want: "8"},
		"child that fails":  {text: `{name: x, nodes: [{name: a, type: workflow, workflow: double}]}`, input: "-4", want: `child "a" (run test.a) failed: no double of -4`},
		"children":          {text: `{name: x, nodes: [{name: a, type: map, workflow: double, items: "${input}"}]}`, input: "[1,2]", want: "[2,4]"},
		"detached":          {text: `{name: x, nodes: [{name: a, type: workflow, workflow: double, detach: true}]}`, input: "4", want: `{"run":"`},
		"graph": {text: `{name: x, nodes: [{name: a, handler: echo}, {name: b, type: wait, duration: 1h, after: a}, {name: c, type: wait, duration: 2h, after: a}, {name: d, handler: echo, after: [b, c], config: "${steps.a.output}"}]}`,
			input: `{"n":1}`, want: `{"n":1}`, took: 2 * time.Hour},
		"graph with two ends": {text: `{name: x, nodes: [{name: a, type: set, values: {n: 1}}, {name: b, type: set, values: {n: 2}, after: []}]}`, want: `{"a":{"n":1},"b":{"n":2}}`},
		"graph with a fan-in": {text: `{name: x, nodes: [{name: a, type: set, values: {n: 1}}, {name: b, type: set, values: {n: 2}}, {name: c, handler: echo, after: [a, b]}]}`, want: `{"a":{"n":1},"b":{"n":2}}`},
		"graph one at a time": {text: `{name: x, max_parallel: 1, nodes: [{name: a, handler: minute, config: 1}, {name: b, handler: minute, config: 2}, {name: c, handler: minute, config: 3}]}`, want: `{"a":1,"b":2,"c":3}`, took: 3 * time.Minute},
		"graph all at a time": {text: `{name: x, nodes: [{name: a, handler: minute, config: 1}, {name: b, handler: minute, config: 2}, {name: c, handler: minute, config: 3}]}`, want: `{"a":1,"b":2,"c":3}`, took: time.Minute},
		"graph that fails":    {text: `{name: x, nodes: [{name: a, type: wait, duration: 1h}, {name: b, handler: fail, config: 1}, {name: c, handler: echo, after: b}]}`, want: "broken by 1", calls: "b fail 1"},
		"graph that is undone": {text: `{name: x, nodes: [{name: a, handler: echo, config: 1, compensate: u}, {name: b, type: wait, duration: 1s, compensate: v, after: a}, {name: c, handler: fail, config: 2, after: b}, {name: u, handler: undo}, {name: v, handler: undo, config: "${error.message}"}]}`, want: "broken by 2", took: time.Second,
			calls: `a echo 1; c fail 2; v undo "step \"c\" failed after 1 attempt: broken by 2"; u undo 1`},
		"led past": {text: `{name: x, result: "${[steps.b.status, steps.b.output, steps[input.n].status]}", steps: [{name: a, type: condition, if: "true", then: c}, {name: b, handler: fail},
			{name: c, handler: echo, config: "${[steps.b.status, steps.b.output, steps[input.n].status]}"}]}`, input: `{"n":"b"}`, want: `["skipped",null,"skipped"]`, calls: `c echo ["skipped",null,"skipped"]`},
		"failed with an object":       {text: `{name: x, steps: [{name: a, type: fail, message: "${input}"}]}`, input: `{"n":[1]}`, want: `error: step "a": {"n":[1]}`},
		"graph with an optional node": {text: `{name: x, nodes: [{name: a, handler: fail, optional: true}, {name: b, handler: echo, after: a}]}`, want: `null`},
	} {
		t.Run(name, func(t *testing.T) {
			got, took, calls, _ := do(t, c.text, c.input, c.signals)
			if !strings.Contains(got, c.want) || took != c.took {
				t.Errorf("%s in %v, want %s in %v", got, took, c.want, c.took)
			}
			if all := strings.Join(calls.list, "; "); c.calls != "" && all != c.calls {
				t.Errorf("called\n%s, want\n%s", all, c.calls)
			}
		})
	}
}

const condition = `{name: x, steps: [{name: a, type: condition, condition: user.active, trueStep: yes, falseStep: no}, {name: yes, handler: echo, config: y, next: both},
	{name: no, handler: echo, config: n}, {name: both, handler: echo, config: b}]}`

const approval = `{name: x, result: "${state.draft}", steps: [{name: a, type: approval, contentKey: draft, prompt: "Send ${state.draft}?", timeout: 7d, signal: ok}]}`

// TestApprovalOutput checks that the run's output has the question for the person.
func TestApprovalOutput(t *testing.T) {
	_, _, _, env := do(t, approval, `{"draft":"hi"}`, map[time.Duration]string{0: `ok {"approved":true}`})
	if got := strings.Join(env.Output(), "\n"); got != `approval {"content":"hi","prompt":"Send hi?","signal":"ok","step":"a","token":"token-1.test"}` {
		t.Error(got)
	}
	_, _, _, env = do(t, `{name: x, steps: [{name: a, type: emit, topic: news, value: "${input}"}, {name: b, type: emit, value: 1}]}`, `"x"`, nil)
	if got := strings.Join(env.Output(), "\n"); got != "news \"x\"\nb 1" {
		t.Error(got)
	}
}

// TestFanOut processes a hundred elements, ten at a time, and stops at the first failure.
func TestFanOut(t *testing.T) {
	items := "[" + strings.TrimSuffix(strings.Repeat("7,", 100), ",") + "]"
	got, took, c, _ := do(t, `{name: x, nodes: [{name: a, type: map, items: "${input}", handler: minute, max_parallel: 10}]}`, items, nil)
	if got != items || took != 10*time.Minute || c.most != 10 || len(c.list) != 100 {
		t.Errorf("%s in %v, %d at a time, %d calls", got, took, c.most, len(c.list))
	}
}

// TestDagNats performs DagNats's published examples unchanged.
func TestDagNats(t *testing.T) {
	for _, c := range []struct {
		text, input, want string
		took              time.Duration
		calls             string
	}{
		{`{"name":"hello-world","version":"1.0","steps":[{"id":"greet","task":"echo","depends_on":[]},{"id":"uppercase","task":"echo","depends_on":["greet"]}]}`,
			`"Ada"`, `"Ada"`, 0, `greet echo "Ada"; uppercase echo "Ada"`},
		{`{"$schema":"../../docs/workflow-schema.json","name":"image-pipeline","version":"1.0","steps":[{"id":"fetch-urls","task":"echo","type":"normal"},
			{"id":"resize","task":"echo","type":"map","depends_on":["fetch-urls"],"config":{"max_items":10}},
			{"id":"build-gallery","task":"echo","type":"normal","depends_on":["resize"]}]}`, `["a"]`, `["a"]`, 0,
			`fetch-urls echo ["a"]; resize[0] echo "a"; build-gallery echo ["a"]`},
		{`{"name":"agent-loop","version":"1.0","steps":[{"id":"counter","task":"count","type":"agent_loop","depends_on":[],"loop":{"max_iterations":10,"loop_delay":1000000000}}]}`,
			`{}`, `{"continue":false,"n":3}`, 2 * time.Second, ""},
		{`{"name":"retry-errors","version":"1.0","steps":[{"id":"fetch","task":"fail","type":"normal","depends_on":[],"retry":{"max_attempts":3,"strategy":"exponential",
			"initial_delay":1000000000,"max_delay":10000000000,"multiplier":2.0},"on_failure":"report-error"},{"id":"process","task":"echo","type":"normal","depends_on":["fetch"]},
			{"id":"report-error","task":"echo","type":"normal","depends_on":[]}]}`, `1`, `"step":"fetch"`, 0, ""},
		{`{"name":"signals","version":"1.0","steps":[{"id":"prepare","task":"echo","type":"normal","depends_on":[]},{"id":"wait-for-approval","task":"minute","type":"normal","depends_on":[]},
			{"id":"finalize","task":"echo","type":"normal","depends_on":["prepare","wait-for-approval"]}]}`, `1`, `{"prepare":1,"wait-for-approval":1}`, time.Minute, ""},
		{`{"name":"rate-limited","version":"1","steps":[{"id":"call-api","task":"echo","timeout":"10s"},{"id":"cooldown","type":"sleep","depends_on":["call-api"],"config":{"duration":"30s"}},
			{"id":"next-call","task":"echo","depends_on":["cooldown"]}]}`, `1`, `null`, 30 * time.Second, "call-api echo 1; next-call echo null"},
		{`{"name":"http-echo","version":"1.0","steps":[{"id":"echo","task":"echo","depends_on":[]},{"id":"respond","type":"respond","depends_on":["echo"],
			"config":{"status":200,"content_type":"application/json"}}]}`, `{"a":1}`, `{"body":{"a":1},"content_type":"application/json","status":200}`, 0, ""},
		{`{"name":"sleeps","version":"1","steps":[{"id":"a","type":"sleep","config":{"cron":"0 9 * * *"}},{"id":"b","type":"sleep","config":{"until_input_path":"at"}},
			{"id":"c","type":"sleep","config":{"until_input_path":"ms"}},{"id":"d","type":"sleep","config":{"duration":30000000000}}]}`,
			`{"at":"2000-01-02T00:00:00Z","ms":5000}`, `null`, day, ""},
		{`{"name":"past","version":"1","steps":[{"id":"b","type":"sleep","config":{"until_input_path":"at"}}]}`, `{"at":"1990-01-02T00:00:00Z"}`, `null`, 0, ""},
		{`{"name":"negative","version":"1","steps":[{"id":"b","type":"sleep","config":{"until_input_path":"at"}}]}`, `{"at":-5}`, `from 0 to 100 years, got -5`, 0, ""},
		{`{"name":"years","version":"1","steps":[{"id":"b","type":"sleep","config":{"until_input_path":"at"}}]}`, `{"at":"2001-01-03T00:00:00Z"}`, `longer than the limit of 365d`, 0, ""},
		{`{"name":"event","version":"1","steps":[{"id":"a","task":"echo"},{"id":"e","type":"wait_for_event","depends_on":["a"],"config":{"event":"paid","timeout":"1h",
			"match":{"left":"order.id","op":"eq","right":"step.a.output.id"}}}]}`, `{"id":1}`, `{"timeout":true}`, time.Hour, ""},
		{`{"name":"event","version":"1","steps":[{"id":"e","type":"wait_for_event","config":{"event":"paid","timeout":"1h",
			"match":{"left":"order.id","op":"eq","right":"input.none.id"}}}]}`, `{"sent":true}`, `{"timeout":true}`, time.Hour, ""},
		{`{"name":"gate","version":"1","steps":[{"id":"g","type":"approval","config":{"timeout":"168h","subject":"approvals.x","description":"ok?"}}]}`, `1`, "nobody decided within 7d", 7 * day, ""},
		{`{"name":"skip","version":"1","steps":[{"id":"a","task":"echo"},{"id":"b","task":"fail","depends_on":["a"],"skip_if":{"step_id":"a","field":"n","op":">=","value":3}},
			{"id":"c","task":"echo","depends_on":["b"]},{"id":"d","task":"echo","depends_on":["a"],"skip_if":{"step_id":"a","field":"n","op":"==","value":"x"}},
			{"id":"e","task":"echo","depends_on":["a"],"skip_if":{"step_id":"a","field":"no","op":"!=","value":true}}]}`, `{"n":3}`, `{"c":null,"d":{"n":3},"e":{"n":3}}`, 0, ""},
	} {
		// No definition may end at the time of the signal: a signal to an ended run is an error.
		got, took, calls, _ := do(t, c.text, c.input, map[time.Duration]string{45 * time.Second: `paid {"a":1}`})
		if !strings.Contains(got, c.want) || took != c.took {
			t.Errorf("%.60s: %s in %v, want %s in %v", c.text, got, took, c.want, c.took)
		}
		if all := strings.Join(calls.list, "; "); c.calls != "" && all != c.calls {
			t.Errorf("%.60s: called\n%s, want\n%s", c.text, all, c.calls)
		}
	}
}

// TestExamples performs the examples of this repository.
func TestExamples(t *testing.T) {
	const input = `{"email":"ada@example.com","id":"o1","items":["a","b"]}`
	for _, c := range []struct {
		file, replace string
		signals       map[time.Duration]string
		want          string
		took          time.Duration
		calls         string
	}{
		{"drip.json", "sendEmail", nil, `{"email"`, 2 * day, `send-welcome echo {"template":"welcome"}; send-follow-up echo {"template":"follow-up"}`},
		{"trial.yaml", "sendEmail", map[time.Duration]string{day: `subscribed {"plan":"gold"}`}, `{"offer":null,"plan":"gold"}`, day,
			`invite echo {"template":"invitation","text":"Your trial ends in 14 days.","to":"ada@example.com"}; thank echo {"plan":"gold","template":"thanks","to":"ada@example.com"}`},
		{"trial.yaml", "sendEmail", map[time.Duration]string{15 * day: `agree {"decision":"edited","editedContent":"10 % off"}`}, `{"offer":"10 % off","plan":"none"}`, 15 * day,
			`invite echo {"template":"invitation","text":"Your trial ends in 14 days.","to":"ada@example.com"}; offer echo {"template":"offer","text":"10 % off","to":"ada@example.com"}`},
		{"trial.yaml", "sendEmail", nil, "nobody decided within 7d", 21 * day, ""},
		{"order.yaml", "handler: ship", nil, `{"order":"o1","reservations":[{"item":"a","order":"o1"},{"item":"b","order":"o1"}]}`, 2 * time.Hour, ""},
		{"order.yaml", "", nil, "broken by", 2 * time.Hour, ""},
		{"rate-limited.json", "callApi", nil, "null", 30 * time.Second, `call-api echo ` + input + `; next-call echo null`},
	} {
		b, err := os.ReadFile("../../examples/definitions/" + c.file)
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		for _, name := range []string{"sendEmail", "callApi", "reserve", "release", "refund"} {
			text = strings.NewReplacer("handler: "+name, "handler: echo", `"`+name+`"`, `"echo"`).Replace(text)
		}
		text = strings.ReplaceAll(text, "handler: charge", "handler: count")
		if to := "handler: echo"; c.replace == "" {
			text = strings.ReplaceAll(text, "handler: ship", "handler: fail")
		} else {
			text = strings.ReplaceAll(text, "handler: ship", to)
		}
		got, took, calls, _ := do(t, text, input, c.signals)
		all := strings.Join(calls.list, "; ")
		if !strings.Contains(got, c.want) || took != c.took || c.calls != "" && all != c.calls {
			t.Errorf("%s: %s in %v, want %s in %v\n%s", c.file, got, took, c.want, c.took, all)
		}
		if c.replace == "" && !strings.Contains(all, `refund echo {"because":"step \"ship\" failed`) {
			t.Error(all)
		}
	}
}

// TestStevora performs Stevora's published examples.
func TestStevora(t *testing.T) {
	for text, want := range map[string]time.Duration{
		`{"name":"x","steps":[{"type":"wait","name":"cool-down-period","durationMs":1800000}]}`:                       30 * time.Minute,
		`{"name":"x","steps":[{"type":"wait","name":"wait-for-launch","untilTimestamp":"2000-04-15T09:00:00.000Z"}]}`: time.Date(2000, 4, 15, 9, 0, 0, 0, time.UTC).Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)),
	} {
		if got, took, _, _ := do(t, text, "", nil); took != want || got != "{}" {
			t.Error(got, took)
		}
	}
}

// TestNumbersPass passes numbers through a definition, from its input through a step to its output. They stay the
// same. The run fails if it would have to compute with a number that does not fit.
func TestNumbersPass(t *testing.T) {
	const numbers = `[9007199254740993,-9223372036854775808,18446744073709551615,1e400,0.1000000000000000055511151231257827]`
	for expression, want := range map[string]string{"steps.a.output.v": numbers, "input[0] + 1": "9007199254740994", `string(input[2])`: `"18446744073709551615"`,
		"input[1] - 1": "does not fit into 64 bits", "input[2] > 1": "cannot be computed with"} {
		got, _, _, _ := do(t, `{name: x, result: '${`+expression+`}', steps: [{name: a, type: set, values: {v: '${input}'}}, {name: b, type: set, values: {v: '${`+
			expression+`}'}}]}`, numbers, nil)
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, not %s", expression, got, want)
		}
	}
}
