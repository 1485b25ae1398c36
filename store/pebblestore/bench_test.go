package pebblestore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/wfhost/wfhost/store"
)

// BenchmarkChunk appends to 64 journals at a time, one entry of a hundred bytes per synced commit, until each has 100
// entries, with several chunk sizes. It reports the time to read a whole journal afterwards, from a newly opened
// store.
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
				parts[p], err = s.Acquire(context.Background(), store.PartitionID(p), "bench", 0)
				if err != nil {
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
			s, err = Open(dir, Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(readAll(b, s, runs.Load()), "ns/read")
		})
	}
}

// readAll reads all runs, and returns the nanoseconds per run.
func readAll(b *testing.B, s *Store, runs int64) float64 {
	begun := time.Now()
	for i := range runs {
		if _, _, err := s.Run(context.Background(), store.RunKey{ID: fmt.Sprint("run-", i+1)}); err != nil {
			b.Fatal(err)
		}
	}
	return float64(time.Since(begun)) / float64(runs)
}

// BenchmarkGroups has several callers commit concurrently, each the runs of its own partitions: per run an entry of a
// hundred bytes, with a number of runs per commit. It reports the number of fsyncs per thousand runs.
func BenchmarkGroups(b *testing.B) {
	const callers, runs = 4, 256
	for _, size := range []int{1, 16, 256} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			var syncs atomic.Int64
			fs := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
				switch op.Kind {
				case errorfs.OpFileSync, errorfs.OpFileSyncData:
					syncs.Add(1)
				}
				return nil
			}))
			s, err := Open(b.TempDir(), Options{FS: fs})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			groups := make([][]store.Group, callers)
			for i := range store.Partitions {
				part, err := s.Acquire(context.Background(), store.PartitionID(i), "bench", 0)
				if err != nil {
					b.Fatal(err)
				}
				groups[i%callers] = append(groups[i%callers], store.Group{Partition: part})
			}
			left := atomic.Int64{}
			left.Store(int64(b.N))
			syncs.Store(0)
			b.ResetTimer()
			var wg sync.WaitGroup
			for caller := range callers {
				wg.Go(func() {
					for turn := 0; left.Add(int64(-size)) > int64(-size); turn++ {
						if err := s.Commit(context.Background(), fill(groups[caller], turn, size, runs)); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
			b.ReportMetric(float64(syncs.Load())/float64(b.N)*1000, "fsyncs/1000")
		})
	}
}

// fill returns groups with the next entries of n runs.
func fill(groups []store.Group, turn, size, runs int) []store.Group {
	for i := range groups {
		groups[i].Runs = groups[i].Runs[:0]
	}
	for i := range size {
		n := turn*size + i
		g := &groups[n%len(groups)]
		run, seq := benchRun(g.Partition.ID(), n%runs/len(groups)), store.Seq(n/runs)
		g.Runs = append(g.Runs, store.RunCommit{Run: run, Create: seq == 0, Expect: seq,
			Append: []store.Entry{{Seq: seq, Kind: store.KindStepResult, Name: "name", Data: make([]byte, 100)}},
			State:  store.RunState{Run: run, Workflow: "w", Status: store.Sleeping, WakeUnixMs: int64(seq) * 100, Length: seq + 1}})
	}
	var list []store.Group
	for _, g := range groups {
		if len(g.Runs) > 0 {
			list = append(list, g)
		}
	}
	return list
}

var benchRuns sync.Map // run by partition and number

// benchRun returns the n-th run of a partition.
func benchRun(p store.PartitionID, n int) store.RunKey {
	type place struct {
		p store.PartitionID
		n int
	}
	if run, ok := benchRuns.Load(place{p, n}); ok {
		return run.(store.RunKey) //nolint:forcetypeassert // it holds nothing else
	}
	for i, left := 0, n; ; i++ {
		if run := (store.RunKey{ID: fmt.Sprint("run-", i)}); run.Partition() == p {
			left--
			if left < 0 {
				benchRuns.Store(place{p, n}, run)
				return run
			}
		}
	}
}
