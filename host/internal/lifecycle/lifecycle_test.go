package lifecycle

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/wfhost/wfhost/store"
)

// TestLife waits for Begin, gives up when a caller's context ends, and checks that Close cancels the started
// functions and waits for them.
func TestLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, other := NewLife(), NewLife()
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		begun, left, closed := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		go func() { begun <- l.Wait(t.Context()) }()
		go func() { left <- other.Wait(ctx) }()
		go func() { closed <- other.Wait(t.Context()) }()
		synctest.Wait()
		if len(begun)+len(left)+len(closed) > 0 {
			t.Fatal("does not wait")
		}
		l.Begin()
		cancel(gone)
		if err := <-begun; err != nil {
			t.Error(err)
		}
		if err := <-left; !errors.Is(err, gone) {
			t.Error(err)
		}
		other.Close()
		if err := <-closed; !errors.Is(err, store.ErrClosed) {
			t.Error(err)
		}

		ended := false
		if !l.Go(func(ctx context.Context) { <-ctx.Done(); ended = true }) {
			t.Error("refused before Close")
		}
		synctest.Wait()
		if l.Close(); !ended {
			t.Error("Close does not wait")
		}
		if l.Go(func(context.Context) { t.Error("called after Close") }) {
			t.Error("not refused after Close")
		}
		synctest.Wait()
	})
}
