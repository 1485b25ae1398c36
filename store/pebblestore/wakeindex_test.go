package pebblestore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

// The ways to remove consumed wakes from the index that BenchmarkWakeIndex compares.
const (
	pointDelete  = "delete" // in the commit that sets the next wake
	singleDelete = "single" // likewise
	rangeDelete  = "range"  // once per partition and half a revolution of the host's timer wheel
)

// indexed is a database in which runs sleep and wake.
type indexed struct {
	b    *testing.B
	s    *Store
	runs []store.RunKey
	wake []int64 // of each run, 0 before the first
	turn int64   // of the last range delete
}

func newIndexed(b *testing.B, dir string, runs int) *indexed {
	b.Helper()
	s, err := Open(dir, Options{NoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	x := &indexed{b: b, s: s, wake: make([]int64, runs)}
	for i := range runs {
		x.runs = append(x.runs, store.RunKey{ID: fmt.Sprintf("%026x", uint32(i*2_654_435_761))})
	}
	return x
}

// commit writes what a wake writes: state, chunk of the journal, and the next wake, 0 for none.
func (x *indexed) commit(i int, now, next int64, way string) {
	b, run, value := x.s.db.NewBatch(), x.runs[i], make([]byte, 200)
	_ = b.Set(store.RunTableKey(run, store.TableState), value, nil)
	_ = b.Set(store.JournalKey(run, 0, 0), value, nil)
	if old := runWake(run, x.wake[i]); x.wake[i] != 0 {
		switch way {
		case pointDelete:
			_ = b.Delete(old, nil)
		case singleDelete:
			_ = b.SingleDelete(old, nil)
		}
	}
	if next != 0 {
		_ = b.Set(runWake(run, next), value[:8], nil)
	}
	x.wake[i] = next
	if way == rangeDelete && now-x.turn > nearMs/2 {
		x.turn = now
		for p := range store.PartitionID(store.Partitions) {
			prefix := store.AppendPrefix(nil, 0, p, store.TableWake)
			_ = b.DeleteRange(prefix, append(slices.Clip(prefix), markValue(now)...), nil)
		}
	}
	if err := b.Commit(pebble.NoSync); err != nil {
		x.b.Fatal(err)
	}
	_ = b.Close() // memory only
}

// list returns the number of keys from an instant on, at most limit per partition, and the time that counting takes.
func (x *indexed) list(from, to int64, limit int) (keys int, took time.Duration) {
	begun := time.Now()
	for p := range store.PartitionID(store.Partitions) {
		prefix, n := store.AppendPrefix(nil, 0, p, store.TableWake), 0
		err := x.s.scan(append(slices.Clip(prefix), markValue(from)...),
			append(slices.Clip(prefix), markValue(to)...), func(_, _ []byte) (bool, error) {
				n++
				return n < limit, nil
			})
		if err != nil {
			x.b.Fatal(err)
		}
		keys += n
	}
	return keys, time.Since(begun)
}

func (x *indexed) reopen(dir string) {
	err := x.s.Close()
	if err == nil {
		x.s, err = Open(dir, Options{NoSync: true})
	}
	if err != nil {
		x.b.Fatal(err)
	}
}

// BenchmarkWakeIndex has 100,000 runs wake a million times, one per millisecond, and measures what is left of
// consumed wakes: in the log, in tables, and for the next start, which searches for the first wake of each partition.
func BenchmarkWakeIndex(b *testing.B) {
	const runs, wakes, end = 100_000, 1_000_000, 1 << 50
	for _, way := range []string{pointDelete, singleDelete, rangeDelete} {
		b.Run(way, func(b *testing.B) {
			for range b.N {
				dir := b.TempDir()
				x := newIndexed(b, dir, runs)
				begun, now := time.Now(), int64(0)
				for n := range wakes {
					now = 1e12 + int64(n)
					x.commit(n%runs, now, now+runs, way)
				}
				b.ReportMetric(float64(time.Since(begun).Nanoseconds())/wakes, "ns/wake")
				m := x.s.db.Metrics()
				total := m.Total()
				b.ReportMetric(float64(m.WAL.BytesWritten)/wakes, "logB/wake")
				b.ReportMetric(float64(total.TableBytesFlushed+total.TableBytesCompacted)/wakes, "tableB/wake")
				stale, _ := x.list(0, now, wakes)
				b.ReportMetric(float64(stale), "stale")
				x.reopen(dir)
				_, took := x.list(0, end, 1)
				b.ReportMetric(took.Seconds()*1e3, "first-ms")
				_, took = x.list(now, end, 1)
				b.ReportMetric(took.Seconds()*1e3, "markedFirst-ms")
				if err := x.s.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkConsumedStorm consumes a million wakes at once that have long been on disk, and searches for the first
// remaining one, before a restart and after it: from the beginning, and from a mark.
func BenchmarkConsumedStorm(b *testing.B) {
	const runs, due, end = 1_000_000, 1e12, 1 << 50
	for range b.N {
		dir := b.TempDir()
		x := newIndexed(b, dir, runs)
		for i := range runs {
			x.commit(i, due-1e6, due+int64(i%1000), pointDelete)
		}
		if err := x.s.db.Compact(b.Context(), []byte{0}, []byte{0xff}, true); err != nil {
			b.Fatal(err)
		}
		for i := range runs {
			x.commit(i, due, 0, pointDelete)
		}
		for _, when := range []string{"", "restart-"} {
			_, took := x.list(0, end, 1)
			b.ReportMetric(took.Seconds()*1e3, when+"first-ms")
			_, took = x.list(due+1000, end, 1)
			b.ReportMetric(took.Seconds()*1e3, when+"markedFirst-ms")
			if when == "" {
				x.reopen(dir)
			}
		}
		if err := x.s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
