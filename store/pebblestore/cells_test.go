package pebblestore

import (
	"context"
	"fmt"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// TestCells reads a cell repeatedly while it is set, changed and deleted: the cached value equals the stored one.
func TestCells(t *testing.T) {
	ctx := context.Background()
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	queue, name := store.RunKey{Namespace: 1, ID: "q"}, []byte("cell")
	key := store.QueueKey(queue, name)
	read := func() []byte {
		t.Helper()
		list, err := s.Cells(ctx, store.CellQuery{Queue: queue, From: name, To: append(name[:len(name):len(name)], 0), Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			return nil
		}
		return list[0].Value
	}
	var before []byte
	for _, value := range [][]byte{nil, []byte("a"), []byte("bc"), nil, {}, []byte("d"), nil} {
		x := store.QueueSet{Queue: queue, Before: store.Cell{Key: name, Value: before}, Cells: []store.Cell{{Key: name, Value: value}}}
		if err := s.SetCells(ctx, x); err != nil {
			t.Fatal(err)
		}
		if _, known := s.cells.get(key); known {
			t.Errorf("a cell that was set to %q is still remembered", value)
		}
		for range 2 { // from the database, and from memory
			if got := read(); string(got) != string(value) || (got == nil) != (value == nil) {
				t.Errorf("read %q (none: %v), want %q", got, got == nil, value)
			}
		}
		if got, known := s.cells.get(key); !known || string(got) != string(value) {
			t.Errorf("%q is remembered: %v, want %q", got, known, value)
		}
		clear(read()) // a caller may change the value that it got
		if got := read(); string(got) != string(value) {
			t.Errorf("a caller has changed the value to %q, want %q", got, value)
		}
		before = value
	}
}

// TestCellsAreBounded reads more cells than the cache can hold.
func TestCellsAreBounded(t *testing.T) {
	var c cells
	for range 2 {
		c.remember([]byte("twice"), nil)
	}
	if c.bytes > 2*cellOverhead {
		t.Errorf("a cell that was noted twice takes %d bytes", c.bytes)
	}
	for i := range 3 * cellBytes / cellOverhead {
		c.remember(fmt.Append(nil, i), nil)
		if c.bytes > cellBytes+2*cellOverhead || len(c.of)*cellOverhead > c.bytes {
			t.Fatalf("%d cells take %d bytes, the limit is %d", len(c.of), c.bytes, cellBytes)
		}
	}
	c.forget(fmt.Append(nil, 3*cellBytes/cellOverhead-1))
	if _, known := c.get(fmt.Append(nil, 3*cellBytes/cellOverhead-1)); known {
		t.Error("a cell was not forgotten")
	}
}
