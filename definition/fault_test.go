package definition_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/definition"
	"github.com/wfhost/wfhost/definition/yamltext"
)

// parse reads a definition in YAML and returns its faults.
func parse(text string) (*definition.Definition, definition.Faults) {
	n, err := yamltext.Read([]byte(text))
	if err != nil {
		return nil, definition.AsFaults(err)
	}
	d, err := definition.Parse(n)
	if err != nil {
		return nil, definition.AsFaults(err)
	}
	return d, nil
}

// list, graph and dag make definitions with the given steps.
func list(steps ...string) string  { return "{name: x, steps: [" + strings.Join(steps, ", ") + "]}" }
func graph(nodes ...string) string { return "{name: x, nodes: [" + strings.Join(nodes, ", ") + "]}" }
func dag(fields string) string {
	return "{name: x, version: '1', steps: [{id: a, task: t}, {id: b, depends_on: [a], " + fields + "}]}"
}
func step(fields string) string { return list("{name: a, " + fields + "}") }

const ok = "{name: z, type: set, values: {}}"

// TestFaults lists texts with the pointer of their only fault and a part of its sentence.
func TestFaults(t *testing.T) {
	long := strings.Repeat("n", 101)
	for _, c := range []struct{ text, pointer, part string }{
		{"", "", "empty"},
		{"[1]", "", "must be an object, got a list"},
		{"{name: x}", "", "needs steps"},
		{"{name: x, steps: [" + ok + "], nodes: [" + ok + "]}", "/nodes", "both"},
		{"{steps: [" + ok + "]}", "", "needs a name"},
		{"{name: 7, steps: [" + ok + "]}", "/name", "must be a text, got a number"},
		{"{name: 'a b', steps: [" + ok + "]}", "/name", "workflow name"},
		{"{name: x, version: 7, steps: [" + ok + "]}", "/version", "must be a text"},
		{"{name: x, version: " + long + ", steps: [" + ok + "]}", "/version", "has 101 characters, the limit is 50"},
		{"{name: x, stepz: [], steps: [" + ok + "]}", "/stepz", `the field "stepz" is unknown; known are $schema, description`},
		{"{name: x, steps: {}}", "/steps", "must be a list"},
		{"{name: x, steps: []}", "/steps", "one step at least"},
		{"{name: x, steps: [" + strings.Repeat("1,", 1001) + "]}", "/steps", "1001 steps, the limit is 1000"},
		{"{name: x, steps: [1]}", "/steps/0", "a step must be an object, got a number"},
		{"{name: x, input_schema: 7, steps: [" + ok + "]}", "/input_schema", "JSON Schema"},
		{"{name: x, input_schema: {}, inputSchema: {}, steps: [" + ok + "]}", "/inputSchema", "says the same"},
		{"{name: x, vars: [], steps: [" + ok + "]}", "/vars", "must be an object"},
		{"{name: x, vars: {a: '${steps.z}'}, steps: [" + ok + "]}", "/vars/a", "unknown name steps"},
		{"{name: x, timeout: soon, steps: [" + ok + "]}", "/timeout", "invalid duration"},
		{"{name: x, timeout: 20000d, steps: [" + ok + "]}", "/timeout", "must be from 1ms to 3653d"},
		{"{name: x, max_parallel: 1, steps: [" + ok + "]}", "/max_parallel", "unknown"},
		{"{name: x, max_parallel: 1.5, nodes: [" + ok + "]}", "/max_parallel", "whole number from 1 to 100, got 1.5"},
		{"{name: x, result: '${steps.q}', steps: [" + ok + "]}", "/result", `reads the step "q", which does not exist`},
		{"{name: x, result: .inf, steps: [" + ok + "]}", "/result", "none of JSON"},
		{"{name: x, name: y, steps: [" + ok + "]}", "/name", "is there twice"},
		// Names.
		{list("{type: wait, duration: 1s}"), "/steps/0", "needs a name"},
		{list("{name: '', type: wait, duration: 1s}"), "/steps/0/name", "1 to 100 characters, got 0"},
		{list("{name: " + long + ", type: wait, duration: 1s}"), "/steps/0/name", "1 to 100 characters, got 101"},
		{list("{name: " + strings.Repeat("é", 101) + ", type: wait, duration: 1s}"), "/steps/0/name", "got 101"},
		{list("{name: " + strings.Repeat("日", 100) + ", type: wait, duration: 1s}"), "/steps/0/name", "300 bytes, the limit is 200"},
		{list("{name: \"a\\n\", type: wait, duration: 1s}"), "/steps/0/name", "control"},
		{list("{name: wasi/x, type: wait, duration: 1s}"), "/steps/0/name", "wasi/"},
		{list(ok, ok), "/steps/1", `the name "z" is that of the step at line 1`},
		{list("{name: end, type: wait, duration: 1s}"), "/steps/0", `not called "end"`},
		// Types.
		{step("type: nap"), "/steps/0/type", `the type "nap" is unknown; known are approval, condition`},
		{step("type: 7"), "/steps/0/type", "must be a text"},
		{step("type: llm"), "/steps/0/type", "register a handler"},
		{step("type: planner"), "/steps/0/type", "start a workflow"},
		// Tasks.
		{step("type: task"), "/steps/0", "a task needs a handler"},
		{step("handler: [h]"), "/steps/0/handler", "must be a text"},
		{step("handler: ''"), "/steps/0/handler", "handler name"},
		{step("handler: h, durationMs: 5"), "/steps/0/durationMs", `the field "durationMs" is unknown`},
		{step("handler: h, config: '${input.'"), "/steps/0/config", "has no end"},
		{step("handler: h, config: {to: ['${nobody}']}"), "/steps/0/config/to/0", "unknown name nobody"},
		{step("handler: h, config: '${steps.later.output}'"), "/steps/0/config", `"later", which does not exist`},
		{list("{name: a, handler: h, config: '${steps.z.output}'}", ok), "/steps/0/config", "does not always come before"},
		{step("handler: h, timeout: 0s"), "/steps/0/timeout", "from 1ms"},
		{step("handler: h, timeout: 1s, timeoutMs: 5"), "/steps/0/timeoutMs", "says the same"},
		{step("handler: h, optional: 1"), "/steps/0/optional", "must be a boolean"},
		{step("handler: h, skip_if: 1"), "/steps/0/skip_if", "must be a text"},
		{step("handler: h, skip_if: '1 +'"), "/steps/0/skip_if", "unexpected token EOF (line 1, column 3)"},
		// Retries.
		{step("handler: h, retry: 3"), "/steps/0/retry", "must be an object"},
		{step("handler: h, retry: {attempts: 0}"), "/steps/0/retry/attempts", "from 1 to 1000"},
		{step("handler: h, retry: {maxAttempts: 21}"), "/steps/0/retry/maxAttempts", "from 1 to 20"},
		{step("handler: h, retry: {backoff: slow}"), "/steps/0/retry/backoff", "one of fixed, linear, exponential"},
		{step("handler: h, retry: {factor: 0.5}"), "/steps/0/retry/factor", "from 1 to 1000"},
		{step("handler: h, retry: {jitter: 2}"), "/steps/0/retry/jitter", "from 0 to 1"},
		{step("handler: h, retry: {delay: 1s, backoffMs: 5}"), "/steps/0/retry/backoffMs", "says the same"},
		{step("handler: h, retry: {tries: 3}"), "/steps/0/retry/tries", "unknown"},
		// Requests.
		{step("type: http"), "/steps/0", "needs a url"},
		{step("type: http, url: x, header: {}"), "/steps/0/header", "unknown"},
		// Waits.
		{step("type: wait"), "/steps/0", "needs one of duration, durationMs, until, untilTimestamp and cron"},
		{step("type: wait, duration: 5"), "/steps/0/duration", "must be a text, got a number"},
		{step("type: wait, duration: 1x"), "/steps/0/duration", "invalid duration"},
		{step("type: wait, duration: 3654d"), "/steps/0/duration", "got 3654d"},
		{step("type: wait, duration: 1s, durationMs: 1"), "/steps/0/durationMs", "says the same"},
		{step("type: wait, durationMs: -1"), "/steps/0/durationMs", "from 0"},
		{step("type: wait, durationMs: 400000000000"), "/steps/0/durationMs", "to 3.156192e+11"},
		{step("type: wait, durationMs: '5'"), "/steps/0/durationMs", "number, or an expression"},
		{step("type: wait, until: tomorrow"), "/steps/0/until", "invalid instant"},
		{step("type: wait, until: 2026-01-05T09:00:00Z, untilTimestamp: 2026-01-05T09:00:00Z"), "/steps/0/untilTimestamp", "says the same"},
		{step("type: wait, cron: often"), "/steps/0/cron", "expression"},
		{step("type: wait, cron: '0 9 * * *', zone: Nowhere"), "/steps/0/cron", "time zone"},
		{step("type: wait, duration: 1s, zone: Europe/Berlin"), "/steps/0/zone", "there is none"},
		// Conditions.
		{step("type: condition"), "/steps/0", "needs an expression"},
		{step("type: condition, if: true"), "/steps/0/if", "must be a text"},
		{step("type: condition, if: a.b, then: nobody"), "/steps/0/then", `no step "nobody"`},
		{list(ok, "{name: a, type: condition, if: a.b, trueStep: z}"), "/steps/1/trueStep", "leads back"},
		{step("type: condition, if: a.b, optional: true"), "/steps/0/optional", "unknown"},
		{graph("{name: a, type: condition, if: a.b}"), "/nodes/0", "a graph has no conditions"},
		{list("{name: a, type: condition, if: x, else: f}", "{name: b, handler: h, on_failure: f}", "{name: f, handler: h}"), "/steps/0/else", "only when another step fails"},
		// Events and approvals.
		{step("type: event, signal: ''"), "/steps/0/signal", "1 to 100"},
		{step("type: event, where: 'evnt.x'"), "/steps/0/where", "unknown name evnt"},
		{step("type: event, timeoutMs: 0"), "/steps/0/timeoutMs", "from 1"},
		{step("type: event, on_timeout: ignore"), "/steps/0/on_timeout", "one of fail, continue"},
		{step("type: event, schema: x"), "/steps/0/schema", "JSON Schema"},
		{step("type: approval, prompt: 7"), "/steps/0/prompt", "must be a text"},
		{graph("{name: a, type: approval, contentKey: x}"), "/nodes/0/contentKey", "no state"},
		// Maps, loops, workflows and the rest.
		{step("type: map, items: '${input}'"), "/steps/0", "needs a handler, or a workflow"},
		{step("type: map, handler: h"), "/steps/0", "needs items"},
		{step("type: map, handler: h, items: 5"), "/steps/0/items", "items should be a list, or an expression of one"},
		{step("type: map, handler: h, items: input.list"), "/steps/0/items", "and is a text"},
		{step("type: map, handler: h, items: [1], max_items: 1001"), "/steps/0/max_items", "from 1 to 1000"},
		{step("type: map, handler: h, items: [1], max_parallel: 0"), "/steps/0/max_parallel", "from 1"},
		{step("type: loop, handler: h"), "/steps/0", "needs a bound"},
		{step("type: loop, max_iterations: 3"), "/steps/0", "needs a handler"},
		{step("type: loop, handler: h, max_iterations: 3, until: '${output'"), "/steps/0/until", "the expression"},
		{step("type: workflow"), "/steps/0", "needs the name of a workflow"},
		{step("type: workflow, workflow: 'a b'"), "/steps/0/workflow", "workflow name"},
		{step("type: set"), "/steps/0", "needs values"},
		{step("type: set, values: 7"), "/steps/0/values", "must be an object"},
		{step("type: emit"), "/steps/0", "needs value"},
		{step("type: fail, message: {}"), "/steps/0/message", "must be a text"},
		// What steps say of each other.
		{step("handler: h, on_failure: b"), "/steps/0/on_failure", `no step "b"`},
		{step("handler: h, compensate: a"), "/steps/0/compensate", "names itself"},
		{step("handler: h, next: a"), "/steps/0/next", "leads back"},
		{step("handler: h, after: [b]"), "/steps/0/after", "unknown"},
		{graph("{name: a, handler: h, next: end}"), "/nodes/0/next", "unknown"},
		{graph("{name: a, handler: h, after: [b]}"), "/nodes/0", `after: there is no step "b"`},
		{graph("{name: a, handler: h, after: [1]}"), "/nodes/0/after/0", "must be a text"},
		{graph("{name: a, handler: h, after: [z, z]}", ok), "/nodes/0/after/1", "twice"},
		{graph("{name: a, handler: h, after: [a]}"), "/nodes/0", "wait for each other: a after a"},
		{graph("{name: a, handler: h, after: [c]}", "{name: b, handler: h, after: a}", "{name: c, handler: h, after: [b]}"), "/nodes/0", "a after c after b after a"},
		{graph("{name: a, handler: h, on_failure: f}", "{name: f, handler: h, after: [z]}", ok), "/nodes/0/on_failure", "it has no after"},
		{graph("{name: a, handler: h, on_failure: f}", "{name: f, handler: h}", "{name: c, handler: h, after: [f]}"), "/nodes/2", "nothing comes after"},
		{graph("{name: a, handler: h, compensate: f}", "{name: f, handler: h, on_failure: z}", ok), "/nodes/0/compensate", "of its own"},
		{graph("{name: a, handler: h, config: '${steps.b.output}'}", "{name: b, handler: h}"), "/nodes/0/config", "does not always come before"},
		{list("{name: a, handler: h, on_failure: f}", "{name: f, handler: h}", "{name: c, handler: h, config: '${steps.f.output}'}"), "/steps/2/config", "that it recovers"},
		{"{name: x, result: '${steps.f.output}', steps: [{name: a, handler: h, on_failure: f}, {name: f, handler: h}]}", "/result", "that it recovers"},
		// A null field counts as absent.
		{list("{name: null, handler: h}"), "/steps/0", "needs a name"},
		{step("handler: null"), "/steps/0", "needs a handler"},
		{step("type: wait, cron: null"), "/steps/0", "needs one of"},
		{step("type: loop, handler: h, max_iterations: null"), "/steps/0", "needs a bound"},
		{step("handler: h, retry: {attempts: 5, maxAttempts: 3}"), "/steps/0/retry/maxAttempts", "says the same"},
		// Signals that two steps could receive from each other.
		{list("{name: a, type: approval, signal: s}", "{name: b, type: approval, signal: s}"), "/steps/1", `is that of the step "a", too`},
		{list("{name: a, type: event, signal: b}", "{name: b, type: approval}"), "/steps/1", "would count for the other"},
		{"name: x\nsteps: [{name: a, handler: h, config: \"" + strings.Repeat(`\L`, 30000) + "\"}]", "", "bytes as JSON, the limit is 131072"},
		// DagNats.
		{"{name: x, version: '1', steps: [{id: a, task: t}], triggers: []}", "/triggers", "make a schedule"},
		{"{name: x, version: '1', steps: [{id: a, task: t}], concurrency: {max_runs: 3}}", "/concurrency/max_runs", "not said by a definition"},
		{"{name: x, version: '1', steps: [{id: a, task: t}], sticky: soft}", "/sticky", "not supported"},
		{"{name: x, version: '1', steps: [{id: a, task: t}, {task: t}]}", "/steps/1", "needs an id"},
		{dag("type: normal"), "/steps/1", "needs a task"},
		{dag("task: t, worker_group: gpu"), "/steps/1/worker_group", "not supported"},
		{dag("task: t, name: b"), "/steps/1/name", "unknown"},
		{dag("task: t, timeout: -5"), "/steps/1/timeout", "nanoseconds"},
		{dag("task: t, retry: {max_attempts: 3, strategy: random}"), "/steps/1/retry/strategy", "one of fixed"},
		{dag("task: t, type: agent"), "/steps/1/type", "not ours"},
		{dag("task: t, type: condition"), "/steps/1", "DagNats has no steps of type condition"},
		{dag("type: sleep"), "/steps/1", "exactly one of duration, cron and until_input_path, got 0"},
		{dag("type: sleep, config: {duration: 30s, cron: '0 9 * * *'}"), "/steps/1/config", "got 2"},
		{dag("type: sleep, config: {duration: 8761h}"), "/steps/1/config/duration", "to 365d"},
		{dag("type: sleep, config: {duration: 0s}"), "/steps/1/config/duration", "longer than 0"},
		{dag("type: sleep, config: {cron: never}"), "/steps/1/config/cron", "expression"},
		{dag("type: sleep, config: {until_input_path: 'a b'}"), "/steps/1/config/until_input_path", "path such as"},
		{dag("type: sleep, config: {durations: 30s}"), "/steps/1/config", "got 0"},
		{dag("task: t, type: agent_loop"), "/steps/1", "needs a bound"},
		{dag("type: sub_workflow"), "/steps/1", "workflow: workflow name"},
		{dag("type: approval, config: {subject: s}"), "/steps/1/config", "timeout of more than 0"},
		{dag("type: approval, config: {subject: s, timeout: 169h}"), "/steps/1/config/timeout", "to 7d"},
		{dag("type: approval, config: {timeout: 1h}"), "/steps/1/config", "needs a subject"},
		{dag("type: wait_for_event, config: {event: e, timeout: 1h}"), "/steps/1/config", "needs a match"},
		{dag("type: wait_for_event, config: {event: e, timeout: 1h, match: {left: a, op: ne, right: input.a}}"), "/steps/1/config/match/op", "one of eq"},
		{dag("type: wait_for_event, config: {event: e, timeout: 1h, match: {left: a, op: eq, right: b}}"), "/steps/1/config/match", "begin with input."},
		{dag("type: wait_for_event, config: {event: e, timeout: 1h, match: {left: 'a b', op: eq, right: input.b}}"), "/steps/1/config/match", "left must be a path"},
		{dag("type: wait_for_event, config: {event: e, timeout: 1h, match: {left: a, op: eq, right: step.c.output.x}}"), "/steps/1/config/match", `step "c", which does not exist`},
		{dag("type: wait_for_event, config: {timeout: 1h, match: {left: a, op: eq, right: input.x}}"), "/steps/1/config", "name of an event"},
		{dag("type: wait_for_event, config: {event: e, match: {left: a, op: eq, right: input.x}}"), "/steps/1/config", "timeout of more than 0"},
		{dag("type: respond, config: {status: 99}"), "/steps/1/config/status", "from 100"},
		{dag("type: respond, config: {body_from: 'a b'}"), "/steps/1/config/body_from", "must be a path"},
		{dag("task: t, skip_if: {step_id: a, field: x, op: '~', value: 1}"), "/steps/1/skip_if/op", "one of =="},
		{dag("task: t, skip_if: {step_id: a, field: x, op: '=='}"), "/steps/1/skip_if", "needs a value"},
		{dag("task: t, skip_if: {step_id: a, field: x, op: '==', value: []}"), "/steps/1/skip_if/value", "must be a text, a number or a boolean"},
		{dag("task: t, skip_if: {step_id: q, field: x, op: '==', value: 1}"), "/steps/1/skip_if", "does not exist"},
	} {
		d, faults := parse(c.text)
		if d != nil || len(faults) == 0 {
			t.Errorf("%s: no fault", c.text)
			continue
		}
		var all []string
		found := false
		for _, f := range faults {
			all = append(all, f.Error())
			found = found || f.Pointer == c.pointer && strings.Contains(f.Message, c.part)
		}
		if !found || len(faults) > 2 {
			t.Errorf("%.200s\n got %s\nwant %s: %s", c.text, strings.Join(all, "\n     "), c.pointer, c.part)
		}
	}
}

