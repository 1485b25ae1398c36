package guest

import (
	"runtime"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
)

// goroutinePool calls functions in goroutines and reuses these, which saves growing their stacks again. An idle goroutine
// waits for spareFor before it ends. The zero value is empty.
type goroutinePool struct {
	mu    sync.Mutex
	spare []chan func()
}

// spareFor is how long an idle goroutine stays, by the machine's clock even if the host runs in virtual time.
const spareFor = 100 * time.Millisecond

// maxSpare returns the maximum of idle goroutines: as many as can run at a time.
func maxSpare() int { return runtime.GOMAXPROCS(0) }

// Go calls f in a goroutine of the pool.
func (p *goroutinePool) Go(f func()) {
	p.mu.Lock()
	if last := len(p.spare) - 1; last >= 0 {
		c := p.spare[last]
		p.spare = p.spare[:last]
		p.mu.Unlock()
		c <- f
		return
	}
	p.mu.Unlock()
	go p.work(f)
}

func (p *goroutinePool) work(f func()) {
	c := make(chan func(), 1)
	t := clock.System().NewTimer(spareFor)
	for {
		t.Stop()
		f()
		p.mu.Lock()
		if len(p.spare) >= maxSpare() {
			p.mu.Unlock()
			return
		}
		p.spare = append(p.spare, c)
		p.mu.Unlock()
		t = clock.Again(clock.System(), t, spareFor)
		select {
		case f = <-c:
			continue
		case <-t.C():
		}
		p.mu.Lock()
		for i := range p.spare {
			if p.spare[i] == c {
				p.spare = append(p.spare[:i], p.spare[i+1:]...)
				p.mu.Unlock()
				return
			}
		}
		p.mu.Unlock()
		f = <-c // Go took this goroutine at the same time
	}
}
