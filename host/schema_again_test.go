package host_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// uploaded uploads versions of a workflow with the given schemas. Each waits for a signal that never comes.
func uploaded(t *testing.T, h *hosttest.Host, workflow string, schemas ...string) {
	t.Helper()
	for i, s := range schemas {
		m := wasmgen.New(0).Text(fmt.Sprintf(`{"workflows":[{"name":%q%s}],"sdk":"%d"}`, workflow, s, i)).Call(abi.FnComplete).Drop().Export(abi.ExportDescribe).
			Text("never").I64(-1).I32(0).I32(0).Call(abi.FnSignalWait).Drop().I32(0).Export(abi.ExportRun).Bytes()
		_, err := h.Upload(ctx, workflow, m)
		do(t, err)
	}
}

// TestSchemaAfterMigration repeats a start and a signal after their run was migrated to a version whose schemas would
// refuse them.
func TestSchemaAfterMigration(t *testing.T) {
	h := hosttest.New(t)
	uploaded(t, h, "w", "")
	input := []byte(`"x"`)
	_, err := h.StartRaw(ctx, "w", input, host.WithRunID("r"))
	do(t, err)
	h.Settle()
	do(t, h.SignalRaw(ctx, "r", "go", []byte("1"), host.WithIdempotencyKey("k")))
	uploaded(t, h, "w", `,"input_schema":{"type":"object"},"signal_schemas":{"go":{"type":"object"}}`)
	_, err = h.Workflows().Migrate(ctx, "w", host.MigrateOptions{To: 2})
	do(t, err)
	if r, err := h.Get(ctx, "r"); err != nil || r.Version != 2 {
		t.Fatal(r.Version, err)
	}
	signal := host.WithSignal("go", 1, host.WithIdempotencyKey("k"))
	for name, opts := range map[string][]host.StartOption{"latest": nil, "first": {host.WithVersion(1)}, "with its signal": {signal}} {
		r, err := h.StartRaw(ctx, "w", input, append(opts, host.WithRunID("r"))...)
		if err != nil || !r.Existed || r.Version != 2 {
			t.Errorf("%s: %+v %v", name, r, err)
		}
	}
	if _, err := h.StartRaw(ctx, "w", []byte(`"y"`), host.WithRunID("r")); !errors.Is(err, host.ErrConflict) {
		t.Error("another input:", err)
	}
	do(t, h.SignalRaw(ctx, "r", "go", []byte("1"), host.WithIdempotencyKey("k")))
	fault := host.SchemaFault{Message: "must be object, got number"}
	refusedBySchema(t, h.SignalRaw(ctx, "r", "go", []byte("1"), host.WithIdempotencyKey("other")), `payload of signal "go"`, fault)
	refusedBySchema(t, h.SignalRaw(ctx, "r", "go", []byte("2"), host.WithIdempotencyKey("k")), `payload of signal "go"`, fault)
	_, err = h.StartRaw(ctx, "w", input, host.WithRunID("r"), host.WithSignal("go", 1))
	refusedBySchema(t, err, `payload of signal "go"`, fault)
}

// TestStartOfAnotherWorkflow starts a workflow under the id of another workflow's run. The other workflow has more
// versions.
func TestStartOfAnotherWorkflow(t *testing.T) {
	h := hosttest.New(t)
	uploaded(t, h, "a", "", "", "")
	uploaded(t, h, "b", "", `,"input_schema":false`)
	_, err := h.StartRaw(ctx, "a", nil, host.WithRunID("r"))
	do(t, err)
	for _, opts := range [][]host.StartOption{nil, {host.WithVersion(1)}, {host.WithVersion(9)}} {
		if _, err := h.StartRaw(ctx, "b", nil, append(opts, host.WithRunID("r"))...); !errors.Is(err, host.ErrConflict) {
			t.Error(err)
		}
	}
}

// TestCheckStops: checking an input ends with its context, or when its work limit is reached.
func TestCheckStops(t *testing.T) {
	h := hosttest.New(t)
	uploaded(t, h, "w", `,"input_schema":{"items":{"allOf":[`+strings.Repeat(`{"minLength":1},`, 50)+`true]}}`)
	stopped, stop := context.WithCancel(ctx)
	stop()
	if _, err := h.StartRaw(stopped, "w", []byte("[1"+strings.Repeat(",1", 50_000)+"]")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	_, err := h.StartRaw(ctx, "w", []byte("[1"+strings.Repeat(",1", 50_000)+"]"))
	refusedBySchema(t, err, `input of workflow "w"`, host.SchemaFault{Message: "the schema takes more than 1000000 comparisons for it"})
}
