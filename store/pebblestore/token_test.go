package pebblestore

import (
	"errors"
	"testing"
)

// TestBatchOfAFailedStore: a batch whose commit was given up because the store failed is still in use by the
// committing goroutine, so its memory must not be reused.
func TestBatchOfAFailedStore(t *testing.T) {
	s, err := Open("db", Options{FS: newGate().fs})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }() // it has failed
	b := s.db.NewBatch()
	_ = b.Set([]byte("k"), []byte("v"), nil)
	c := s.db.NewBatch()
	_ = c.Set([]byte("k"), []byte("v"), nil)
	s.drop(c)
	if c.Count() != 0 {
		t.Error("the memory of a batch is not given back")
	}
	s.fail(errors.New("disk"))
	s.drop(b)
	if b.Count() != 1 {
		t.Error("the batch of a failed store was given away")
	}
}
