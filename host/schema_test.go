package host_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// refusedBySchema fails the test unless an error lists exactly these faults.
func refusedBySchema(t *testing.T, err error, what string, faults ...host.SchemaFault) {
	t.Helper()
	e, ok := errors.AsType[*host.SchemaError](err)
	if !ok || !errors.Is(err, host.ErrInvalid) || e.What != what || len(e.Faults) != len(faults) {
		t.Fatalf("%v, want faults %+v of %s", err, faults, what)
	}
	for i := range faults {
		if e.Faults[i] != faults[i] {
			t.Errorf("%+v, want %+v", e.Faults[i], faults[i])
		}
	}
}

// entries counts those of a run's journal.
func entries(h *hosttest.Host, id string) (n int) {
	for _, err := range h.Journal(ctx, id, 0) {
		if err == nil {
			n++
		}
	}
	return n
}

// TestSchemas refuses inputs and signals that do not match the schemas which the SDK derives from a workflow's types,
// and records nothing.
func TestSchemas(t *testing.T) {
	h := hosttest.New(t)
	if _, err := h.Upload(ctx, "approval", hosttest.Build(t, "../examples/approval")); err != nil {
		t.Fatal(err)
	}
	input := `input of workflow "approval"`
	_, err := h.Start(ctx, "approval", map[string]any{"Number": 7, "Cents": -1}, host.WithRunID("r"))
	refusedBySchema(t, err, input, host.SchemaFault{Pointer: "/Cents", Message: "minimum: got -1, want 0"},
		host.SchemaFault{Pointer: "/Number", Message: "must be string, got number"})
	_, err = h.Start(ctx, "approval", nil, host.WithRunID("r"))
	refusedBySchema(t, err, input, host.SchemaFault{Message: "there is none, and one is required"})
	_, err = h.StartRaw(ctx, "approval", []byte("{"), host.WithRunID("r"))
	refusedBySchema(t, err, input, host.SchemaFault{Message: "it is not JSON: unexpected EOF"})
	bad := map[string]any{"Approved": "yes"}
	fault := host.SchemaFault{Pointer: "/Approved", Message: "must be boolean, got string"}
	_, err = h.Start(ctx, "approval", map[string]any{"Number": "7"}, host.WithRunID("r"), host.WithSignal("decision", bad))
	refusedBySchema(t, err, `payload of signal "decision"`, fault)
	if _, err := h.Get(ctx, "r"); !errors.Is(err, host.ErrNotFound) {
		t.Fatal("a start that was refused is there:", err)
	}
	_, err = h.Start(ctx, "approval", map[string]any{"Number": "7", "unknown": 1}, host.WithRunID("r"))
	if err != nil {
		t.Fatal(err)
	}
	h.Settle()
	before := entries(h, "r")
	refusedBySchema(t, h.Signal(ctx, "r", "decision", bad), `payload of signal "decision"`, fault)
	refusedBySchema(t, h.SignalRaw(ctx, "r", "decision", []byte("yes")), `payload of signal "decision"`,
		host.SchemaFault{Message: "it is not JSON: invalid character 'y' looking for beginning of value"})
	lines, err := h.Logs(ctx, "r", 0, 10)
	do(t, err)
	_, token, _ := strings.Cut(lines[0].Text, "link=/v1/hooks/")
	_, err = h.Hooks().Deliver(ctx, token, []byte(`{"Approved":"yes"}`))
	refusedBySchema(t, err, `payload of signal "decision"`, fault)
	h.Settle()
	if after := entries(h, "r"); after != before {
		t.Fatalf("%d entries, before %d", after, before)
	}
	h.Crash()
	refusedBySchema(t, h.Signal(ctx, "r", "decision", bad), `payload of signal "decision"`, fault)
	do(t, h.Signal(ctx, "r", "anything else", 1)) // Go programs may send signals that the workflow does not list
	do(t, h.Signal(ctx, "r", "decision", map[string]any{"Approved": true, "By": "ada"}))
	h.Settle()
	if r, err := h.Get(ctx, "r"); err != nil || r.Status != host.Completed {
		t.Fatal(r.Status, err)
	}
	spec := host.ScheduleSpec{Workflow: "approval", When: "@daily", Input: []byte(`{"Number":7}`)}
	_, err = h.Schedules().Create(ctx, "s", spec)
	refusedBySchema(t, err, input, host.SchemaFault{Pointer: "/Number", Message: "must be string, got number"})
	spec.Input = []byte(`{"Number":"7"}`)
	_, err = h.Schedules().Create(ctx, "s", spec)
	do(t, err)
	spec.Input = nil
	_, err = h.Schedules().Update(ctx, "s", spec)
	refusedBySchema(t, err, input, host.SchemaFault{Message: "there is none, and one is required"})
	x, err := h.Workflows().Schemas(ctx, "approval", 0)
	if err != nil || !strings.Contains(string(x.Input), `"required":["Number"]`) || !strings.Contains(string(x.Signals["decision"]), `"Approved":{"type":"boolean"}`) ||
		string(x.Result) != `{"type":"string"}` {
		t.Errorf("%s %s %s %v", x.Input, x.Result, x.Signals, err)
	}
	if _, err := h.Workflows().Schemas(ctx, "nobody", 0); !errors.Is(err, host.ErrNotFound) {
		t.Error(err)
	}
}

// described returns a module with a description that waits for a signal.
func described(t *testing.T, description string) []byte {
	t.Helper()
	if !json.Valid([]byte(description)) {
		t.Fatal(description)
	}
	return wasmgen.New(0).Text(description).Call(abi.FnComplete).Drop().Export(abi.ExportDescribe).
		Text("go").I64(-1).I32(0).I32(0).Call(abi.FnSignalWait).Drop().I32(0).Export(abi.ExportRun).Bytes()
}

// TestSchemasOfOthers uses schemas that a module provides itself.
func TestSchemasOfOthers(t *testing.T) {
	h := hosttest.New(t)
	for description, want := range map[string]string{
		`{"workflows":[{"name":"w","input_schema":{"type":"objct"}}]}`:                `input of workflow "w": the schema is none: /type: `,
		`{"workflows":[{"name":"w","output_schema":{"$ref":"https://a.example/x"}}]}`: `result of workflow "w": the reference "https://a.example/x" is outside of the schema`,
		`{"workflows":[{"name":"w","signals":["a"],"signal_schemas":{"b":{}}}]}`:      `a schema for the signal "b", which is not among its signals ["a"]`,
		`{"workflows":[{"name":"w","signal_schemas":{"b":7}}]}`:                       `signal "b" of workflow "w": the schema is none`,
	} {
		if _, err := h.Upload(ctx, "w", described(t, description)); !errors.Is(err, host.ErrRejected) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", description, err, want)
		}
	}
	for i, c := range []struct{ schema, input string }{{`{"type":"integer"}`, "1"}, {`{"type":"string"}`, `"a"`}, {`{}`, `"a"`}} {
		if _, err := h.Upload(ctx, "w", described(t, `{"workflows":[{"name":"w","input_schema":`+c.schema+`}]}`)); err != nil {
			t.Fatal(err)
		}
		if _, err := h.StartRaw(ctx, "w", []byte(c.input)); err != nil {
			t.Fatal(i, err)
		}
	}
	if _, err := h.StartRaw(ctx, "w", []byte(`"a"`), host.WithVersion(1)); err == nil {
		t.Error("the schema of the first version was not looked at")
	}
}
