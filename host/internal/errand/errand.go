// Package errand runs tasks outside the writers of shards, a few at a time; most of them read runs. Namespaces take
// turns, so a namespace with many errands delays only itself. Otherwise a run that starts children without end would
// keep thousands of goroutines ready, and each step of every other run would wait for them all.
package errand

import (
	"sync"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
)

const (
	// Reads is how many runs are read at a time: enough for a disk that answers several requests at once, and a few
	// milliseconds of computing on two processors.
	Reads = 16
	// ChildStarts is how many starts of children are in flight until they are durable: enough to fill a commit. Writers
	// handle them in a few milliseconds, during which other runs wait.
	ChildStarts = 64
	// LongestStart is how long a start of a child holds its slot at most: twice as long as a start waits for its first
	// activation, to be committed with it. A child may have the id of a run for whose journal there is no room, and would
	// hold the slot for minutes.
	LongestStart = 100 * time.Millisecond
)

// Pool performs errands, at most limit at a time. Its methods may be called concurrently.
type Pool struct {
	limit int                 // errands in flight, at most
	begin func() (end func()) // begin is called when an errand is submitted, and end when it has returned

	mu    sync.Mutex       // guards the fields below; no callback is called while it is held
	going int              // slots in use
	lines map[uint32]*line // by namespace; only namespaces with waiting errands
	turns []*line          // the values of lines; the first one is next
	back  []chan struct{}  // errands that wait for a slot after Aside
	waits int              // waiting errands in lines
}

// line holds the waiting errands of a namespace.
type line struct {
	of  uint32
	all []func(e *Errand)
}

// Errand is an errand in flight.
type Errand struct {
	p    *Pool
	kept bool // Keep was called: the slot is freed by its release
}

// New returns a Pool that performs at most limit errands at a time. begin is called when an errand is submitted, and
// end when it has returned.
func New(limit int, begin func() (end func())) *Pool {
	return &Pool{limit: limit, begin: begin, lines: map[uint32]*line{}}
}

// Go runs f in a goroutine once there is a slot. Namespaces with waiting errands take turns.
func (p *Pool) Go(namespace uint32, f func(e *Errand)) {
	end := p.begin()
	do := func(e *Errand) {
		defer end()
		f(e)
	}
	p.mu.Lock()
	if p.going < p.limit { // then no errand waits
		p.going++
		p.mu.Unlock()
		go p.work(do)
		return
	}
	l := p.lines[namespace]
	if l == nil {
		l = &line{of: namespace}
		p.lines[namespace] = l
		p.turns = append(p.turns, l)
	}
	l.all = append(l.all, do)
	p.waits++
	p.mu.Unlock()
}

// work performs do and then waiting errands, one after the other, until none is left.
func (p *Pool) work(do func(e *Errand)) {
	for do != nil {
		e := &Errand{p: p}
		if do(e); e.kept {
			return
		}
		do = p.next()
	}
}

// Keep holds the errand's slot until release is called or most has passed. release is idempotent. The function of the
// errand calls Keep before it returns. A nil Errand has no slot.
func (e *Errand) Keep(most time.Duration) (release func()) {
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

// next returns the next errand for a slot that is free. It returns nil if it gave the slot to an errand that waits
// after Aside, or if no errand waits.
func (p *Pool) next() func(e *Errand) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.back) > 0 {
		close(p.back[0])
		p.back = p.back[1:]
		return nil
	}
	if len(p.turns) == 0 {
		p.going--
		return nil
	}
	l := p.turns[0]
	do := l.all[0]
	l.all[0] = nil
	l.all = l.all[1:]
	p.waits--
	p.turns = p.turns[1:]
	if len(l.all) > 0 {
		p.turns = append(p.turns, l)
	} else {
		delete(p.lines, l.of)
	}
	return do
}

// Aside calls do, which may take long and does not compute. Meanwhile it gives the slot to another errand; afterwards
// it blocks until there is a slot again.
func (e *Errand) Aside(do func()) {
	p := e.p
	if next := p.next(); next != nil {
		go p.work(next)
	}
	do()
	p.mu.Lock()
	if p.going < p.limit {
		p.going++
		p.mu.Unlock()
		return
	}
	back := make(chan struct{})
	p.back = append(p.back, back)
	p.mu.Unlock()
	<-back
}

// Waiting returns the number of errands that wait for their turn.
func (p *Pool) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waits
}
