package bench

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/host"
)

// recorder measures the operations of runs by their commits. An operation ends when its commit is durable.
type recorder struct {
	// ops returns how many operations a run has done, from its newest commit.
	ops func(host.Run) int
	// next returns when the run's next operation begins: at the commit, or at an instant that the commit names; zero
	// if the commit does not tell.
	next func(r host.Run, now time.Time) time.Time

	mu      sync.Mutex
	runs    map[string]progress
	on      bool
	left    int // operations until full; 0 = unlimited
	full    chan struct{}
	samples []time.Duration
	commits int // of runs past their start
	free    int // operations that shared a commit with another one, and are not counted
}

type progress struct {
	ops  int
	from time.Time
}

func newRecorder(ops func(host.Run) int, next func(host.Run, time.Time) time.Time) *recorder {
	return &recorder{ops: ops, next: next, runs: map[string]progress{}, full: make(chan struct{})}
}

// commit takes a commit.
func (c *recorder) commit(r host.Run, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, known := c.runs[r.ID]
	ops := c.ops(r)
	if c.on && !p.from.IsZero() {
		c.commits++
	}
	if done := ops - p.ops; done > 0 && known {
		if !p.from.IsZero() {
			done--
			c.sample(now.Sub(p.from))
		}
		if c.on {
			c.free += done
		}
		p.from = time.Time{}
	}
	if r.Status.Terminal() {
		delete(c.runs, r.ID)
		return
	}
	if from := c.next(r, now); !from.IsZero() {
		p.from = from
	}
	p.ops = ops
	c.runs[r.ID] = p
}

func (c *recorder) sample(d time.Duration) {
	if !c.on {
		return
	}
	c.samples = append(c.samples, d)
	c.left--
	if c.left == 0 {
		c.on = false
		close(c.full)
	}
}

// due counts the runs whose next operation is due.
func (c *recorder) due(now time.Time) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.runs {
		if !p.from.IsZero() && !p.from.After(now) {
			n++
		}
	}
	return n
}

// begin starts counting operations, n at most; 0 = unlimited.
func (c *recorder) begin(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on, c.left = true, n
}

// counting reports whether operations count at the moment.
func (c *recorder) counting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.on
}

// taken stops counting and returns the samples.
func (c *recorder) taken() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on = false
	return c.samples
}

// crew repeats an operation in a growing number of goroutines until ctx is done or an operation fails.
type crew struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	do     func(ctx context.Context, number int) error // number counts the operations of all goroutines
	next   atomic.Int64
	size   int
	wg     sync.WaitGroup

	isReady sync.Once
	filled  chan struct{}
}

func newCrew(ctx context.Context, do func(ctx context.Context, number int) error) *crew {
	w := &crew{do: do, filled: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	return w
}

func (w *crew) add(n int) {
	w.size += n
	for range n {
		w.wg.Go(func() {
			for w.ctx.Err() == nil {
				if err := w.do(w.ctx, int(w.next.Add(1)-1)); err != nil {
					w.cancel(err) // the first cause wins, and errors after the end do not count
				}
			}
		})
	}
}

// end stops the crew and returns the error that had stopped it before, if any.
func (w *crew) end() error {
	w.cancel(errOver)
	w.wg.Wait()
	if err := context.Cause(w.ctx); !errors.Is(err, errOver) {
		return err
	}
	return nil
}

// errOver is the cause of a cancellation at the end of the measured time.
var errOver = errors.New("the measured time is over")

// rest waits until d has passed or full is closed. Meanwhile it calls tend periodically, unless tend is nil.
func (w *crew) rest(d time.Duration, full <-chan struct{}, tend func(*crew)) {
	t := time.NewTimer(d)
	defer t.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	if tend == nil {
		look.Stop()
	}
	for {
		select {
		case <-t.C:
			return
		case <-full:
			return
		case <-w.ctx.Done():
			return
		case <-look.C:
			tend(w)
		}
	}
}

// ready ends the wait before the warm-up.
func (w *crew) ready() { w.isReady.Do(func() { close(w.filled) }) }

// closedLoop runs operations in a crew of n as fast as it can, and measures for the duration or the number of
// operations in the flags. tend, if set, is called periodically; the warm-up begins once it has called ready.
func (s *session) closedLoop(n int, c *recorder, do func(ctx context.Context, number int) error, tend func(*crew)) (usage,
	error) {
	s.onCommit(c.commit)
	defer s.onCommit(nil)
	return s.measure(n, c, do, tend)
}

// measure is closedLoop for a do that takes the samples itself.
func (s *session) measure(n int, c *recorder, do func(ctx context.Context, number int) error, tend func(*crew)) (usage,
	error) {
	w := newCrew(s.ctx, do)
	w.add(n)
	s.env.Say("warm-up")
	if tend != nil {
		w.rest(maxFor, w.filled, tend)
	}
	w.rest(s.o.WarmUp, nil, tend)
	s.env.Say("measurement")
	measured := s.open()
	c.begin(s.o.N)
	if s.o.For == 0 {
		w.rest(maxFor, c.full, tend)
	} else {
		w.rest(s.o.For, nil, tend)
	}
	c.taken()
	u, err := measured.close()
	return u, errors.Join(w.end(), err)
}
