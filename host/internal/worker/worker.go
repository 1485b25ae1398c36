// Package worker calls functions in goroutines that it uses again: a stack that has grown once is worth keeping.
package worker

import (
	"runtime"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
)

// Pool is goroutines that wait a while for more to do when they have nothing. The zero value has none.
type Pool struct {
	mu    sync.Mutex
	spare []chan func()
}

// system is the machine's clock even where the host runs in virtual time: what waits here are goroutines, not runs.
var system = clock.System()

// spareFor is how long a goroutine without work stays.
const spareFor = 100 * time.Millisecond

// maxSpare is how many goroutines without work there are: as many as can do something at a time.
func maxSpare() int { return runtime.GOMAXPROCS(0) }

// Go calls f in a goroutine.
func (p *Pool) Go(f func()) {
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

func (p *Pool) work(f func()) {
	c := make(chan func(), 1)
	t := system.NewTimer(spareFor)
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
		t = clock.Again(system, t, spareFor)
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
		f = <-c // it was called at the same time
	}
}
