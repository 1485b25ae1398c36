package pebblestore

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// TestCache holds the most recently used records, up to its bytes, and none that will not be needed soon.
func TestCache(t *testing.T) {
	var c cache
	run := func(i int) store.RunKey { return store.RunKey{ID: fmt.Sprint(i)} }
	put := func(i int, bytes int) {
		c.put(run(i), &record{stored: stored{state: store.RunState{Run: run(i), Status: store.Sleeping, WakeUnixMs: store.NoWake}},
			last: make([]byte, bytes)})
	}
	put(0, 1000)
	put(0, 2000)
	if c.live.bytes != 2000+recordBytes+1 || c.live.lru.Len() != 1 {
		t.Fatalf("%d bytes in %d records", c.live.bytes, c.live.lru.Len())
	}
	const many = cacheBytes / (1 << 20)
	for i := range many {
		put(i, 1<<20)
		c.get(run(0))
	}
	if c.get(run(0)) == nil || c.get(run(1)) != nil || c.get(run(many-1)) == nil || c.live.bytes > cacheBytes {
		t.Fatalf("%d bytes, limit %d", c.live.bytes, cacheBytes)
	}
	for i, s := range []store.RunState{
		{Status: store.Sleeping, UpdatedUnixMs: 5, WakeUnixMs: 6 + nearMs},
		{Status: store.Completed, WakeUnixMs: store.NoWake, Deleted: true},
	} {
		c.put(run(0), &record{stored: stored{state: s}})
		if c.get(run(0)) != nil {
			t.Errorf("state %d is kept", i)
		}
	}
	for i := range many {
		c.put(run(i), nil)
	}
	if c.live.bytes != 0 || c.live.lru.Len() != 0 || len(c.items) != 0 {
		t.Errorf("%d bytes in %d records are left", c.live.bytes, c.live.lru.Len())
	}
}

// TestCacheOfEnded caches ended runs, and ids without a run, but these never evict live runs.
func TestCacheOfEnded(t *testing.T) {
	var c cache
	run := func(i int) store.RunKey { return store.RunKey{ID: fmt.Sprint(i)} }
	live := &record{stored: stored{state: store.RunState{Status: store.Sleeping}}, last: make([]byte, cacheBytes)}
	c.put(run(-1), live)
	for i := range 3 * endedBytes / recordBytes {
		r := absent
		if i%2 == 0 {
			r = &record{stored: stored{state: store.RunState{Status: store.Completed, WakeUnixMs: store.NoWake}}}
		}
		c.put(run(i), r)
		if c.get(run(i)) != r {
			t.Fatalf("%d is not kept", i)
		}
	}
	if c.get(run(-1)) != live || c.get(run(0)) != nil || c.ended.bytes > endedBytes || c.ended.bytes < endedBytes/2 {
		t.Errorf("%d bytes of what has ended, the limit is %d", c.ended.bytes, endedBytes)
	}
	long := store.RunKey{ID: strings.Repeat("x", abi.MaxRunIDBytes+1)}
	if c.put(long, absent); c.get(long) != nil {
		t.Error("an id is kept that no run can have")
	}
	c.put(run(-1), &record{stored: stored{state: store.RunState{Status: store.Failed}}})
	if c.live.bytes != 0 || c.live.lru.Len() != 0 {
		t.Errorf("a run that has ended is kept with those that go on: %d bytes", c.live.bytes)
	}
}

