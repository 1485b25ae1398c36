package admission

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
)

// refusals counts the refusals of callers that retry at once, during a period.
func refusals(t *testing.T, b *RefusalDelay[string], callers int, during time.Duration) (n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), during)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for b.Delay(ctx, "a", 0); ctx.Err() == nil; b.Delay(ctx, "a", 0) {
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
			var b RefusalDelay[string]
			if n := refusals(t, &b, c.callers, 10*time.Second); n < c.least || n > c.most {
				t.Errorf("%d callers were refused %d times in 10 s, want %d to %d", c.callers, n, c.least, c.most)
			}
			<-clock.System().NewTimer(longest).C() // a caller that gave up counts for as long as it should have waited
			synctest.Wait()
			if len(b.waiting) != 0 {
				t.Errorf("it remembers %v", b.waiting)
			}
		})
	}
}

// Keys are independent, and a caller whose ctx is done does not wait.
func TestHoldAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b RefusalDelay[string]
		ctx, cancel := context.WithCancel(t.Context())
		for range 500 {
			go b.Delay(ctx, "a", 0)
		}
		synctest.Wait()
		begun := time.Now()
		b.Delay(ctx, "b", 0)
		if took := time.Since(begun); took != each {
			t.Errorf("another key waited %v, want %v", took, each)
		}
		cancel()
		begun = time.Now()
		b.Delay(ctx, "a", 0)
		if took := time.Since(begun); took != 0 {
			t.Errorf("after the end of its context it waited %v", took)
		}
	})
}

// A refusal that took long is delayed longer, so that a caller that retries at once uses only a tenth of its time.
func TestHoldDear(t *testing.T) {
	for _, c := range []struct{ took, want time.Duration }{{0, each}, {each / 10, each}, {time.Second / 2, 9 * time.Second / 2},
		{time.Hour, longestDear}} {
		synctest.Test(t, func(t *testing.T) {
			var b RefusalDelay[int]
			begun := time.Now()
			if b.Delay(t.Context(), 1, c.took); time.Since(begun) != c.want {
				t.Errorf("after %v it waited %v, want %v", c.took, time.Since(begun), c.want)
			}
		})
	}
}

// If a caller gives up its wait, later callers with its key wait for it.
func TestHoldGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b RefusalDelay[int]
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for range 100 {
			b.Delay(gone, 1, 0)
		}
		begun := time.Now()
		if b.Delay(t.Context(), 1, 0); time.Since(begun) != 101*each {
			t.Errorf("it waited %v behind 100 that had given up", time.Since(begun))
		}
	})
}