// TestManyFaults reports all faults together, in the order of the text, with their lines, and at most twenty.
func TestManyFaults(t *testing.T) {
	text := "name: x\nsteps:\n"
	for i := range 30 {
		text += fmt.Sprintf("  - name: s%d\n    type: wait\n    durations: 5\n", i)
	}
	_, faults := parse(text)
	if len(faults) != 20 || faults[0].Line != 3 || faults[1].Pointer != "/steps/0/durations" || faults[1].Line != 5 || faults[3].Line != 8 {
		t.Fatalf("%d faults: %v", len(faults), faults)
	}
	if !strings.HasPrefix(faults.Error(), "line 3: /steps/0: a wait needs") {
		t.Fatal(faults)
	}
}

// TestSharedSignal lets events have the same signal.
func TestSharedSignal(t *testing.T) {
	for _, form := range []func(...string) string{list, graph} {
		text := form("{name: a, type: event, signal: s}", "{name: b, type: event, signal: s}")
		if _, faults := parse(text); faults != nil {
			t.Errorf("%s: %v", text, faults)
		}
	}
}

// TestLongKey reads a key of 60 KB above many values. Storing a pointer for each value would take more than a
// gigabyte.
func TestLongKey(t *testing.T) {
	key := strings.Repeat("k", 60_000)
	text := `{"name":"x","steps":[{"name":"a","handler":"h","config":{"` + key + `":[` + strings.Repeat("1,", 30_000) + `"${nobody}"]}}]}`
	var faults definition.Faults
	allocated := testing.Benchmark(func(b *testing.B) {
		for range b.N {
			_, err := definition.ParseJSON([]byte(text))
			faults = definition.AsFaults(err)
		}
	}).AllocedBytesPerOp()
	if len(faults) != 1 || len(faults[0].Pointer) > 300 || !strings.HasSuffix(faults[0].Pointer, "k…/30000") {
		t.Errorf("%.500v", faults)
	}
	if allocated > 100<<20 {
		t.Errorf("%d bytes are allocated", allocated)
	}
}
