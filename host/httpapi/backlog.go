package httpapi

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
)

// Limits of the memory for answers.
const (
	// maxBacklog bounds the bytes of large answers that clients have not read yet: some fifty pages of lists.
	// Otherwise four thousand connections, the default, could hold as many pages.
	maxBacklog = 64 << 20
	// maxMakers is the number of lists that are read and encoded concurrently, each of which takes some MiB. None
	// waits for its client in that time.
	maxMakers = 8
)

// wholeLists has the endpoints whose answers are lists that are built in memory as a whole.
var wholeLists = map[string]bool{listPattern: true, "GET /v1/timers": true, "GET /v1/schedules": true, "GET /v1/workflows": true,
	"GET /v1/workflows/{workflow}": true, "GET /v1/namespaces": true, "GET /v1/limits": true, "GET /v1/handler-limits": true,
	"GET /v1/start-windows": true, "GET /v1/retention": true, "GET /v1/tokens": true, "GET /v1/handlers": true}

// makers is a semaphore for building lists.
type makers chan struct{}

// enter waits for a permit. The returned function releases it; further calls do nothing.
func (m makers) enter(ctx context.Context) (leave func(), err error) {
	select {
	case m <- struct{}{}:
		return sync.OnceFunc(func() { <-m }), nil
	case <-ctx.Done():
		return nil, problem(http.StatusServiceUnavailable, "cancelled", "the request ended while it waited for %d other lists: %v",
			cap(m), ctx.Err())
	}
}

// backlog holds the sizes of large answers that wait for clients. Clients that read make progress: over the limit, the
// backlog cuts off the client that has read nothing for the longest time.
type backlog struct {
	limit int

	mu    sync.Mutex
	bytes int
	turns uint64
	of    map[*paced]struct{}
}

func newBacklog(limit int) *backlog { return &backlog{limit: limit, of: map[*paced]struct{}{}} }

// enter counts n bytes that p writes. p calls leave when they are written.
func (b *backlog) enter(p *paced, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.cut { // its writes are discarded
		return
	}
	p.held = n
	b.turns++
	p.turn = b.turns
	b.of[p] = struct{}{}
	b.bytes += n
	for b.bytes > b.limit && len(b.of) > 1 {
		var slowest *paced
		for x := range b.of {
			if slowest == nil || x.turn < slowest.turn {
				slowest = x
			}
		}
		b.remove(slowest)
		slowest.cut = true
		_ = slowest.control.SetWriteDeadline(longAgo) // ends its Write
	}
}

// longAgo is a deadline in the past.
var longAgo = time.Unix(1, 0)

func (b *backlog) remove(p *paced) {
	delete(b.of, p)
	b.bytes -= p.held
}

// leave ends what enter began.
func (b *backlog) leave(p *paced) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !p.cut {
		b.remove(p)
	}
	p.held = 0
}

// more extends the write deadline of p for another piece, unless its client was cut off.
func (b *backlog) more(p *paced) {
	if p.held > 0 {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.turns++
		p.turn = b.turns
	}
	if !p.cut {
		_ = p.control.SetWriteDeadline(clock.System().Now().Add(writeTime)) // the recorder of a test has none
	}
}
