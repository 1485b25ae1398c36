// Package brake makes refusals wait. A caller who is refused at once, and asks again at once, keeps a processor busy that others
// need; one who is told later cannot. (Kafka's brokers delay their answers to clients beyond their quotas for the same reason.)
package brake

import (
	"context"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
)

const (
	// each is how long a refusal waits for each one of its key that waits, itself included: so a lone caller hardly notices, and
	// a thousand callers are refused a thousand times a second, as one is, which takes a processor some thousandths of its time.
	each = time.Millisecond
	// longest is how long one waits at most, so that a client does not take the server for dead. More than a thousand callers are
	// refused once a second each.
	longest = time.Second
)

// Brake holds refusals back, by the key of those who are refused. The zero Brake is ready to be used, by several goroutines.
type Brake[K comparable] struct {
	mu      sync.Mutex
	waiting map[K]int
}

// Hold waits before a refusal, at most until ctx is done. The wait is of real time: no run sees it.
func (b *Brake[K]) Hold(ctx context.Context, key K) {
	t := clock.System().NewTimer(b.enter(key))
	defer t.Stop()
	select {
	case <-t.C():
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting[key]--; b.waiting[key] == 0 {
		delete(b.waiting, key)
	}
}

// enter counts a refusal that waits, and returns for how long.
func (b *Brake[K]) enter(key K) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == nil {
		b.waiting = map[K]int{}
	}
	b.waiting[key]++
	return min(time.Duration(b.waiting[key])*each, longest)
}
