package interpret_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/wfhost/wfhost/definition"
	"github.com/wfhost/wfhost/definition/interpret"
	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

// BenchmarkSteps performs a thousand steps. Allocations per step are memory that a guest writes.
func BenchmarkSteps(b *testing.B) {
	text := `{"name":"x","steps":[`
	for i := range 500 {
		text += fmt.Sprintf(`{"name":"w%d","type":"wait","durationMs":0},{"name":"s%d","type":"set","values":{"n":"${state.n + 1}"}},`, i, i)
	}
	d, err := definition.ParseJSON([]byte(text[:len(text)-1] + "]}"))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		_, err := workflow.Run(b.Context(), workflow.NewEnv(), func(ctx context.Context, in json.RawMessage) (json.RawMessage, error) {
			return interpret.Run(ctx, d, in)
		}, json.RawMessage(`{"n":0}`))
		if err != nil {
			b.Fatal(err)
		}
	}
}
