// Package errand has things done beside the writers of shards, a few at a time: mostly runs that are read. What is asked for by
// those who have many runs waits behind itself, and not others behind it: a run that starts children without end would
// otherwise have thousands of goroutines ready, and each step of every other run would wait for them all.
package errand

import (
	"sync"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
)

const (
	// Reads is how many runs are read at a time: enough for a disk that answers several at once, and some milliseconds of computing
	// on two processors.
	Reads = 16
	// ChildStarts is how many starts of children are on their way at a time, until they are durable: enough to fill a commit. What
	// writers do for them is no more than some milliseconds, for which others wait.
	ChildStarts = 64
	// LongestStart is how long one counts for that: twice as long as a start waits for its first activation, to be committed with
	// it. A child may have the id of a run for whose journal there is no room, and would count for minutes.
	LongestStart = 100 * time.Millisecond
)

// Pool does errands. Its methods may be called concurrently.
type Pool struct {
	limit int                 // of those that are done at a time
	begin func() (end func()) // is called when one is asked for, and end when it has been done

	mu    sync.Mutex // guards what follows; nothing is called while it is held
	going int
	lines map[uint32]*line // of namespaces that have errands waiting
	turns []*line          // the same; the first one is next
	back  []chan struct{}  // those that go on with an errand: see Errand.Aside
	waits int
}

// line is the errands of a namespace that wait.
type line struct {
	of  uint32
	all []func(e *Errand)
}

// Errand is one that is done.
type Errand struct {
	p    *Pool
	kept bool
}

// New returns a Pool that does so many errands at a time. begin is called for each when it is asked for, and end when it was
// done.
func New(limit int, begin func() (end func())) *Pool {
	return &Pool{limit: limit, begin: begin, lines: map[uint32]*line{}}
}

// Go does something for a namespace, in a goroutine, when others of other namespaces have had their turns.
func (p *Pool) Go(namespace uint32, f func(e *Errand)) {
	end := p.begin()
	do := func(e *Errand) {
		defer end()
		f(e)
	}
	p.mu.Lock()
	if p.going < p.limit { // then nothing waits
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

// work does errands, one after the other, while any wait.
func (p *Pool) work(do func(e *Errand)) {
	for do != nil {
		e := &Errand{p: p}
		if do(e); e.kept {
			return
		}
		do = p.next()
	}
}

// Keep has the errand count as one that is done until release is called, once or more, or so much time has passed. It is called
// by the function that does it; a nil Errand is none that counts.
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

// next returns the errand that is next. If there is none, or somebody goes on in its place, it returns nil.
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

// Aside does something of an errand that may take long, and does not compute: others are done meanwhile.
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

// Waiting returns how many errands wait.
func (p *Pool) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waits
}
