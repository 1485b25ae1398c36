package host_test

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/pebblestore"
)

var waitRuns = flag.Int("limits.wait", 600, "how many runs TestManyWait has wait")

// countingStore counts what is read of queues.
type countingStore struct {
	store.Store
	mu           sync.Mutex
	reads, cells int
}

func (s *countingStore) Cells(ctx context.Context, q store.CellQuery) ([]store.Cell, error) {
	list, err := s.Store.Cells(ctx, q)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	s.cells += len(list)
	return list, err
}

// TestManyWait has many runs wait for one slot. They take no memory, a newly opened host reads none of them, and
// finding each takes reading a few cells.
func TestManyWait(t *testing.T) {
	dir := t.TempDir()
	var counts *countingStore
	h := newPrinted(t, hosttest.WithStore(func() store.Store {
		s, err := pebblestore.Open(filepath.Join(dir, "store"), pebblestore.Options{})
		do(t, err)
		counts = &countingStore{Store: s}
		return counts
	}))
	h.limit("1|1 per input.customer", "")
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const at = 200 // starts at a time
	for n := 0; n < *waitRuns; n += at {
		var wg sync.WaitGroup
		for i := n; i < min(n+at, *waitRuns); i++ {
			wg.Go(func() { h.start(fmt.Sprint("r", i), fmt.Sprintf(`{"customer":%d}`, i%50)) })
		}
		wg.Wait()
	}
	h.Settle()
	before := heap()
	began := time.Now()
	h.Reopen()
	h.Settle()
	opened := time.Since(began)
	counts.mu.Lock()
	first := counts.reads
	counts.mu.Unlock()
	if st := h.Stats(); st.Runs > 1 || st.Timers > 2 || first > 0 {
		t.Errorf("%+v, %d reads of the queue", st, first)
	}
	t.Logf("%d runs wait: heap %d KiB, after a restart %d KiB, which took %v", *waitRuns-1, before>>10, heap()>>10, opened)
	const admitted = 60
	began = time.Now()
	for range admitted {
		for r, err := range h.Runs(ctx, host.Query{Status: host.Sleeping}) {
			do(t, err)
			do(t, h.Terminate(ctx, r.ID))
		}
		h.Settle()
	}
	counts.mu.Lock()
	reads, cells := counts.reads, counts.cells
	counts.mu.Unlock()
	t.Logf("%d runs were admitted, one after the other, with %.1f reads of %.1f cells each, in %v each", admitted,
		float64(reads)/admitted, float64(cells)/admitted, time.Since(began)/admitted)
	if cells > 40*admitted {
		t.Errorf("%d cells were read for %d runs", cells, admitted)
	}
	info, err := h.WorkflowLimits().Get(ctx, "print")
	do(t, err)
	if want := int64(*waitRuns - 1 - admitted); info.Waiting != want {
		t.Errorf("%d wait, want %d", info.Waiting, want)
	}
}
