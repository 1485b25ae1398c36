package bench

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// maxOutstanding bounds operations that were begun and have not ended: beyond it the host does not keep up, and what
// would be measured is how long the measurement goes on.
const maxOutstanding = 65_536

// pace begins n operations, rate of them in a second, each in a goroutine of its own at the instant that was meant for
// it, however long the others take, and waits until all have ended. It gives how far behind its instant each began.
func (s *session) pace(rate, n int, do func(ctx context.Context, i int, meant time.Time) error) (lags []time.Duration,
	err error) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	runtime.LockOSThread() // which the system wakes more exactly than a timer of Go
	defer runtime.UnlockOSThread()
	var wg sync.WaitGroup
	outstanding := make(chan struct{}, maxOutstanding)
	begun := time.Now()
	for i := 0; i < n && ctx.Err() == nil; i++ {
		meant := begun.Add(offset(i, rate))
		if d := time.Until(meant); d > 0 {
			pause(d)
		}
		lags = append(lags, max(time.Since(meant), 0))
		select {
		case outstanding <- struct{}{}:
		default:
			cancel(usagef("the host does not keep up with --rate %d: %d operations wait; the limit is %d", rate, len(outstanding),
				maxOutstanding))
			continue
		}
		wg.Go(func() {
			if err := do(ctx, i, meant); err != nil {
				cancel(err)
			}
			<-outstanding
		})
	}
	wg.Wait()
	return lags, context.Cause(ctx)
}

// offset gives when operation i of so many in a second is due, from the first one's instant.
func offset(i, rate int) time.Duration {
	return time.Duration(i/rate)*time.Second + time.Duration(i%rate)*time.Second/time.Duration(rate)
}

// amount gives how many operations a rate and what the user said make, and how many come before them as a warm-up.
func (c *Common) amount(rate int) (warm, n int, err error) {
	perSecond := float64(rate)
	warm, n = int(c.WarmUp.Seconds()*perSecond), c.N
	if c.For > 0 {
		n = int(c.For.Seconds() * perSecond)
	}
	if n < 1 {
		return 0, 0, usagef("--rate %d for %v makes no operation: give a greater one of them", rate, c.For)
	}
	if warm+n > maxRuns {
		return 0, 0, usagef("%d operations, the warm-up included, are too many: the limit is %d", warm+n, maxRuns)
	}
	return warm, n, nil
}

// samples are latencies that several goroutines find out.
type samples struct {
	mu   sync.Mutex
	list []time.Duration
}

func (l *samples) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, d)
}
