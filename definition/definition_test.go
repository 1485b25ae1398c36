package definition_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/wfhost/wfhost/definition"
	"github.com/wfhost/wfhost/definition/schema"
	"github.com/wfhost/wfhost/definition/yamltext"
)

// full is a list with every field of every type of step, and fullGraph a graph.
const full = `
$schema: definition.schema.json
name: full
version: "1"
description: all of it
input_schema: {type: object}
output_schema: true
timeout: 30d
retry: {attempts: 5, delay: 1s, backoff: linear, factor: 3, max_delay: 1h, jitter: 0.5, max_elapsed: 1d}
vars: {who: "${input.name}", at: 1}
steps:
  - {name: task, type: task, description: d, handler: h, config: {a: ["${vars.who}", "Dear ${vars.who}!", 1, null, true]}, retry: {maxAttempts: 3,
     backoffMs: 100, backoffMultiplier: 2, maxBackoffMs: 1000, jitter: true}, timeout: 10s, skip_if: input.none, optional: true,
     on_failure: repair, compensate: undo, next: http}
  - {name: http, type: http, method: POST, url: "https://${vars.who}", headers: {X: "1", Y: ["2", "3"]}, body: {a: 1}, accept: [404], timeoutMs: 10,
     retry: {attempts: 1, jitter: false}}
  - {name: ms, type: wait, durationMs: 1800000}
  - {name: expr, type: wait, durationMs: "${input.ms}"}
  - {name: until, type: wait, untilTimestamp: 2026-04-15T09:00:00.000Z}
  - {name: both, type: sleep, duration: 1d, until: "${input.at}"}
  - {name: cron, type: wait, cron: 0 9 * * MON-FRI, zone: Europe/Berlin}
  - {name: choose, type: condition, if: user.active, then: event, else: end}
  - {name: event, type: external_event, signalType: paid, timeoutMs: 1000, where: event.id == input.id, on_timeout: continue, schema: {type: object}}
  - {name: event2, type: event, signal: paid, timeout: 1h}
  - {name: approval, type: approval, contentKey: draft, prompt: "Send ${state.draft}?", timeout: 7d, signal: ok, on_rejected: continue}
  - {name: approval2, type: approval, config: {a: 1}, timeoutMs: 5, content_key: x}
  - {name: fan, type: map, items: "${input.list}", handler: h, config: {i: "${index}", item: "${item}"}, max_items: 10, max_parallel: 2, timeout: 1s, retry: {attempts: 2}}
  - {name: fan2, type: map, items: [1, 2], workflow: other, input: "${item}"}
  - {name: loop, type: loop, handler: h, config: {last: "${output}", n: "${iteration}"}, until: output.done, max_iterations: 5, max_duration: 1h,
     loop_delay: 1s, timeout: 1s, retry: {attempts: 2}}
  - {name: child, type: workflow, workflow: other, config: 1, detach: true, timeout: 1d}
  - {name: set, type: set, values: {a: 1}}
  - {name: emit, type: emit, value: "${state}", topic: news}
  - {name: stop, type: condition, condition: input.n > 3, trueStep: fail, falseStep: end}
  - {name: fail, type: fail, message: "no ${input.n}"}
  - {name: repair, handler: h, config: "${error.message}"}
  - {name: undo, handler: h}
result: {a: "${steps.task.output}"}
`

const fullGraph = `
name: full-graph
max_parallel: 3
nodes:
  - {name: a, handler: h}
  - {name: b, type: wait, duration: 1s, after: a}
  - {name: c, handler: h, after: [a, b], config: "${steps.a.output}", skip_if: "${steps.a.output.done}", optional: true, on_failure: d, compensate: e}
  - {name: d, handler: h, config: "${steps.a.output}"}
  - {name: e, handler: h}
`

