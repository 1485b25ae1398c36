package pebblestore

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/wfhost/wfhost/store"
)

// runsOf returns n runs of a partition, whose ids begin with a prefix.
func runsOf(p store.PartitionID, prefix string, n int) (list []store.RunKey) {
	for i := 0; len(list) < n; i++ {
		if k := (store.RunKey{ID: fmt.Sprint(prefix, i)}); k.Partition() == p {
			list = append(list, k)
		}
	}
	return list
}

// TestCommitsOfOtherRunsShareAnFsync commits a batch of many runs while a batch of other runs of the same partition
// waits for its fsync: the second batch is applied at once.
func TestCommitsOfOtherRunsShareAnFsync(t *testing.T) {
	s, g := openGate(t)
	const p, size = store.PartitionID(3), 64
	part := acquire(t, s, p)
	begin := func(runs []store.RunKey, expect store.Seq) chan error {
		var commits []store.RunCommit
		for _, r := range runs {
			commits = append(commits, store.RunCommit{Run: r, Create: expect == 0, Expect: expect, State: store.RunState{Run: r,
				Workflow: "w", Status: store.Running, WakeUnixMs: store.NoWake}})
		}
		done := make(chan error, 1)
		go func() { done <- part.Commit(t.Context(), commits) }()
		return done
	}
	applied := func(run store.RunKey) bool {
		for until := time.Now().Add(20 * time.Second); time.Now().Before(until); {
			if v, err := s.get(store.RunTableKey(run, store.TableState)); err != nil || v != nil {
				return err == nil
			}
		}
		return false
	}
	a, b := runsOf(p, "a-", size), runsOf(p, "b-", size)
	g.set(true)
	first := begin(a, 0)
	if !applied(a[0]) {
		t.Fatal("the first batch was not applied")
	}
	second := begin(b, 0)
	if !applied(b[0]) {
		t.Fatal("a batch of other runs waits for the fsync of the first one")
	}
	select {
	case <-first:
		t.Fatal("the fsync has not been waited for")
	case <-second:
		t.Fatal("the fsync has not been waited for")
	default:
	}
	g.set(false)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil {
		t.Fatal(err)
	}
}

// TestHeldRuns locks random sets of runs concurrently, with some runs in several sets: no run is locked twice at a
// time, and in the end no lock is left.
func TestHeldRuns(t *testing.T) {
	var h heldRuns
	keys := runsOf(0, "r", 8)
	var holders [8]int // not atomic, so that the race detector sees a run that is locked twice
	var wg sync.WaitGroup
	for c := range 6 {
		wg.Go(func() {
			for i := range 500 {
				var set []store.RunKey
				var at []int
				for j := range keys {
					if (i*7+c*13+j*5)%3 == 0 {
						set, at = append(set, keys[j]), append(at, j)
					}
				}
				if i%2 == 0 {
					slices.Reverse(set)
				}
				set = append(set, set...) // a schedule may have the name of a run
				h.lock(set...)
				for _, j := range at {
					holders[j]++
					if holders[j] != 1 {
						t.Error("a run is locked twice")
					}
				}
				for _, j := range at {
					holders[j]--
				}
				h.unlock(set...)
			}
		})
	}
	wg.Wait()
	if len(h.keys) != 0 || h.waiting != 0 {
		t.Error(h.keys, h.waiting)
	}
}
