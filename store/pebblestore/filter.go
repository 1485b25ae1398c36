package pebblestore

import (
	"runtime"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/wfhost/wfhost/store/pebblestore/logfs"
)

// filterBits is the number of bits per key in a table's filter: one of 100 lookups of absent keys reads the table in
// vain.
const filterBits = 10

// yieldKeys is how many keys are added to a table between yields: some hundred microseconds of work.
const yieldKeys = 64

// yieldShare bounds the time in yields to this multiple of the computing time. A flush that never ends is worse than a
// flush that delays other goroutines: writes stall when the next memtable is full as well.
const yieldShare = 3

// filter is Pebble's own bloom filter, and yields the processor: the goroutine that writes a table calls it with each
// key. Go preempts that goroutine only after 10 ms, and meanwhile a waiting writer and all of its runs stand still. A
// flush takes some 40 ms.
type filter struct{ bloom.FilterPolicy }

func newFilter() pebble.FilterPolicy { return filter{bloom.FilterPolicy(filterBits)} }

// NewWriter implements pebble.FilterPolicy.
func (f filter) NewWriter(t pebble.FilterType) pebble.FilterWriter {
	return &filterWriter{FilterWriter: f.FilterPolicy.NewWriter(t)}
}

type filterWriter struct {
	pebble.FilterWriter
	keys     int
	since    time.Duration // logfs.Elapsed when it last resumed, 0 at the beginning
	yielded  time.Duration // time spent in yields
	computed time.Duration // time between yields
}

// AddKey implements pebble.FilterWriter.
func (w *filterWriter) AddKey(key []byte) {
	w.FilterWriter.AddKey(key)
	w.keys++
	if w.keys%yieldKeys == 0 {
		w.yield()
	}
}

func (w *filterWriter) yield() {
	now := logfs.Elapsed()
	if w.since != 0 {
		w.computed += now - w.since
	}
	w.since = now
	if w.yielded <= yieldShare*w.computed {
		runtime.Gosched()
		w.since = logfs.Elapsed()
		w.yielded += w.since - now
	}
}
