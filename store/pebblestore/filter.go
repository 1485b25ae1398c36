package pebblestore

import (
	"runtime"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/wfhost/wfhost/store/pebblestore/logfs"
)

// filterBits is how many bits of a table's filter a key takes: of 100 that are not there, one is looked for in vain.
const filterBits = 10

// yieldKeys is how many keys a table gets before others may compute: some hundred microseconds of it.
const yieldKeys = 64

// yieldShare is how much longer a table may take for its yields than it computes. A flush that never comes to its end
// is worse than one that others wait for: writes stall when the next memtable is full as well.
const yieldShare = 3

// filter is Pebble's own bloom filter. It is also where the goroutine that writes a table comes by with each key, and lets
// others compute. Go takes the processor from it after 10 ms only, and meanwhile a writer that happens to wait behind it
// does nothing, nor does any of its runs; a flush takes some 40 ms.
type filter struct{ bloom.FilterPolicy }

func newFilter() pebble.FilterPolicy { return filter{bloom.FilterPolicy(filterBits)} }

// NewWriter implements pebble.FilterPolicy.
func (f filter) NewWriter(t pebble.FilterType) pebble.FilterWriter {
	return &filterWriter{FilterWriter: f.FilterPolicy.NewWriter(t)}
}

type filterWriter struct {
	pebble.FilterWriter
	keys     int
	since    time.Duration // logfs.Elapsed when it last went on, 0 at the beginning
	yielded  time.Duration // what all yields took
	computed time.Duration // between them
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
