package pebblestore

import (
	"bytes"
	"context"
	"math"
	"runtime"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// TestFinding_BlobsAreReadOneByOne reads the first entry of a journal whose chunk refers to many blobs: the others are not read,
// so that a reader who takes his time does not hold them all.
func TestFinding_BlobsAreReadOneByOne(t *testing.T) {
	s, _ := openGate(t)
	ctx := context.Background()
	run := store.RunKey{ID: "r"}
	p, err := s.Acquire(ctx, run.Partition(), "test", 0)
	if err != nil {
		t.Fatal(err)
	}
	const n = 32
	var entries []store.Entry
	for i := range n {
		entries = append(entries, store.Entry{Seq: store.Seq(i), Kind: store.KindStarted, Name: "w",
			Data: bytes.Repeat([]byte{byte(i)}, abi.BlobBytes+1)})
	}
	st := store.RunState{Run: run, Workflow: "w", Version: 1, Status: store.Running, WakeUnixMs: store.NoWake, Length: n}
	if err := p.Commit(ctx, []store.RunCommit{{Run: run, Create: true, Append: entries, State: st}}); err != nil {
		t.Fatal(err)
	}
	allocated := func() int {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.TotalAlloc)
	}
	least := math.MaxInt
	for range 20 { // of which some are not beside a compaction
		before := allocated()
		for e, err := range s.Load(ctx, run, 0, 1) {
			if err != nil || e.Seq != 1 || !bytes.Equal(e.Data, entries[1].Data) {
				t.Fatalf("entry %d of %d bytes: %v", e.Seq, len(e.Data), err)
			}
			break
		}
		least = min(least, allocated()-before)
	}
	if least > n*abi.BlobBytes/4 {
		t.Errorf("one of %d payloads took %d bytes", n, least)
	}
}
