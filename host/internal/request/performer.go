// Package request performs the requests that programs put into the store in transactions of their own: starts, signals, cancels.
package request

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/store"
)

// Verdict says what becomes of a request after an attempt.
type Verdict uint8

// The verdicts.
const (
	Done    Verdict = iota // it is durable, and was perhaps before
	Again                  // it is tried again, later and later
	Missing                // its run or workflow does not exist: it is tried again for about a minute, and then refused
	Refused                // it cannot succeed
	Left                   // another host does it, or this one later: nothing is recorded
)

const (
	// atOnce is how many requests are performed at a time, each of another run, so that their commits share fsyncs.
	atOnce = 32
	// maxRuns is how many runs have requests in memory, so that those being performed need not be asked for one by one.
	maxRuns = 256
	// pollTime is how often the store is asked, besides when it says that there is something.
	pollTime = time.Second
	// firstDelay is the delay after a first attempt, which doubles with each one up to maxDelay.
	firstDelay = 100 * time.Millisecond
	maxDelay   = time.Minute
	// maxMissing is the number of attempts while a run or workflow is missing. Their delays add up to 51 seconds.
	maxMissing = 10
	// endTime bounds how long a stopping host waits until results are recorded.
	endTime = 5 * time.Second
)

// Config configures a Performer.
type Config struct {
	Store store.Requesting
	// Owned returns the partitions whose requests are performed; nil = all.
	Owned func() []store.PartitionID
	// Do performs a request. It is called for requests of different runs at the same time, and for those of one run in order.
	Do func(ctx context.Context, r *store.Request) (Verdict, error)
	// Report is called after an attempt whose result is durable. err is nil if the request is done. again is the delay until the
	// next attempt, 0 if there is none.
	Report func(r *store.Request, err error, again time.Duration)
	// Failed is called when the store cannot be asked, or has not recorded results.
	Failed func(err error)
}

// attempt is an attempt of a request.
type attempt struct {
	request *store.Request
	result  store.RequestResult
	err     error
}

// batch is what was done with the requests of a run.
type batch struct {
	run      store.RunKey
	attempts []attempt
}

// Perform takes and performs requests until ctx is done.
func Perform(ctx context.Context, c Config) {
	p := &performer{Config: c, busy: map[store.RunKey]bool{}, places: make(chan struct{}, atOnce),
		finished: make(chan batch, maxRuns)}
	var listening sync.WaitGroup
	defer listening.Wait()
	arrived := make(chan struct{}, 1)
	listening.Go(func() {
		c.Store.Listen(ctx, func() {
			select {
			case arrived <- struct{}{}:
			default:
			}
		})
	})
	more := true // the store may have requests that are due
	for {
		if more && len(p.busy) <= maxRuns/2 {
			p.take(ctx)
			more = false
		}
		poll := clock.System().NewTimer(pollTime)
		select {
		case b := <-p.finished:
			more = p.end(ctx, b)
		case <-arrived:
			more = true
		case <-poll.C():
			more = true
		case <-ctx.Done():
			poll.Stop()
			p.stop(ctx)
			return
		}
		poll.Stop()
	}
}

type performer struct {
	Config

	busy     map[store.RunKey]bool // runs whose requests are in memory
	places   chan struct{}         // has one for each run whose requests are being performed
	finished chan batch
	group    sync.WaitGroup
}

// take takes requests that are due.
func (p *performer) take(ctx context.Context) {
	skip := make([]store.RunKey, 0, len(p.busy))
	for run := range p.busy {
		skip = append(skip, run)
	}
	owned := p.Owned()
	if owned != nil && len(owned) == 0 {
		return
	}
	list, err := p.Store.Requests(ctx, owned, skip, maxRuns-len(skip))
	if err != nil {
		if ctx.Err() == nil {
			p.Failed(err)
		}
		return
	}
	var order []store.RunKey
	of := map[store.RunKey][]*store.Request{}
	for i := range list {
		r := &list[i]
		if of[r.Run] == nil {
			order = append(order, r.Run)
		}
		of[r.Run] = append(of[r.Run], r)
	}
	for _, run := range order {
		p.busy[run] = true
		p.group.Go(func() {
			p.places <- struct{}{}
			attempts := p.perform(ctx, of[run])
			<-p.places
			p.finished <- batch{run, attempts}
		})
	}
}

// perform performs the requests of one run in order, up to one that must be tried again.
func (p *performer) perform(ctx context.Context, list []*store.Request) (out []attempt) {
	var passed []*store.Request // for want of their run, in favor of the start behind them
	for len(list) > 0 && ctx.Err() == nil {
		r := list[0]
		verdict, err := p.Do(ctx, r)
		again := max(min(firstDelay<<min(r.Attempts, maxMissing), maxDelay), firstDelay)
		if verdict == Missing && r.Kind != store.RequestStart {
			// The transaction of the start had its request numbered later, and was committed earlier.
			if at := startIn(list); at > 0 {
				passed = append(passed, r)
				list = slices.Insert(slices.Delete(slices.Clone(list), at, at+1), 0, list[at])
				continue
			}
		}
		if verdict == Missing {
			verdict = Again
			if r.Attempts+1 >= maxMissing {
				verdict = Refused
			}
		}
		switch verdict {
		case Done:
			out = append(out, attempt{r, store.RequestResult{ID: r.ID}, nil})
		case Refused:
			out = append(out, attempt{r, store.RequestResult{ID: r.ID, Reason: reason(err)}, err})
		case Again, Missing:
			for _, x := range append(passed, r) {
				result := store.RequestResult{ID: x.ID, Reason: reason(err), AgainMs: again.Milliseconds()}
				out = append(out, attempt{x, result, err})
			}
			return out
		case Left:
			return out
		}
		list, passed = list[1:], nil
	}
	return out
}

// startIn returns the place of the first start, 0 if there is none behind the first request.
func startIn(list []*store.Request) int {
	for i, r := range list {
		if r.Kind == store.RequestStart {
			return i
		}
	}
	return 0
}

// reason is never empty.
func reason(err error) string {
	if err == nil || err.Error() == "" {
		return "unknown"
	}
	return err.Error()
}

// end records the results of a batch and of all others that are finished. It reports whether there may be more to do: there were
// results, and they were recorded.
func (p *performer) end(ctx context.Context, first batch) bool {
	batches := []batch{first}
	for more := true; more; {
		select {
		case b := <-p.finished:
			batches = append(batches, b)
		default:
			more = false
		}
	}
	var results []store.RequestResult
	for _, b := range batches {
		for _, a := range b.attempts {
			results = append(results, a.result)
		}
	}
	var err error
	if len(results) > 0 {
		err = p.Store.EndRequests(ctx, results)
	}
	for _, b := range batches {
		delete(p.busy, b.run)
		for _, a := range b.attempts {
			if err == nil {
				p.Report(a.request, a.err, time.Duration(a.result.AgainMs)*time.Millisecond)
			}
		}
	}
	if err != nil {
		p.Failed(err) // the requests are performed again, and recognized
	}
	return err == nil && len(results) > 0
}

// stop waits for the requests that are being performed, and records their results.
func (p *performer) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	p.group.Wait()
	select {
	case b := <-p.finished:
		p.end(ctx, b)
	default:
	}
}