// TestCacheAnswers reads an id without a run, and the end of an ended run: both come from memory as they are durable,
// also while a commit of the run is in flight, and after it.
func TestCacheAnswers(t *testing.T) {
	run := store.RunKey{ID: "r"}
	s, g := openGate(t)
	part := acquire(t, s, run.Partition())
	commit := func(expect int, status store.Status) store.RunCommit {
		e := store.Entry{Seq: store.Seq(expect), Kind: store.KindSleep, Data: []byte{byte(expect)}}
		return store.RunCommit{Run: run, Create: expect == 0, Expect: e.Seq, Append: []store.Entry{e}, State: store.RunState{
			Run: run, Length: e.Seq + 1, Status: status, WakeUnixMs: store.NoWake}}
	}
	check := func(when string, length int) {
		t.Helper()
		st, err := s.State(t.Context(), run)
		if length == 0 && !errors.Is(err, store.ErrNotFound) || length > 0 && (err != nil || st.Length != store.Seq(length)) {
			t.Errorf("%s: %d entries, %v, want %d", when, st.Length, err, length)
		}
		n := 0
		for e, err := range s.Load(t.Context(), run, 0, store.Seq(max(length-1, 0))) {
			if err != nil || e.Seq != store.Seq(length-1) || e.Data[0] != byte(length-1) {
				t.Errorf("%s: entry %d, %v", when, e.Seq, err)
			} else {
				e.Data[0] = 0xff // the caller's own
			}
			n++
		}
		if n != min(length, 1) {
			t.Errorf("%s: %d entries, want the last one of %d", when, n, length)
		}
	}
	check("before the start", 0)
	if !s.Absent(run) {
		t.Error("that there is no such run is not kept")
	}
	for i, status := range []store.Status{store.Sleeping, store.Completed, store.Sleeping, store.Failed} {
		when := fmt.Sprintf("commit %d", i)
		before := s.db.Metrics().WAL.BytesIn
		g.set(true)
		done := make(chan error, 1)
		go func() { done <- part.Commit(t.Context(), []store.RunCommit{commit(i, status)}) }()
		for s.db.Metrics().WAL.BytesIn == before { //nolint:revive // until it is applied
		}
		if i > 0 { // an absent run's journal is only read without a commit in flight
			check(when+", in flight", i)
		} else if _, err := s.State(t.Context(), run); !errors.Is(err, store.ErrNotFound) {
			t.Error(err)
		}
		g.set(false)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		check(when, i+1)
		if s.cache.get(run) == nil {
			t.Errorf("%s: the run is not kept", when)
		}
	}
	if err := part.Commit(t.Context(), []store.RunCommit{{Run: run, Delete: true}}); err != nil {
		t.Fatal(err)
	}
	check("deleted", 0)
}

// TestCacheOfQueued keeps runs that wait for a place of an attempt, and lets none of them push out others.
func TestCacheOfQueued(t *testing.T) {
	var c cache
	run := func(i int) store.RunKey { return store.RunKey{ID: fmt.Sprint(i)} }
	live := &record{stored: stored{state: store.RunState{Status: store.Sleeping}}, last: make([]byte, cacheBytes)}
	c.put(run(-1), live)
	const many = 3 * queuedBytes / recordBytes
	for i := range many {
		r := &record{stored: stored{state: store.RunState{Status: store.Waiting, UpdatedUnixMs: 5, WakeUnixMs: 5}}}
		c.put(run(i), r)
		if c.get(run(i)) != r {
			t.Fatalf("%d is not kept", i)
		}
	}
	if c.get(run(-1)) != live || c.get(run(0)) != nil || c.queued.bytes > queuedBytes || c.queued.bytes < queuedBytes/2 {
		t.Errorf("%d bytes of runs that wait for a place, the limit is %d", c.queued.bytes, queuedBytes)
	}
	c.put(run(many-1), &record{stored: stored{state: store.RunState{Status: store.Running, UpdatedUnixMs: 6, WakeUnixMs: 6}}})
	if n := c.live.lru.Len(); n != 1 || c.live.lru.Front().Value.(*item).run != run(many-1) { //nolint:forcetypeassert // see get
		t.Errorf("%d runs are kept with those that continue", n)
	}
}

// TestRecordBytesAreReal compares what records count as with what the heap has for them.
func TestRecordBytesAreReal(t *testing.T) {
	heap := func() int {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	c := &cache{}
	const n = 20_000
	for i := range n {
		run := store.RunKey{ID: fmt.Sprintf("order-2026-11-%08d", i)}
		c.put(run, &record{stored: stored{state: store.RunState{Run: run, Workflow: "w", Status: store.Sleeping}}, last: make([]byte, 500)})
	}
	took, counted := heap()-before, c.live.bytes
	if counted < took*9/10 || counted > took*12/10 {
		t.Errorf("a record takes %d bytes and counts as %d", took/n, counted/n)
	}
	t.Logf("a record takes %d bytes and counts as %d", took/n, counted/n)
	runtime.KeepAlive(c)
}