const fullDag = `
$schema: x
name: full-dag
version: "1.0"
default_retry: {max_attempts: 3, strategy: exponential, initial_delay: 1s, max_delay: 10000000000, multiplier: 2}
concurrency: {max_steps: 4}
timeout: 1h
input_schema: {}
output_schema: {}
steps:
  - {id: a, task: t, type: normal, depends_on: [], retries: 2, timeout: 10000000000, metadata: {k: v}, on_failure: f, compensate: g}
  - {id: b, type: sleep, depends_on: [a], config: {duration: 30s}, skip_if: {step_id: a, field: done, op: ">=", value: 3}}
  - {id: c, type: sleep, depends_on: [a], config: {cron: "0 9 * * *"}}
  - {id: d, type: sleep, depends_on: [a], config: {until_input_path: order.deadline}}
  - {id: long, type: sleep, depends_on: [a], config: {duration: 744h}}
  - {id: e, type: wait_for_event, depends_on: [a], config: {event: paid, timeout: 1h, match: {left: order.id, op: eq, right: step.a.output.id}}}
  - {id: e2, type: wait_for_event, depends_on: [a], config: {event: paid, timeout: 1h, match: {left: id, op: eq, right: input.order.id}}}
  - {id: h, type: approval, depends_on: [e], config: {timeout: 24h, subject: approvals.deploy, description: ok?, metadata: {k: v}}}
  - {id: i, task: t, type: map, depends_on: [a], config: {max_items: 10}}
  - {id: j, task: t, type: agent_loop, loop: {max_iterations: 10, loop_delay: 1000000000, max_duration: 1h, budget_warn_at: 5, budget_force_at: 9}}
  - {id: k, type: sub_workflow, config: {workflow: other, detach: true}, skip_if: {step_id: a, field: x, op: "==", value: "y"}, depends_on: [a]}
  - {id: l, type: respond, depends_on: [a, b], config: {status: 201, headers: {X: "1"}, content_type: text/plain, body_from: a.id}}
  - {id: m, type: respond, skip_if: {step_id: a, field: x, op: "!=", value: true}, depends_on: [a], retry: {max_attempts: 0, strategy: fixed, initial_delay: 0}}
  - {id: n, type: respond, skip_if: {step_id: a, field: x, op: "<", value: true}, depends_on: [a]}
  - {id: f, task: t}
  - {id: g, task: t}
`

func TestFields(t *testing.T) {
	d, faults := parse(full)
	if faults != nil {
		t.Fatal(faults)
	}
	task := d.Step("task")
	if r := task.Retry; r.Attempts != 3 || r.DelayMs != 100 || r.MaxDelayMs != 1000 || r.Jitter != 0.5 || r.Factor != 2 {
		t.Errorf("%+v", r)
	}
	if r := d.Step("fan2").Retry; r.Attempts != 5 || r.Backoff != "linear" || r.MaxElapsedMs != 24*3600*1000 || r.Jitter != 0.5 {
		t.Errorf("%+v", r)
	}
	if h := strings.Join(d.Handlers(), " "); h != "h http" || task.Handler != "host/h" {
		t.Error(h)
	}
	if !d.Step("repair").Auxiliary || !d.Step("undo").Auxiliary || d.Step("fail").Auxiliary || d.Step("nobody") != nil {
		t.Error("auxiliary steps")
	}
	d, faults = parse(fullGraph)
	if faults != nil {
		t.Fatal(faults)
	}
	if got := strings.Join(d.Last(), " "); got != "c" || d.MaxParallel != 3 || !d.Before(d.Step("a"), d.Step("c")) || d.Before(d.Step("c"), d.Step("b")) {
		t.Error(got, d.MaxParallel)
	}
	d, faults = parse(fullDag)
	if faults != nil {
		t.Fatal(faults)
	}
	if r := d.Step("a").Retry; r.Attempts != 3 || r.DelayMs != 1000 || r.MaxDelayMs != 10_000 || d.Step("a").TimeoutMs != 10_000 || d.Step("m").Retry.Attempts != 1 {
		t.Errorf("%+v", r)
	}
	if len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0].Message, "longer than 30 days: 31d") {
		t.Error(d.Warnings)
	}
}

