package runtime

import (
	"sync"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/fairqueue"
)

const (
	// concurrentReads is how many runs are read at a time: enough for a disk that answers several requests at once, and a few
	// milliseconds of computing on two processors.
	concurrentReads = 16
	// concurrentChildStarts is how many starts of children are in flight until they are durable: enough to fill a commit. Writers
	// handle them in a few milliseconds, during which other runs wait.
	concurrentChildStarts = 64
	// longestChildStart is how long a start of a child holds its permit at most: twice as long as a start waits for its first
	// activation, to be committed with it. A child may have the id of a run for whose journal there is no room, and would
	// hold the permit for minutes.
	longestChildStart = 100 * time.Millisecond
	// After a burst of so many tasks, and if none follows within restAfter, a pool calls workPool.rest. A garbage collection takes a
	// few percent of what that many reads take.
	burst     = 10_000
	restAfter = 5 * time.Second
)

// workPool runs tasks outside the writers of shards, at most limit at a time; most of them read runs. Namespaces take turns, so
// a namespace with many tasks delays only itself. Without the pool, a run that starts children without end would keep thousands
// of goroutines ready, and each step of every other run would wait for them all. Its methods may be called concurrently.
type workPool struct {
	limit int                 // tasks in flight, at most
	begin func() (end func()) // begin is called when a task is submitted, and end when it has returned
	rest  func()              // called some time after a burst; nil for none

	mu      sync.Mutex                                 // guards the fields below; no callback is called while it is held
	running int                                        // permits in use
	waits   fairqueue.Queue[uint32, func(e *poolTask)] // by namespace
	back    []chan struct{}                            // tasks that wait for a permit after WithoutPermit
	tasks   int                                        // submitted since the last call of rest
	rests   bool                                       // a timer runs: see waitForRestLocked
}

// poolTask is a task in flight.
type poolTask struct {
	p    *workPool
	kept bool // Keep was called: the permit is freed by its release
}

// newWorkPool returns a workPool that performs at most limit tasks at a time. begin is called when a task is submitted, and
// end when it has returned.
func newWorkPool(limit int, begin func() (end func())) *workPool {
	return &workPool{limit: limit, begin: begin}
}

// Go runs f in a goroutine once there is a permit. Namespaces with waiting tasks take turns.
func (p *workPool) Go(namespace uint32, f func(e *poolTask)) {
	end := p.begin()
	do := func(e *poolTask) {
		defer end()
		f(e)
	}
	p.mu.Lock()
	if p.tasks++; p.tasks >= burst && p.rest != nil && !p.rests {
		p.rests = true
		p.waitForRestLocked()
	}
	if p.running < p.limit { // then no task waits
		p.running++
		p.mu.Unlock()
		go p.work(do)
		return
	}
	p.waits.Push(namespace, do)
	p.mu.Unlock()
}

// waitForRestLocked calls rest when no task has been submitted for restAfter.
func (p *workPool) waitForRestLocked() {
	before := p.tasks
	clock.AfterFunc(clock.System(), restAfter, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.tasks != before || p.running > 0 {
			p.waitForRestLocked()
			return
		}
		p.tasks, p.rests = 0, false
		go p.rest()
	})
}

// work performs do and then waiting tasks, one after the other, until none is left.
func (p *workPool) work(do func(e *poolTask)) {
	for do != nil {
		e := &poolTask{p: p}
		if do(e); e.kept {
			return
		}
		do = p.next()
	}
}

// Keep holds the task's permit until release is called or most has passed. release is idempotent. The function of the
// task calls Keep before it returns. A nil poolTask has no permit.
func (e *poolTask) Keep(most time.Duration) (release func()) {
	if e == nil {
		return func() {}
	}
	e.kept = true
	over := sync.OnceFunc(func() {
		if do := e.p.next(); do != nil {
			go e.p.work(do)
		}
	})
	stop := clock.AfterFunc(clock.System(), most, over)
	return func() {
		stop()
		over()
	}
}

// next returns the next task for a permit that is free. It returns nil if it gave the permit to a task that waits
// after WithoutPermit, or if no task waits.
func (p *workPool) next() func(e *poolTask) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.back) > 0 {
		close(p.back[0])
		p.back = p.back[1:]
		return nil
	}
	namespace, do, ok := p.waits.Pop()
	if !ok {
		p.running--
		return nil
	}
	p.waits.Charge(namespace, 1)
	return do
}

// WithoutPermit calls do, which may take long and does not compute. Meanwhile it gives the permit to another task; afterwards
// it blocks until there is a permit again.
func (e *poolTask) WithoutPermit(do func()) {
	p := e.p
	if next := p.next(); next != nil {
		go p.work(next)
	}
	do()
	p.mu.Lock()
	if p.running < p.limit {
		p.running++
		p.mu.Unlock()
		return
	}
	back := make(chan struct{})
	p.back = append(p.back, back)
	p.mu.Unlock()
	<-back
}

// Waiting returns the number of tasks that wait for their turn.
func (p *workPool) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waits.Len()
}
