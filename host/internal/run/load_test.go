package run

import (
	"testing"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// BenchmarkLoad loads a run with a journal of 1,000 entries, as each wake of a run that is not in memory does.
func BenchmarkLoad(b *testing.B) {
	j, err := journal.Begin(&journal.Started{RunID: "r", Workflow: "w"}, nil, 1)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := j.Append(store.Entry{Kind: store.KindActivated}, 1); err != nil {
		b.Fatal(err)
	}
	for j.Len() < 1000 {
		if _, err := j.Append(store.Entry{Kind: store.KindEmit, Name: "t", Code: int32(j.Len())}, 1); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := loadRecord(store.RunState{Run: store.RunKey{ID: "r"}}, j.All()); err != nil {
			b.Fatal(err)
		}
	}
}
