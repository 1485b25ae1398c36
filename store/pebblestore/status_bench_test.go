package pebblestore

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/store"
)

// BenchmarkStatus commits 64 runs of all partitions at a time: runs that keep their status, and runs that alternate
// between work and rest. It reports the CPU time per run, because elapsed time includes other work on the machine.
func BenchmarkStatus(b *testing.B) {
	for name, statuses := range map[string][2]store.Status{"same": {store.Sleeping, store.Sleeping}, "work": {store.Running, store.Sleeping}} {
		b.Run(name, func(b *testing.B) {
			s, err := Open("db", Options{FS: vfs.NewMem(), NoSync: true})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			var parts [store.Partitions]store.Partition
			for p := range parts {
				parts[p], err = s.Acquire(b.Context(), store.PartitionID(p), "bench", 0)
				if err != nil {
					b.Fatal(err)
				}
			}
			const runs, at = 4096, 64
			states := make([]store.RunState, runs)
			for i := range states {
				states[i] = store.RunState{Run: store.RunKey{ID: fmt.Sprintf("order-%08x", i)}, Workflow: "order", Version: 1,
					CreatedUnixMs: 1_800_000_000_000 + int64(i), Status: store.Sleeping}
			}
			commit := func(n int, status store.Status) {
				groups := map[store.PartitionID]*store.Group{}
				for i := range at {
					st := &states[(n*at+i)%runs]
					p := st.Run.Partition()
					if groups[p] == nil {
						groups[p] = &store.Group{Partition: parts[p]}
					}
					entry := store.Entry{Seq: st.Length, Kind: store.KindSleep, Name: "nap"}
					c := store.RunCommit{Run: st.Run, Create: st.Length == 0, Expect: st.Length, Append: []store.Entry{entry}}
					st.Length++
					st.Status, st.WakeUnixMs = status, 1_800_000_000_000+int64(st.Length)*1000
					c.State = *st
					groups[p].Runs = append(groups[p].Runs, c)
				}
				list := make([]store.Group, 0, len(groups))
				for _, g := range groups {
					list = append(list, *g)
				}
				if err := s.Commit(b.Context(), list); err != nil {
					b.Fatal(err)
				}
			}
			for n := range runs / at {
				commit(n, store.Sleeping)
			}
			from := cpu()
			b.ResetTimer()
			for n := range b.N {
				commit(n, statuses[n/(runs/at)%2])
			}
			b.StopTimer()
			b.ReportMetric(float64((cpu()-from).Microseconds())/float64(b.N*at), "cpu-us/run")
		})
	}
}
