package bench

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// maxOutstanding bounds the operations in flight. Beyond it the host does not keep up, and latencies would only grow
// with the duration of the measurement.
const maxOutstanding = 65_536

// pace begins n operations, rate of them per second, each in its own goroutine at its fixed instant, however long the
// others take. It returns when all have ended, with the lag of each begin behind its instant.
func (s *session) pace(rate, n int, do func(ctx context.Context, i int, meant time.Time) error) (lags []time.Duration,
	err error) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	runtime.LockOSThread() // the system wakes a thread more exactly than Go fires a timer
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

// offset returns when operation i is due at a rate per second, counted from the first instant.
func offset(i, rate int) time.Duration {
	return time.Duration(i/rate)*time.Second + time.Duration(i%rate)*time.Second/time.Duration(rate)
}

// amount returns the number of operations for a rate and the flags, and the number of warm-up operations before them.
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

// samples collects latencies from several goroutines.
type samples struct {
	mu   sync.Mutex
	list []time.Duration
}

func (l *samples) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, d)
}
