package pebblestore

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/wfhost/wfhost/store/pebblestore/logfs"
)

// The filter is Pebble's, byte by byte and by name: it works with tables of older releases, and older releases work
// with its tables. It avoids searches for missing keys.
func TestFilter(t *testing.T) {
	own, pebbles := newFilter(), bloom.FilterPolicy(filterBits)
	if own.Name() != pebbles.Name() {
		t.Errorf("its name is %q, not %q", own.Name(), pebbles.Name())
	}
	a, b := own.NewWriter(pebble.TableFilter), pebbles.NewWriter(pebble.TableFilter)
	key := func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
	const keys = 5000
	for n := range uint64(keys) {
		a.AddKey(key(n))
		b.AddKey(key(n))
	}
	table := a.Finish(nil)
	if want := b.Finish(nil); string(table) != string(want) {
		t.Error("the filters differ")
	}
	wrong := 0
	for n := range uint64(keys) {
		if !own.MayContain(pebble.TableFilter, table, key(n)) {
			t.Fatalf("key %d is missing", n)
		}
		if own.MayContain(pebble.TableFilter, table, key(n+keys)) {
			wrong++
		}
	}
	if wrong > keys*3/100 {
		t.Errorf("%d of %d keys that are not there may be", wrong, keys)
	}
}

// Writing a table does not yield forever: it computes part of the time, even if other work never ends.
func TestFilterYields(t *testing.T) {
	w := &filterWriter{since: logfs.Elapsed(), yielded: time.Hour}
	before := w.yielded
	w.yield()
	if w.computed <= 0 || w.yielded != before {
		t.Error("it yields though others had more than their share")
	}
	w.computed = 2 * time.Hour
	if w.yield(); w.yielded == before {
		t.Error("it does not yield though it has computed for an hour")
	}
}
