package httpapi

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
)

// Limits of the memory that answers hold.
const (
	// maxBacklog bounds what of large answers waits for clients that have not read it: some fifty pages of lists. Four thousand
	// connections, the default, could hold as many pages otherwise.
	maxBacklog = 64 << 20
	// maxMakers is how many lists are read and encoded at a time, each of which holds some MiB meanwhile. None waits for a client
	// while it is made.
	maxMakers = 8
)

// wholeLists are the endpoints whose answers are lists that are made as a whole, and at once.
var wholeLists = map[string]bool{listPattern: true, "GET /v1/timers": true, "GET /v1/schedules": true, "GET /v1/workflows": true,
	"GET /v1/workflows/{workflow}": true, "GET /v1/namespaces": true, "GET /v1/limits": true, "GET /v1/handler-limits": true,
	"GET /v1/start-windows": true, "GET /v1/retention": true, "GET /v1/tokens": true, "GET /v1/handlers": true}

// makers are those that make lists.
type makers chan struct{}

// enter waits for a place. What it returns gives that up, once.
func (m makers) enter(ctx context.Context) (leave func(), err error) {
	select {
	case m <- struct{}{}:
		return sync.OnceFunc(func() { <-m }), nil
	case <-ctx.Done():
		return nil, problem(http.StatusServiceUnavailable, "cancelled", "the request ended while it waited for %d other lists: %v",
			cap(m), ctx.Err())
	}
}

// backlog is what of large answers waits for clients. Whoever reads gets on: if there is too much, the client is cut off that has
// taken nothing for the longest time.
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
	if p.cut { // what it writes goes nowhere
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
		_ = slowest.control.SetWriteDeadline(longAgo) // which ends its Write
	}
}

// longAgo is a deadline that is over.
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

// more allows the client of p the time for another piece, unless it was cut off.
func (b *backlog) more(p *paced) {
	if p.held > 0 {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.turns++
		p.turn = b.turns
	}
	if !p.cut {
		_ = p.control.SetWriteDeadline(clock.System().Now().Add(writeTime)) // a recorder of a test has none
	}
}
