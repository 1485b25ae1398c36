package shard_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/wfhost/wfhost/host/internal/shard"
)

func never() bool { return false }

// TestWait waits for work in progress, and for the work that it causes.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a shard.Activity
		a.Begin()
		waited := make(chan uint64)
		go func() {
			begun, err := a.Wait(t.Context(), never)
			if err != nil {
				t.Error(err)
			}
			waited <- begun
		}()
		synctest.Wait()
		a.Begin() // by what goes on
		a.Done()
		synctest.Wait()
		select {
		case <-waited:
			t.Fatal("Wait has returned, and something goes on")
		default:
		}
		a.Done()
		if n := <-waited; n != 2 || a.Begun() != 2 {
			t.Errorf("Wait says that %d began, and Begun %d, want 2", n, a.Begun())
		}
	})
}

// TestWaitIsOver waits for work that never ends.
func TestWaitIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a shard.Activity
		a.Begin()
		over := false
		waited := make(chan error)
		wait := func(ctx context.Context) {
			_, err := a.Wait(ctx, func() bool { return over })
			waited <- err
		}
		ctx, cancel := context.WithCancel(t.Context())
		go wait(ctx)
		synctest.Wait()
		cancel()
		if err := <-waited; !errors.Is(err, context.Canceled) {
			t.Errorf("Wait returned %v, want that it was cancelled", err)
		}
		go wait(t.Context())
		synctest.Wait()
		over = true
		a.Wake()
		if err := <-waited; err != nil {
			t.Error(err)
		}
	})
}
