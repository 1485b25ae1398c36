package pebblestore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/wfhost/wfhost/store"
)

// TestFinding_BatchOfAFailedStore: a batch whose commit was given up because the store has failed is still in use by the goroutine
// that commits it, so nobody else may get its memory.
func TestFinding_BatchOfAFailedStore(t *testing.T) {
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

// TestTokenIsDurableWhenFound reads a token while its fsync waits.
func TestTokenIsDurableWhenFound(t *testing.T) {
	s, g := openGate(t)
	ctx := context.Background()
	tok := store.Token{Hash: store.Digest{1}, Name: "n"}
	g.set(true)
	added, found := make(chan error, 1), make(chan error, 1)
	go func() { added <- s.Tokens().Add(ctx, tok) }()
	for { // until the batch is applied
		if v, err := s.get(tokenKey(tok.Hash[:])); err != nil {
			t.Fatal(err)
		} else if v != nil {
			break
		}
	}
	go func() { _, err := s.Tokens().Token(ctx, tok.Hash); found <- err }()
	select {
	case err := <-found:
		t.Fatalf("found before it is durable: %v", err)
	case err := <-added:
		t.Fatalf("added before it is durable: %v", err)
	case <-time.After(50 * time.Millisecond): // longer than a call takes that does not wait
	}
	g.set(false)
	if err := errors.Join(<-added, <-found); err != nil {
		t.Fatal(err)
	}
}
