//go:build !wasip1

package workflow

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/abi"
)

// TestSecondRunCountsItsOwnCalls leaves calls of a first run open. Their outcomes arrive while the second run opens
// as many calls as a run may have.
func TestSecondRunCountsItsOwnCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEnv()
		leaves := func(ctx context.Context, _ int) (int, error) {
			for i := range 50 {
				go func() { _ = Sleep(ctx, fmt.Sprint("left ", i), time.Hour) }()
			}
			return 1, Sleep(ctx, "own", time.Second)
		}
		if _, err := Run(t.Context(), e, leaves, 1); err != nil {
			t.Fatal(err)
		}
		const more = 100
		many := func(ctx context.Context, _ int) (int, error) {
			inner, cancel := context.WithCancel(ctx)
			defer cancel()
			refused := make(chan int, abi.MaxUnresolvedHandles+more)
			for i := range abi.MaxUnresolvedHandles + more {
				go func() {
					if errors.Is(Sleep(inner, fmt.Sprint(i), time.Hour), ErrLimit) {
						refused <- i
					}
				}()
			}
			time.Sleep(time.Minute)
			return len(refused), nil
		}
		if n, err := Run(t.Context(), e, many, 1); err != nil || n != more {
			t.Errorf("%d calls are refused, want %d: %v", n, more, err)
		}
	})
}

// TestSecondRunForgetsLostChange runs a workflow that loses no change after a workflow that lost one.
func TestSecondRunForgetsLostChange(t *testing.T) {
	e := NewEnv()
	loses := func(ctx context.Context, _ int) (int, error) {
		x := 0
		_, err := Do(ctx, "s", func(Step) (int, error) { x++; return x, nil })
		return x, err
	}
	if _, err := Run(t.Context(), e, loses, 1); !errors.Is(err, ErrLostChange) {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), e, func(context.Context, int) (int, error) { return 1, nil }, 1); err != nil {
		t.Error(err)
	}
}
