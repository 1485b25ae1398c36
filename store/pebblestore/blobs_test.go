package pebblestore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"math"
	"runtime"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// TestBlobsAreReadOneByOne reads the first entry of a journal whose chunk refers to many blobs: the others are not
// read, so that a slow reader does not hold them all in memory.
func TestBlobsAreReadOneByOne(t *testing.T) {
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
	for range 20 { // sometimes not during a compaction
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

// TestBlobsOfARunThatIsDeleted reads a journal while its run is deleted: its missing blobs do not count as
// corruption. A blob that is missing for another reason does.
func TestBlobsOfARunThatIsDeleted(t *testing.T) {
	for _, deleted := range []bool{true, false} {
		s, _ := openGate(t)
		ctx := context.Background()
		run := store.RunKey{ID: "r"}
		p, err := s.Acquire(ctx, run.Partition(), "test", 0)
		if err != nil {
			t.Fatal(err)
		}
		var entries []store.Entry
		for i := range 3 {
			entries = append(entries, store.Entry{Seq: store.Seq(i), Kind: store.KindStarted, Name: "w",
				Data: bytes.Repeat([]byte{byte(i)}, abi.BlobBytes+1)})
		}
		st := store.RunState{Run: run, Workflow: "w", Version: 1, Status: store.Completed, WakeUnixMs: store.NoWake, Length: 3}
		if err := p.Commit(ctx, []store.RunCommit{{Run: run, Create: true, Append: entries, State: st}}); err != nil {
			t.Fatal(err)
		}
		n, want := 0, store.ErrNotFound
		for _, err = range s.Load(ctx, run, 0, 0) {
			n++
			if n > 1 {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if deleted {
				err = p.Commit(ctx, []store.RunCommit{{Run: run, Expect: 3, State: st, Delete: true}})
			} else {
				digest := sha256.Sum256(entries[1].Data)
				want, err = store.ErrCorrupt, s.db.Delete(store.GlobalKey(0, store.TableBlob, digest[:]), nil)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if n != 2 || !errors.Is(err, want) || errors.Is(err, store.ErrCorrupt) == deleted {
			t.Errorf("deleted %v: %d entries, %v", deleted, n, err)
		}
	}
}
