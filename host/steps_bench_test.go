package host_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// BenchmarkSteps has 64 runs make steps of a handler in sequence. An operation is a step, which is a synced commit.
func BenchmarkSteps(b *testing.B) { benchmarkSteps(b, host.Config{}) }

// BenchmarkStepsEncrypted is BenchmarkSteps with encrypted payloads.
func BenchmarkStepsEncrypted(b *testing.B) {
	codec, err := host.ParseKeyring([]byte(keyLine("k1", 1)))
	if err != nil {
		b.Fatal(err)
	}
	benchmarkSteps(b, host.Config{Codec: codec})
}

func benchmarkSteps(b *testing.B, cfg host.Config) {
	b.Helper()
	const runs, steps = 64, 100
	m := wasmgen.New(0)
	for i := range steps {
		m.Text(fmt.Sprint("step", i)).Text("host/noop").Text("1").Text("").I32(512).I32(512).Call(abi.FnStepDo).Drop()
	}
	m.Text("1").Text("").Call(abi.FnContinueAsNew)
	h := openReal(b, cfg, withNoop)
	if _, err := h.Upload(ctx, "steps", m.I32(0).Export(abi.ExportRun).Bytes(), host.AllowStep("*")); err != nil {
		b.Fatal(err)
	}
	for range runs {
		if _, err := h.Start(ctx, "steps", ""); err != nil {
			b.Fatal(err)
		}
	}
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	stop := profiled(b)
	b.ReportAllocs()
	b.ResetTimer()
	for begin := h.Stats().Commits; h.Stats().Commits-begin < uint64(b.N); {
		<-poll.C
	}
	b.StopTimer()
	stop()
}
