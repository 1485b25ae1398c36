package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// smallDisk is a file system that reports a given number of free bytes.
type smallDisk struct {
	vfs.FS
	free  *atomic.Uint64
	asked func() // called when somebody wants to know
}

func (d smallDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	if d.asked != nil {
		d.asked()
	}
	return vfs.DiskUsage{AvailBytes: d.free.Load(), TotalBytes: 1 << 40}, nil
}

// TestReclaim deletes runs with large inputs: the store's files shrink when Reclaim is called, and not earlier. Other
// runs are kept. Reclaim is refused while there is no space for what it writes.
func TestReclaim(t *testing.T) {
	const runs, size = 96, 1 << 19
	free := &atomic.Uint64{}
	free.Store(1 << 30)
	var reclaiming atomic.Pointer[Store]
	var asked, second atomic.Int64 // number of disk queries by Reclaim, and of second compactions that were allowed
	s, err := Open("db", Options{FS: smallDisk{vfs.NewMem(), free, func() {
		if s := reclaiming.Load(); s != nil {
			asked.Add(1)
			if _, most := s.compactionsAtATime(); most > 1 {
				second.Add(1)
			}
		}
	}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	random := rand.NewChaCha8([32]byte{1})
	payload := func() []byte {
		b := make([]byte, max(size, abi.BlobBytes+1))
		_, _ = random.Read(b)
		return b
	}
	commit := func(i int, c store.RunCommit) {
		t.Helper()
		c.Run = store.RunKey{ID: fmt.Sprint("r", i)}
		c.State.Run, c.State.Workflow, c.State.Status, c.State.WakeUnixMs = c.Run, "w", store.Completed, store.NoWake
		if err := acquire(t, s, c.Run.Partition()).Commit(t.Context(), []store.RunCommit{c}); err != nil {
			t.Fatal(err)
		}
	}
	kept := map[int][]byte{}
	for i := range runs {
		in := payload()
		if i%16 == 0 {
			kept[i] = in
		}
		commit(i, store.RunCommit{Create: true, Append: []store.Entry{{Kind: store.KindStarted, Input: in}},
			State: store.RunState{Length: 1}})
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	bytesOf := func() uint64 {
		var sum uint64
		levels, err := s.db.SSTables()
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range levels {
			for i := range l {
				sum += l[i].Size
			}
		}
		return sum
	}
	full := bytesOf()
	for i := range runs {
		if kept[i] == nil {
			commit(i, store.RunCommit{Delete: true, Expect: 1, State: store.RunState{Deleted: i%2 == 0}})
		}
	}
	// Pebble may have compacted the small tables of its own accord since the flush; the payloads are still there.
	if now := bytesOf(); now < full/10*9 {
		t.Fatalf("the tables have %d bytes, before the deletions they had %d", now, full)
	}
	reclaiming.Store(s)
	free.Store(flushRoom - 1)
	if err := s.Reclaim(t.Context()); err == nil || !strings.Contains(err.Error(), "must be free") {
		t.Fatalf("without room: %v", err)
	}
	free.Store(1 << 30)
	if err := s.Reclaim(t.Context()); err != nil {
		t.Fatal(err)
	}
	reclaiming.Store(nil)
	if _, most := s.compactionsAtATime(); asked.Load() < 3 || second.Load() > 0 || most != 2 {
		t.Errorf("Reclaim looked at the disk %d times, a second compaction was allowed %d times; %d are allowed behind it",
			asked.Load(), second.Load(), most)
	}
	if now := bytesOf(); now > full/4 {
		t.Errorf("of %d bytes %d are left, and %d of %d runs", full, now, len(kept), runs)
	}
	for i, in := range kept {
		_, entries, err := s.Run(t.Context(), store.RunKey{ID: fmt.Sprint("r", i)})
		if err != nil || len(entries) != 1 || !bytes.Equal(entries[0].Input, in) {
			t.Errorf("run %d: %d entries, %v", i, len(entries), err)
		}
	}
	flushes := s.db.Metrics().Flush.Count
	if err := s.Reclaim(t.Context()); err != nil || s.db.Metrics().Flush.Count != flushes {
		t.Errorf("nothing was deleted, and it flushed: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	commit(0, store.RunCommit{Delete: true, Expect: 1})
	if err := s.Reclaim(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("after its end: %v", err)
	}
}
