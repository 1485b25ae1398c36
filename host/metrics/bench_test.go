package metrics

import (
	"fmt"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
)

// BenchmarkEvents calls the events of one wake: the wake, its activation, and a commit.
func BenchmarkEvents(b *testing.B) {
	m, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	e := m.Events()
	b.ReportAllocs()
	for b.Loop() {
		e.Wake(host.WakeInfo{RunID: "r", Late: time.Millisecond})
		e.Activation(host.ActivationInfo{Workflow: "w", End: "suspended", Replayed: 3, Fuel: 1000})
		e.Commit(host.CommitInfo{Runs: 3, Bytes: 300})
	}
}

// BenchmarkScrape gathers the maximum number of series.
func BenchmarkScrape(b *testing.B) {
	m, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	e := m.Events()
	for i := range 10 * MaxWorkflows {
		e.RunStarted(host.Run{Namespace: fmt.Sprint("n", i%MaxNamespaces), Workflow: fmt.Sprint("w", i)})
		e.AttemptEnded(host.AttemptInfo{Handler: fmt.Sprint("h", i)})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Registry().Gather(); err != nil {
			b.Fatal(err)
		}
	}
}
