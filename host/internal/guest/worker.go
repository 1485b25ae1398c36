package guest

import (
	"runtime"
	"sync"
	"time"
)

// workers are goroutines that wait a while for more to do when they have nothing: the stack that a guest has grown is worth
// keeping between two wakes.
type workers struct {
	mu    sync.Mutex
	spare []chan func()
}

// spareFor is how long a goroutine without work stays.
const spareFor = 100 * time.Millisecond

// maxSpare is how many goroutines without work there are: as many as can do something at a time.
func maxSpare() int { return runtime.GOMAXPROCS(0) }

// run calls f in a goroutine.
func (w *workers) run(f func()) {
	w.mu.Lock()
	if last := len(w.spare) - 1; last >= 0 {
		c := w.spare[last]
		w.spare = w.spare[:last]
		w.mu.Unlock()
		c <- f
		return
	}
	w.mu.Unlock()
	go w.work(f)
}

func (w *workers) work(f func()) {
	c := make(chan func(), 1)
	t := budgetClock.NewTimer(spareFor)
	for {
		t.Stop()
		f()
		w.mu.Lock()
		if len(w.spare) >= maxSpare() {
			w.mu.Unlock()
			return
		}
		w.spare = append(w.spare, c)
		w.mu.Unlock()
		t = budgetClock.NewTimer(spareFor)
		select {
		case f = <-c:
			continue
		case <-t.C():
		}
		w.mu.Lock()
		for i := range w.spare {
			if w.spare[i] == c {
				w.spare = append(w.spare[:i], w.spare[i+1:]...)
				w.mu.Unlock()
				return
			}
		}
		w.mu.Unlock()
		f = <-c // it was called at the same time
	}
}
