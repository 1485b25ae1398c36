package pebblestore

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// TestModulesHaveBlocksOfTheirOwn reads wakes in a store that holds little but a module larger than the block cache:
// wakes must not share a block with the module, which would be read and decompressed each time.
func TestModulesHaveBlocksOfTheirOwn(t *testing.T) {
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	wasm := make([]byte, 24<<20)
	for i := range wasm {
		wasm[i] = byte(rand.Uint32()) // it is stored as it is
	}
	run := store.RunKey{ID: "sleeper"}
	p := acquire(t, s, run.Partition())
	st := store.RunState{Run: run, Workflow: "w", Status: store.Sleeping, WakeUnixMs: 5000, Length: 1}
	err = p.Commit(t.Context(), []store.RunCommit{{Run: run, Create: true, State: st, Append: []store.Entry{{Kind: store.KindStarted}}}})
	if _, put := s.Modules().Put(t.Context(), wasm, store.ModuleInfo{}); errors.Join(err, put, s.db.Flush()) != nil {
		t.Fatal(err, put)
	}
	look := func() {
		for after := int64(0); after < 10_000; after += 1000 {
			if _, err := p.Due(t.Context(), store.WakeKey{UnixMs: after}, 100_000, 10); err != nil {
				t.Fatal(err)
			}
			if _, _, err := s.Run(t.Context(), run); err != nil {
				t.Fatal(err)
			}
		}
	}
	look()                        // fills the cache
	least := int64(math.MaxInt64) // the minimum excludes misses of other readers, such as a compaction
	for range 3 {
		before := s.db.Metrics().BlockCache.Misses
		look()
		least = min(least, s.db.Metrics().BlockCache.Misses-before)
	}
	if least > 0 {
		t.Errorf("%d blocks are read again and again", least)
	}
}