// TestMermaid draws each form.
func TestMermaid(t *testing.T) {
	for text, want := range map[string][]string{
		full: {"n7{\"choose<br/>condition\"}", "n7 -->|yes| n8", "n7 -->|no| finish([end])", "n0 --> n1", "n0 -.->|fails| n20", "n0 -.->|undone by| n21",
			"n2([\"ms<br/>wait\"])", "n14[[\"loop"},
		fullGraph:                            {"n0 --> n1", "n0 --> n2", "n1 --> n2", "n2 -.->|fails| n3"},
		fullDag:                              {"n0 --> n1", "n5 --> n7"},
		list(`{name: 'a"<b>&', handler: h}`): {"a#quot;&lt;b&gt;&amp;<br/>task"},
	} {
		d, faults := parse(text)
		if faults != nil {
			t.Fatal(faults)
		}
		got := d.Mermaid()
		for _, line := range want {
			if !strings.Contains(got, line) {
				t.Errorf("%s\nlacks %s", got, line)
			}
		}
	}
}

// TestJSON encodes and parses values, and checks the position in the error for a bad text.
func TestJSON(t *testing.T) {
	const text = `{"a":[1,-2.5e3,"x<\u00e9\n\"",null,true,false,{}],"b/~":{"c":[]}}`
	n, err := definition.ReadJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(n.JSON()); got != strings.Replace(text, `\u00e9`, "é", 1) {
		t.Error(got)
	}
	if p := n.Members[1].Value.Members[0].Value.Pointer(); p != "/b~1~0/c" {
		t.Error(p)
	}
	b, err := json.Marshal(n.Value())
	if err != nil || string(b) != `{"a":[1,-2500,"x\u003cé\n\"",null,true,false,{}],"b/~":{"c":[]}}` {
		t.Error(string(b), err)
	}
	for text, want := range map[string]string{
		"":                        "line 1: the definition: the definition is empty",
		"\xff":                    "not UTF-8",
		"{":                       "it ends too early",
		"{\n\"a\":\n  [1,\n  x]}": "line 4: /a/1: it is not JSON: invalid character 'x'",
		"{} {}":                   "more after",
		"{\"a\":1,\n\"a\":2}":     `line 2: /a: the field "a" is there twice`,
		"{1:2}":                   "not JSON",
		strings.Repeat("[", 200):  "levels deep",
		`"` + strings.Repeat("x", definition.MaxBytes) + `"`: "131074 bytes, the limit is 131072",
	} {
		if _, err := definition.ReadJSON([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.50q: %v, want %s", text, err, want)
		}
	}
	_, err = definition.ParseJSON([]byte(`{"name":"x","steps":[{"name":"a","type":"set","values":{"x":1e999}}]}`))
	if err == nil || !strings.Contains(err.Error(), "/steps/0/values/x: the number 1e999 is too large") {
		t.Error(err)
	}
	_, err = definition.ParseJSON([]byte("{"))
	if err == nil {
		t.Error("half an object is a definition")
	}
	if f := definition.AsFaults(os.ErrNotExist); len(f) != 1 || f[0].Message != os.ErrNotExist.Error() {
		t.Error(f)
	}
}

// TestTemplates evaluates texts with expressions.
func TestTemplates(t *testing.T) {
	env := map[string]any{"input": map[string]any{"n": 3, "s": "x", "l": []any{1, 2}, "z": nil}}
	for text, want := range map[string]string{
		`${input.n}`: "3", `a${input.n}b`: `"a3b"`, `${input.l}!`: `"[1,2]!"`, `${input.z}`: "null", `-${input.z}-`: `"--"`,
		`$${input.n}`: `"${input.n}"`, `$${${input.n}`: `"${3"`, `${input.n}${input.s}`: `"3x"`, `${ {"a": "}"}.a }`: `"}"`,
		`${"\"}"}`: `"\"}"`, `$ {x}`: `"$ {x}"`, `a $`: `"a $"`, "${`}`}": `"}"`, `$$`: `"$$"`, `${input.n} $${x}`: `"3 ${x}"`,
	} {
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		d, faults := parse(`{"name": "x", "vars": {"v": ` + string(quoted) + `, "l": [` + string(quoted) + `]}, "steps": [` + ok + `]}`)
		if faults != nil {
			t.Errorf("%s: %v", text, faults)
			continue
		}
		for i, want := range []string{want, "[" + want + "]"} {
			v, err := d.Vars[i].Value.Eval(env)
			if b, _ := json.Marshal(v); err != nil || string(b) != want {
				t.Errorf("%s: %s %v, want %s", text, b, err, want)
			}
		}
	}
	for text, want := range map[string]string{`${input.n.x.y}`: "cannot", `a${input.s + 1}`: "string + int", `a${1 / 0}`: "Inf", `a${[1/0]}`: "Inf"} {
		d, faults := parse(`{name: x, vars: {v: ['` + text + `']}, steps: [` + ok + `]}`)
		if faults != nil {
			t.Fatal(faults)
		}
		if v, err := d.Vars[0].Value.Eval(env); err == nil {
			t.Errorf("%s: %v, want %s", text, v, want)
		}
	}
}

// TestSchema compares the schema with the parser: both accept the same texts and know the same fields.
func TestSchema(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(schema.Text)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("definition.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("definition.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{"full": full, "graph": fullGraph, "dag": fullDag}
	files, err := filepath.Glob("../examples/definitions/*.[jy]*")
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		texts[f] = string(b)
	}
	for name, text := range texts {
		n, err := yamltext.Read([]byte(text))
		if err != nil {
			t.Fatal(name, err)
		}
		if _, err := definition.Parse(n); err != nil {
			t.Error(name, err)
		}
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(n.JSON())))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{step("handler: h, confg: 1"), step("type: wait, duration: 5"), graph("{name: a, handler: h, next: end}"), "{name: x}",
		dag("task: t, handler: h"), dag("type: sleep, config: {seconds: 3}"), step("handler: h, retry: {tries: 3}")} {
		n, err := yamltext.Read([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		v, _ := jsonschema.UnmarshalJSON(strings.NewReader(string(n.JSON())))
		if s.Validate(v) == nil {
			t.Errorf("the schema takes %s", text)
		}
	}
}

// FuzzDefinition reads texts as JSON and as YAML: nothing panics, a definition survives a round trip, and each fault
// has a position.
func FuzzDefinition(f *testing.F) {
	for _, s := range []string{full, fullGraph, fullDag, `{"name":"x","steps":[]}`, "a: &a [*a]", "a: &a [1]\nb: [*a, *a]", "name: x\nsteps:\n- {name: a, id: b}",
		list(ok), step("type: wait, duration: '${1'"), "[", "{a: !!binary x}", "? [a]\n: b", "<<: {a: 1}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		n, err := yamltext.Read(text)
		if _, bad := definition.ReadJSON(text); bad == nil && err == nil {
			n, err = definition.ReadJSON(text)
		}
		if err != nil {
			for _, fault := range definition.AsFaults(err) {
				if fault.Line < 1 || fault.Message == "" {
					t.Errorf("%+v", fault)
				}
			}
			return
		}
		again, err := definition.ReadJSON(n.JSON())
		if len(n.JSON()) <= definition.MaxBytes && (err != nil || string(again.JSON()) != string(n.JSON())) {
			t.Fatalf("%s is read as %v %v", n.JSON(), again, err)
		}
		d, err := definition.Parse(n)
		if err != nil {
			for _, fault := range definition.AsFaults(err) {
				if fault.Line < 1 || fault.Message == "" {
					t.Errorf("%+v", fault)
				}
			}
			return
		}
		_ = d.Mermaid()
	})
}
