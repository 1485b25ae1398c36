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
	// a thousand callers are refused a thousand times a second, as one is, which takes a processor some hundredths of its time.
	each = time.Millisecond
	// times is how many times as long as it took to refuse a call the refusal waits: some are refused late, as a start whose
	// input was compared with a schema, and a caller takes a tenth of a processor then.
	times = 9
	// longest is how long one waits at most, unless it was dear, so that a client does not take the server for dead. More than a
	// thousand callers are refused once a second each.
	longest = time.Second
	// longestDear is how long one waits at most that took long.
	longestDear = 10 * time.Second
)

// Brake holds refusals back, by the key of those who are refused. The zero Brake is ready to be used, by several goroutines.
type Brake[K comparable] struct {
	mu      sync.Mutex
	waiting map[K]int
}

// Hold waits before a refusal of a call that took so long, at most until ctx is done. Who does not wait is counted for as long
// all the same: others of his key wait for longer. The wait is of real time: no run sees it.
func (b *Brake[K]) Hold(ctx context.Context, key K, took time.Duration) {
	wait, done := b.enter(key, took), make(chan struct{})
	clock.AfterFunc(clock.System(), wait, func() {
		b.leave(key)
		close(done)
	})
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// leave counts a refusal that no longer waits.
func (b *Brake[K]) leave(key K) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting[key]--
	if b.waiting[key] == 0 {
		delete(b.waiting, key)
	}
}

// enter counts a refusal that waits, and returns for how long.
func (b *Brake[K]) enter(key K, took time.Duration) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == nil {
		b.waiting = map[K]int{}
	}
	b.waiting[key]++
	dear := min(times*took, longestDear)
	return min(time.Duration(b.waiting[key])*max(each, dear), max(longest, dear))
}
