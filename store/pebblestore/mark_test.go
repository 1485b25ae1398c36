package pebblestore

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/store"
)

// marked is a store with one partition. Its wakes are compared with the states of its runs.
type marked struct {
	t    *testing.T
	s    *Store
	part store.Partition
	runs []store.RunKey // of the partition
}

func openMarked(t *testing.T, fs vfs.FS) *marked {
	t.Helper()
	s, err := Open("db", Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	m := &marked{t: t, s: s}
	for i := 0; len(m.runs) < 40; i++ {
		if run := (store.RunKey{ID: fmt.Sprint(i)}); run.Partition() == 0 {
			m.runs = append(m.runs, run)
		}
	}
	m.part, err = s.Acquire(t.Context(), 0, "test", 0)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *marked) close() {
	m.t.Helper()
	if err := m.s.Close(); err != nil {
		m.t.Fatal(err)
	}
}

// sleep commits wakes of runs.
func (m *marked) sleep(wakes map[int]int64) {
	m.t.Helper()
	var commits []store.RunCommit
	for i, wake := range wakes {
		run := m.runs[i]
		_, err := m.s.State(m.t.Context(), run)
		commits = append(commits, store.RunCommit{Run: run, Create: err != nil,
			State: store.RunState{Run: run, Status: store.Sleeping, WakeUnixMs: wake}})
	}
	if err := m.part.Commit(m.t.Context(), commits); err != nil {
		m.t.Error(err)
	}
}

// check compares the wake index with the states.
func (m *marked) check() {
	m.t.Helper()
	var want, got []store.WakeKey
	for st, err := range store.Runs(m.t.Context(), m.s, store.Query{}, 0) {
		if err != nil {
			m.t.Fatal(err)
		}
		if st.WakeUnixMs != store.NoWake {
			want = append(want, store.WakeKey{UnixMs: max(st.WakeUnixMs, 0), Key: st.Run})
		}
	}
	wakes, err := m.part.Due(m.t.Context(), store.WakeKey{}, math.MaxInt64-1, 1000)
	if err != nil {
		m.t.Fatal(err)
	}
	for _, w := range wakes {
		got = append(got, w.Key)
	}
	slices.SortFunc(want, store.WakeKey.Compare)
	if !slices.Equal(got, want) {
		m.t.Fatalf("the index has %v, the runs sleep until %v; the mark is %d", got, want, m.s.marks[0].at)
	}
}

// TestMark stores wakes at random, mostly in rising order, and reads them as a host does. After every step the power
// is cut, with some of the unsynced data on the disk: no wake is lost, and no consumed wake is listed.
func TestMark(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	fs := vfs.NewCrashableMem()
	m := openMarked(t, fs)
	now, lowered, raised, carried := int64(1_000_000), 0, 0, 0
	times := 600
	if testing.Short() {
		times = 150
	}
	for n := range times {
		before := m.s.marks[0].at
		now += rng.Int64N(20_000)
		wakes := map[int]int64{}
		for range rng.IntN(4) + 1 {
			at := now + rng.Int64N(100_000)
			switch rng.IntN(20) {
			case 0:
				at = rng.Int64N(now) // long over
			case 1:
				at = -5
			case 4:
				at = before - rng.Int64N(3) // at the mark, or right below it
			case 2, 3:
				at = store.NoWake
			}
			wakes[rng.IntN(len(m.runs))] = at
		}
		m.sleep(wakes)
		for _, run := range m.runs { // most wakes that have come due are consumed
			if st, err := m.s.State(t.Context(), run); err == nil && st.WakeUnixMs != store.NoWake && st.WakeUnixMs <= now &&
				rng.IntN(3) > 0 {
				m.sleep(map[int]int64{slices.Index(m.runs, run): now + rng.Int64N(60_000)})
			}
		}
		if _, err := m.part.Due(t.Context(), store.WakeKey{UnixMs: now + rng.Int64N(markLag)}, now, 10); err != nil {
			t.Fatal(err)
		}
		m.check()
		mark := m.s.marks[0].at
		if mark < before {
			lowered++
		}
		if mark > before {
			raised++
		}
		again := openMarked(t, fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng}))
		if again.s.marks[0].at > noMark {
			carried++
		}
		again.check()
		again.close()
		if n%50 == 49 { // a restart at which nothing is lost
			m.close()
			m = openMarked(t, fs)
			m.check()
			if got := m.s.marks[0].at; got != mark {
				t.Fatalf("mark %d after a restart, %d before", got, mark)
			}
		}
	}
	m.close()
	if lowered < times/60 || raised < times/60 || carried < times/6 {
		t.Errorf("the mark was lowered %d and raised %d times, and was there after %d crashes", lowered, raised, carried)
	}
}

// TestMarkConcurrently commits wakes from several goroutines, some of them long overdue, while the mark is raised and
// the power is cut.
func TestMarkConcurrently(t *testing.T) {
	fs := vfs.NewCrashableMem()
	m := openMarked(t, fs)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	const workers = 8
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			for now := int64(1_000_000); ctx.Err() == nil; now += 1000 {
				at := now + rng.Int64N(50_000)
				if rng.IntN(10) == 0 {
					at = now - rng.Int64N(900_000)
				}
				m.sleep(map[int]int64{rng.IntN(len(m.runs)/workers)*workers + w: at})
				if w == 0 {
					if _, err := m.part.Due(ctx, store.WakeKey{UnixMs: now}, now, 1); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(5, 5))
	images := 30
	if testing.Short() {
		images = 8
	}
	for range images {
		again := openMarked(t, fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng}))
		again.check()
		again.close()
	}
	cancel()
	wg.Wait()
	m.check()
	m.close()
}
