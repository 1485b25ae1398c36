package interpret_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/definition/module"
	"github.com/wfhost/wfhost/definition/yamltext"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// built compiles a definition to a module.
func built(t *testing.T, text string) []byte {
	t.Helper()
	n, err := yamltext.Read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	wasm, err := module.Make(hosttest.Build(t, "../interpreter"), n.JSON())
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// hosted is a host with a definition, and handlers that record their inputs.
type hosted struct {
	*hosttest.Host
	t *testing.T
	calls
}

func newHosted(t *testing.T, text string, opts ...hosttest.Option) *hosted {
	t.Helper()
	h := &hosted{t: t}
	opts = append(opts, hosttest.WithHandlers(func(of *host.Host) {
		for name, fn := range map[string]func(in any) (any, error){
			"echo": func(in any) (any, error) { return in, nil },
			"fail": func(in any) (any, error) { return nil, host.Fatal(fmt.Errorf("broken by %v", in)) },
		} {
			host.HandleStep(of, name, func(ctx context.Context, in any) (any, error) {
				b, _ := json.Marshal(in)
				h.add("%s %s", host.StepInfo(ctx).Name, b)
				return fn(in)
			})
		}
	}))
	h.Host = hosttest.New(t, opts...)
	if _, err := h.UploadAll(t.Context(), "", built(t, text), host.AllowStep("*")); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *hosted) begin(workflow, id, input string) {
	h.t.Helper()
	if _, err := h.StartRaw(h.t.Context(), workflow, []byte(input), host.WithRunID(id)); err != nil {
		h.t.Fatal(err)
	}
	h.Settle()
}

// ends returns the result or the error of a run, and checks that its journal is valid.
func (h *hosted) ends(id string) string {
	h.t.Helper()
	h.Finish(id)
	if err := h.Replay(h.t.Context(), id); err != nil {
		h.t.Error(err)
	}
	b, err := h.ResultRaw(h.t.Context(), id)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func (h *hosted) is(got, want string) {
	h.t.Helper()
	if !strings.Contains(got, want) {
		h.t.Errorf("got %s, want %s", got, want)
	}
}

const order = `
name: order
input_schema: {type: object, required: [id], properties: {id: {type: integer}, days: {type: number}}}
steps:
  - {name: reserve, handler: echo, config: {item: "${input.id}"}, compensate: release}
  - {name: year, type: wait, duration: "${input.days ?? 365}d"}
  - {name: approve, type: approval, prompt: "Ship ${input.id}?", timeout: 7d}
  - {name: paid, type: event, where: event.id == input.id, schema: {type: object, required: [id]}, timeout: 30d}
  - {name: ship, handler: echo, config: "${state}"}
  - {name: release, handler: echo, config: "${error.message}"}
`

// TestOrder sleeps for a year, is killed during the sleep, and gets its decision through a link.
func TestOrder(t *testing.T) {
	h := newHosted(t, order)
	h.begin("order", "a", `{"id":7}`)
	h.Advance(100 * day)
	h.Crash()
	h.Advance(266 * day)
	var ask struct {
		Token, Prompt string
	}
	for c, err := range h.Output(t.Context(), "a", "approval", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(c.Data, &ask); err != nil {
			t.Fatal(err)
		}
	}
	h.is(ask.Prompt, "Ship 7?")
	progress, err := h.Query(t.Context(), "a", "progress", nil)
	if err != nil {
		t.Fatal(err)
	}
	h.is(string(progress), `{"name":"approve","type":"approval","status":"running"},{"name":"paid","type":"event","status":""}`)
	text, err := h.Query(t.Context(), "a", "definition", nil)
	if err != nil {
		t.Fatal(err)
	}
	h.is(string(text), `{"name":"order","input_schema":`)
	if _, err := h.Hooks().Deliver(t.Context(), ask.Token, []byte(`{"decision":"perhaps"}`)); err == nil {
		t.Error("a decision that is none was taken")
	}
	h.Crash()
	if _, err := h.Hooks().Deliver(t.Context(), ask.Token, []byte(`{"decision":"approved"}`)); err != nil {
		t.Fatal(err)
	}
	if err := h.Signal(t.Context(), "a", "paid", map[string]int{"id": 8}); err != nil {
		t.Fatal(err)
	}
	h.Crash()
	if err := h.Signal(t.Context(), "a", "paid", map[string]int{"id": 7}); err != nil {
		t.Fatal(err)
	}
	h.is(h.ends("a"), `{"id":7,"item":7}`)
	if got := strings.Join(h.list, "; "); got != `reserve {"item":7}; ship {"id":7,"item":7}` {
		t.Error(got)
	}
	// Inputs and payloads that do not match the schema are refused.
	var faults *host.SchemaError
	if _, err := h.StartRaw(t.Context(), "order", []byte(`{"id":"x"}`)); !errors.As(err, &faults) || !errors.Is(err, host.ErrInvalid) {
		t.Error(err)
	}
	// A cancelled run, and a run without a decision, compensate their steps.
	h.begin("order", "b", `{"id":8,"days":1}`)
	if _, err := h.Cancel(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	h.is(h.ends("b"), "cancelled")
	h.begin("order", "c", `{"id":9,"days":0.5}`)
	h.is(h.ends("c"), "nobody decided within 7d")
	if got := strings.Join(h.list[2:], "; "); !strings.HasPrefix(got, `reserve {"item":8}; release "step \"year\": cancelled"`) || !strings.HasSuffix(got,
		`reserve {"item":9}; release "step \"approve\": nobody decided within 7d"`) {
		t.Error(got)
	}
}

// TestPublishedWaits performs the waits in Stevora's published examples, unchanged, on a host that crashes in the
// meantime: each wakes at its instant, or at once if that has passed.
func TestPublishedWaits(t *testing.T) {
	h := newHosted(t, `{"name":"published","steps":[
		{"type":"wait","name":"cool-down-period","durationMs":1800000},
		{"type":"wait","name":"wait-for-launch","untilTimestamp":"2026-04-15T09:00:00.000Z"}]}`)
	wakes := func(id string, at time.Time) {
		t.Helper()
		if r, err := h.Get(t.Context(), id); err != nil || r.Status != host.Sleeping || !r.Wake.Equal(at) {
			t.Errorf("%s: %+v, %v, want a wake at %v", id, r, err, at)
		}
	}
	launch := time.Date(2026, 4, 15, 9, 0, 0, 0, time.UTC)
	h.begin("published", "before", `{}`)
	wakes("before", h.Clock.Now().Add(30*time.Minute))
	h.Crash()
	h.Advance(30 * time.Minute)
	wakes("before", launch)
	h.Crash()
	h.is(h.ends("before"), "{}")
	h.begin("published", "after", `{}`)
	h.is(h.ends("after"), "{}")
	for id, at := range map[string]time.Time{"before": launch, "after": launch.Add(30 * time.Minute)} {
		if r, err := h.Get(t.Context(), id); err != nil || !r.Ended.Equal(at) {
			t.Errorf("%s has ended at %v, %v, want %v", id, r.Ended, err, at)
		}
	}
}

const pipeline = `
name: pipeline
nodes:
  - {name: list, type: set, values: {of: "${1..100}"}}
  - {name: fan, type: map, after: list, items: "${steps.list.output.of}", handler: echo, config: "${item * 2}", max_parallel: 20, compensate: undo}
  - {name: cool, type: sleep, after: list, duration: 1h, compensate: undo2}
  - {name: sum, type: set, after: fan, values: {sum: "${sum(steps.fan.output)}"}}
  - {name: child, type: workflow, after: [sum, cool], workflow: pipeline, input: {leaf: true}, skip_if: input.leaf ?? false}
  - {name: last, handler: echo, after: child, config: "${steps.sum.output.sum}", skip_if: input.fails ?? false}
  - {name: broken, handler: fail, after: child, skip_if: not (input.fails ?? false)}
  - {name: undo, handler: echo, config: "${len(steps.fan.output)}"}
  - {name: undo2, handler: echo, config: cool}
result: "${steps.last.output}"
`

// TestPipeline performs a graph with a fan-out of a hundred and a child. The host crashes at each of the first
// commits.
func TestPipeline(t *testing.T) {
	h := newHosted(t, pipeline)
	for n := range 12 {
		id := fmt.Sprint("r", n)
		h.CrashAt(n, n%2 == 0)
		if _, err := h.StartRaw(t.Context(), "pipeline", []byte(`{}`), host.WithRunID(id)); err != nil && !h.Crashed() {
			t.Fatal(err)
		}
		h.Settle()
		h.Reopen()
		if _, err := h.Get(t.Context(), id); errors.Is(err, host.ErrNotFound) { // it was lost before it was acknowledged
			h.begin("pipeline", id, `{}`)
		}
		from := h.Clock.Now()
		if got := h.ends(id); got != "10100" {
			t.Fatal(id, got)
		}
		if took := h.Clock.Now().Sub(from); took != 2*time.Hour { // its child sleeps, too
			t.Error(took)
		}
	}
	h.list = nil
	h.begin("pipeline", "bad", `{"fails":true,"leaf":true}`)
	h.is(h.ends("bad"), "broken by")
	if got := strings.Join(h.list[100:], "; "); got != `broken null; undo2 "cool"; undo 100` {
		t.Error(got)
	}
}

// TestHostile stops definitions that would compute forever or exhaust the memory, with a sentence.
func TestHostile(t *testing.T) {
	h := newHosted(t, `
name: hostile
steps:
  - {name: which, type: condition, if: input == 1, then: loop, else: text}
  - {name: loop, type: set, values: {n: "${let a = 1..1000; all(a, all(a, all(a, # > 0)))}"}, next: end}
  - {name: text, type: set, values: {n: "${let a = repeat('x', 100000); let b = a+a+a+a+a+a+a+a; let c = b+b+b+b+b+b+b+b; let d = c+c+c+c+c+c+c+c; len(d+d+d+d)}"}}
`, hosttest.WithConfig(func(c *host.Config) { c.MaxFuel = 200_000_000 }))
	for input, want := range map[string]string{"1": "computed too long without waiting", "2": "memory"} {
		h.begin("hostile", "r"+input, input)
		h.Finish("r" + input)
		_, err := h.ResultRaw(t.Context(), "r"+input)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %.300v", input, err)
		}
	}
}

// TestWithoutDefinition refuses an interpreter without a definition, or with one that was inserted without a check.
func TestWithoutDefinition(t *testing.T) {
	h := hosttest.New(t)
	wasm := hosttest.Build(t, "../interpreter")
	if _, err := h.UploadAll(t.Context(), "", wasm); err == nil || !strings.Contains(err.Error(), "without a definition") {
		t.Errorf("%.200v", err)
	}
	bad, err := module.Make(wasm, []byte(`{"name":"x","steps":[{"name":"a"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.UploadAll(t.Context(), "", bad); err == nil || !strings.Contains(err.Error(), "/steps/0: a task needs a handler") {
		t.Errorf("%.200v", err)
	}
	if _, err := module.Make(bad, []byte("{}")); err == nil {
		t.Error("a second definition was put into a module")
	}
	// The file does not contain the empty slot.
	if extra := len(bad) - len(wasm); extra > 100 || bytes.Count(bad, module.Marker[:]) != 1 {
		t.Errorf("%d bytes more", extra)
	}
}

const undone = `
name: undone
steps:
  - {name: charge, type: set, values: {a: 1}, compensate: refund}
  - {name: try, type: fail, message: no luck, on_failure: instead}
  - {name: ship, type: fail, message: no courier}
  - {name: never, type: set, values: {c: 3}}
  - {name: refund, type: set, values: {b: 2}}
  - {name: instead, type: set, values: {d: 4}}
`

// TestProgressOfAFailedRun queries the progress of a failed run: the step that failed the run is failed, with its
// error; fallback steps and compensations are done.
func TestProgressOfAFailedRun(t *testing.T) {
	for _, graph := range []bool{false, true} {
		text := undone
		if graph {
			text = strings.NewReplacer("steps:", "nodes:", "try,", "try, after: [charge],", "ship,", "ship, after: [try],", "never,",
				"never, after: [ship],").Replace(text)
		}
		h := newHosted(t, text)
		h.begin("undone", "a", `{}`)
		h.Finish("a")
		progress, err := h.Query(t.Context(), "a", "progress", nil)
		if err != nil {
			t.Fatal(err)
		}
		var list []struct{ Name, Status, Error string }
		if err := json.Unmarshal(progress, &list); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, x := range list {
			got[x.Name] = x.Status
			if x.Name == "ship" && !strings.Contains(x.Error, "no courier") {
				t.Errorf("the error of ship is %q", x.Error)
			}
		}
		want := map[string]string{"charge": "completed", "try": "recovered", "ship": "failed", "never": "", "refund": "completed",
			"instead": "completed"}
		if !maps.Equal(got, want) {
			t.Errorf("%s\nwant %v", progress, want)
		}
	}
}
