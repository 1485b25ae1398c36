package admission

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestPermits takes all permits, waits for one, and refuses more waiters than allowed.
func TestPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(context.Background())
		s := newUploads(2, 100<<20)
		var leave []func()
		for range 2 {
			l, err := s.Take(ctx, 1000<<20) // which does not wait
			if err != nil {
				t.Fatal(err)
			}
			leave = append(leave, l)
		}
		if _, err := s.Take(ctx, 101<<20); !errors.Is(err, ErrUploadsFull) {
			t.Fatal(err)
		}
		entered := make(chan func(), 2)
		own, leaves := context.WithCancelCause(ctx)
		go func() {
			l, err := s.Take(own, 60<<20)
			if err != nil {
				t.Error(err)
			}
			entered <- l
		}()
		synctest.Wait()
		if _, err := s.Take(ctx, 41<<20); !errors.Is(err, ErrUploadsFull) || s.Taken() != 2 || len(entered) != 0 {
			t.Fatal(err, s.Taken())
		}
		leave[0]()
		synctest.Wait()
		third := <-entered
		if leaves(nil); s.Taken() != 2 {
			t.Fatal(s.Taken())
		}
		gone, ended := errors.New("the client has gone"), make(chan error)
		go func() {
			_, err := s.Take(ctx, 100<<20) // nothing waits any more
			ended <- err
		}()
		synctest.Wait()
		cancel(gone)
		if err := <-ended; !errors.Is(err, gone) {
			t.Fatal(err)
		}
		leave[1]()
		third()
		if s.Taken() != 0 || s.waiting != 0 {
			t.Fatal(s.Taken(), s.waiting)
		}
	})
}
