package pebblestore

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wfhost/wfhost/store"
)

// BenchmarkChunk appends to 64 journals at a time, an entry with a hundred bytes per synced commit, until each has 100,
// with chunks of several sizes. It reports what reading a whole journal takes afterwards, from a store that was opened anew.
func BenchmarkChunk(b *testing.B) {
	const callers, length = 64, 100
	for _, size := range []int{0, 1024, 4096, 16384} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			dir := b.TempDir()
			s, err := Open(dir, Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			s.chunkBytes = size
			var parts [store.Partitions]store.Partition
			for p := range parts {
				if parts[p], err = s.Acquire(context.Background(), store.PartitionID(p), "bench", 0); err != nil {
					b.Fatal(err)
				}
			}
			var runs atomic.Int64
			b.SetParallelism(callers / 2)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				var st store.RunState
				for n := length; pb.Next(); n++ {
					if n == length {
						n = 0
						st = store.RunState{Run: store.RunKey{ID: fmt.Sprint("run-", runs.Add(1))}, Workflow: "w",
							Status: store.Sleeping, WakeUnixMs: 1000}
					}
					st.WakeUnixMs += 100
					st.Length = store.Seq(n + 1)
					e := store.Entry{Seq: store.Seq(n), Kind: store.KindStepResult, Name: "name", Data: make([]byte, 100)}
					err := parts[st.Run.Partition()].Commit(context.Background(), []store.RunCommit{{Run: st.Run, Create: n == 0,
						Expect: store.Seq(n), Append: []store.Entry{e}, State: st}})
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
			b.ReportMetric(float64(s.db.Metrics().WAL.BytesWritten)/float64(b.N), "WAL-B/commit")
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			if s, err = Open(dir, Options{}); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(readAll(b, s, runs.Load()), "ns/read")
		})
	}
}

// readAll reads all runs, and gives the nanoseconds of one.
func readAll(b *testing.B, s *Store, runs int64) float64 {
	begun := time.Now()
	for i := range runs {
		if _, _, err := s.Run(context.Background(), store.RunKey{ID: fmt.Sprint("run-", i+1)}); err != nil {
			b.Fatal(err)
		}
	}
	return float64(time.Since(begun)) / float64(runs)
}
