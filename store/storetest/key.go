package storetest

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// testKeys adds keys, and finds them unchanged after a restart, also if they were added again.
func testKeys(t *testing.T, e *env) {
	ctx := context.Background()
	before, err := e.s.SealKeys(ctx)
	e.ok(err)
	if len(before) != 0 {
		t.Fatalf("keys of a new store: %v", before)
	}
	a := store.SealKey{ID: "a", Check: []byte{1, 2}, CreatedUnixMs: 5}
	b := store.SealKey{ID: strings.Repeat("b", store.MaxSealKeyID), Check: []byte{3}}
	e.ok(e.s.AddSealKey(ctx, b))
	e.ok(e.s.AddSealKey(ctx, a))
	e.ok(e.s.AddSealKey(ctx, store.SealKey{ID: "a", Check: []byte{9}}))
	for _, id := range []string{"", strings.Repeat("b", store.MaxSealKeyID+1)} {
		if err := e.s.AddSealKey(ctx, store.SealKey{ID: id}); err == nil {
			t.Fatalf("a key with an id of %d bytes is accepted", len(id))
		}
	}
	for range 2 {
		list, err := e.s.SealKeys(ctx)
		e.ok(err)
		if !reflect.DeepEqual(list, []store.SealKey{a, b}) {
			t.Fatalf("keys %v, want %v and %v", list, a, b)
		}
		e.reopen()
	}
	e.ok(e.s.Close())
	_, err = e.s.SealKeys(ctx)
	e.is(err, store.ErrClosed)
	e.is(e.s.AddSealKey(ctx, a), store.ErrClosed)
}
