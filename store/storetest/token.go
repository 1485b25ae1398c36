package storetest

import (
	"context"
	"reflect"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// testTokens adds tokens, finds them after a restart, and deletes one, which is gone after another restart.
func testTokens(t *testing.T, e *env) {
	ctx := context.Background()
	all := func() (list []store.Token) {
		t.Helper()
		for tok, err := range e.s.Tokens().All(ctx) {
			e.ok(err)
			list = append(list, tok)
		}
		return list
	}
	if list := all(); len(list) != 0 {
		t.Fatalf("tokens of a new store: %v", list)
	}
	want := []store.Token{{Hash: store.Digest{0, 0, 1}}, {Hash: store.Digest{1, 0xff}, Name: "ci", Namespace: "team-a",
		Scopes: []string{"read", "run"}, CreatedUnixMs: 5, ExpiresUnixMs: 6},
		{Hash: store.Digest{0xff, 0xff}, Scopes: []string{"admin"}}}
	for _, i := range []int{1, 0, 2} {
		e.ok(e.s.Tokens().Add(ctx, want[i]))
	}
	e.is(e.s.Tokens().Add(ctx, store.Token{Hash: want[1].Hash, Name: "another"}), store.ErrExists)
	for range 2 {
		if list := all(); !reflect.DeepEqual(list, want) {
			t.Fatalf("tokens %+v, want %+v", list, want)
		}
		for _, w := range want {
			if got, err := e.s.Tokens().Token(ctx, w.Hash); err != nil || !reflect.DeepEqual(got, w) {
				t.Fatalf("token %+v %v, want %+v", got, err, w)
			}
		}
		e.reopen()
	}
	for range e.s.Tokens().All(ctx) {
		break // giving up early is legal
	}
	e.ok(e.s.Tokens().Delete(ctx, want[1].Hash))
	e.is(e.s.Tokens().Delete(ctx, want[1].Hash), store.ErrNotFound)
	for range 2 {
		_, err := e.s.Tokens().Token(ctx, want[1].Hash)
		e.is(err, store.ErrNotFound)
		if list := all(); !reflect.DeepEqual(list, []store.Token{want[0], want[2]}) {
			t.Fatalf("tokens after a deletion: %+v", list)
		}
		e.reopen()
	}
	e.ok(e.s.Close())
	_, err := e.s.Tokens().Token(ctx, want[0].Hash)
	e.is(err, store.ErrClosed)
	e.is(e.s.Tokens().Add(ctx, want[1]), store.ErrClosed)
	e.is(e.s.Tokens().Delete(ctx, want[0].Hash), store.ErrClosed)
	for _, err := range e.s.Tokens().All(ctx) {
		e.is(err, store.ErrClosed)
	}
}
