package brake

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// refusals returns how often callers are refused in a while who ask again and again.
func refusals(t *testing.T, b *Brake[string], callers int, during time.Duration) (n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), during)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for b.Hold(ctx, "a"); ctx.Err() == nil; b.Hold(ctx, "a") {
				mu.Lock()
				n++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return n
}

func TestHold(t *testing.T) {
	for _, c := range []struct{ callers, least, most int }{{1, 9990, 10000}, {32, 9000, 11000}, {1000, 9000, 11000}, {5000, 45000, 55000}} {
		synctest.Test(t, func(t *testing.T) {
			var b Brake[string]
			if n := refusals(t, &b, c.callers, 10*time.Second); n < c.least || n > c.most {
				t.Errorf("%d callers were refused %d times in 10 s, want %d to %d", c.callers, n, c.least, c.most)
			}
			if len(b.waiting) != 0 {
				t.Errorf("it remembers %v", b.waiting)
			}
		})
	}
}

// One key does not wait for another one, and nobody waits when ctx is done.
func TestHoldAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Brake[string]
		ctx, cancel := context.WithCancel(t.Context())
		for range 500 {
			go b.Hold(ctx, "a")
		}
		synctest.Wait()
		begun := time.Now()
		b.Hold(ctx, "b")
		if took := time.Since(begun); took != each {
			t.Errorf("another key waited %v, want %v", took, each)
		}
		cancel()
		begun = time.Now()
		b.Hold(ctx, "a")
		if took := time.Since(begun); took != 0 {
			t.Errorf("after the end of its context it waited %v", took)
		}
	})
}
