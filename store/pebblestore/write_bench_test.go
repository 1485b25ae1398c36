package pebblestore

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/store"
)

// stepper commits as hosts do whose runs make steps: a number of live runs, each with a call and its result in each
// commit. A run ends after some steps, and another one takes its place.
type stepper struct {
	parts [store.Partitions]store.Partition
	live  []*stepping
	begun int
	turn  int

	module store.Digest // of all runs
}

type stepping struct {
	state store.RunState
	group int
}

const (
	stepsOfRun = 100
	liveRuns   = 256
	perCommit  = 32
)

func newStepper(tb testing.TB, s *Store) *stepper {
	tb.Helper()
	w := &stepper{module: store.Digest{1, 2, 3}}
	for p := range w.parts {
		var err error
		w.parts[p], err = s.Acquire(context.Background(), store.PartitionID(p), "bench", 0)
		if err != nil {
			tb.Fatal(err)
		}
	}
	for range liveRuns {
		w.live = append(w.live, w.next())
	}
	return w
}

func (w *stepper) next() *stepping {
	w.begun++
	return &stepping{state: store.RunState{Run: store.RunKey{ID: fmt.Sprintf("order-%016x", uint64(w.begun)*0x9e3779b97f4a7c15)},
		Workflow: "order", Status: store.Running, Version: 3, Module: w.module, CreatedUnixMs: 1_800_000_000_000}}
}

// commit commits a step of each of the next runs.
func (w *stepper) commit(s *Store) error {
	groups := map[store.PartitionID]*store.Group{}
	for range perCommit {
		r := w.live[w.turn%liveRuns]
		st := &r.state
		n, now := st.Length, 1_800_000_000_000+int64(w.turn)
		c := store.RunCommit{Run: st.Run, Create: n == 0, Expect: n}
		c.Append = []store.Entry{
			{Seq: n, Kind: store.KindStep, UnixMs: now, Handle: int64(n/2 + 1), Name: fmt.Sprint("charge-", n), Target: "host/charge",
				Input: fmt.Appendf(nil, `{"order":%q,"amount":%d,"currency":"EUR","attempt":%d}`, st.Run.ID, w.turn*7919%100_000, n)},
			{Seq: n + 1, Kind: store.KindStepResult, UnixMs: now + 1, Handle: int64(n/2 + 1), Attempt: 1,
				Data: fmt.Appendf(nil, `{"receipt":"r-%x","at":%d}`, w.turn*104729, now)}}
		st.Length, st.UpdatedUnixMs = n+2, now
		if n == 0 { // it has a wake as long as it runs
			st.WakeUnixMs = now
		}
		if st.Length == 2*stepsOfRun {
			st.Status, st.EndedUnixMs, st.WakeUnixMs = store.Completed, now, store.NoWake
			w.live[w.turn%liveRuns] = w.next()
		}
		c.State = *st
		p := st.Run.Partition()
		if groups[p] == nil {
			groups[p] = &store.Group{Partition: w.parts[p]}
		}
		groups[p].Runs = append(groups[p].Runs, c)
		w.turn++
	}
	list := make([]store.Group, 0, len(groups))
	for p := range store.PartitionID(store.Partitions) {
		if groups[p] != nil {
			list = append(list, *groups[p])
		}
	}
	return s.Commit(context.Background(), list)
}

// TestWritesOfAStep bounds the bytes that a step writes to disk: its state and its part of the journal in the log,
// and how often compactions rewrite them.
func TestWritesOfAStep(t *testing.T) {
	const (
		commits    = 4000
		maxLog     = 450 // bytes per step, 240 of them in its entries
		maxAmplify = 2.0 // 1.2 when this was written; it varies with the timing of compactions
	)
	s, err := Open("db", Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	w := newStepper(t, s)
	before := s.Usage()
	for range commits {
		if err := w.commit(s); err != nil {
			t.Fatal(err)
		}
	}
	u := s.Usage()
	log := float64(u.LogBytes-before.LogBytes) / (commits * perCommit)
	times := float64(u.LogBytes+u.TableBytes) / float64(u.LogBytes)
	t.Logf("%.0f bytes of the log, %.2f times", log, times)
	if log > maxLog || times > maxAmplify {
		t.Errorf("a step writes %.0f bytes to the log, and %.2f times that in all; want at most %d and %v", log, times, maxLog, maxAmplify)
	}
}

// BenchmarkWrites commits steps, and reports their effect on disk after all compactions.
func BenchmarkWrites(b *testing.B) {
	dir, err := os.MkdirTemp("", "writes")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s, err := Open(dir, Options{NoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	w := newStepper(b, s)
	begun := cpu()
	b.ResetTimer()
	for range b.N {
		if err := w.commit(s); err != nil {
			b.Fatal(err)
		}
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for s.db.Metrics().Compact.NumInProgress+s.db.Metrics().Flush.NumInProgress > 0 {
		<-tick.C
	}
	b.StopTimer()
	u := s.Usage()
	steps := float64(b.N * perCommit)
	b.ReportMetric(float64(cpu()-begun)/steps, "cpu-ns/step")
	b.ReportMetric(float64(u.LogBytes)/steps, "log-B/step")
	b.ReportMetric(float64(u.TableBytes)/steps, "tables-B/step")
	b.ReportMetric(float64(u.LogBytes+u.TableBytes)/float64(u.LogBytes), "writeamp")
	b.ReportMetric(float64(s.db.Metrics().DiskSpaceUsage())/steps, "disk-B/step")
}
