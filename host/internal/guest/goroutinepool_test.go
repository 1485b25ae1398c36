package guest

import (
	"github.com/wfhost/wfhost/host/internal/clock"
	"sync"
	"testing"
	"testing/synctest"
)

// TestPool calls functions in sequence and concurrently, and leaves no goroutine behind.
func TestPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p goroutinePool
		idle := func() int {
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(p.spare)
		}
		for range 10 {
			called := make(chan struct{})
			p.Go(func() { close(called) })
			<-called
			synctest.Wait()
			if n := idle(); n != 1 {
				t.Fatalf("%d goroutines wait after one that was used again", n)
			}
		}
		var wg sync.WaitGroup
		wg.Add(100)
		for range 100 {
			p.Go(wg.Done)
		}
		wg.Wait()
		synctest.Wait()
		if n := idle(); n > maxSpare() {
			t.Errorf("%d goroutines wait, %d may", n, maxSpare())
		}
		// A function that is passed at the moment when an idle goroutine gives up is still called.
		for range 100 {
			<-clock.System().NewTimer(spareFor).C()
			wg.Add(1)
			p.Go(wg.Done)
			wg.Wait()
		}
		<-clock.System().NewTimer(2 * spareFor).C()
		synctest.Wait()
		if n := idle(); n != 0 {
			t.Errorf("%d goroutines wait for ever", n)
		}
	})
}
