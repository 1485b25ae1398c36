package admission

import (
	"context"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
)

const (
	// each is the delay of a refusal per waiting refusal of the same key, itself included. A lone caller hardly notices it. A
	// thousand callers together are refused a thousand times a second, as often as a lone caller is, which takes a few
	// hundredths of a processor.
	each = time.Millisecond
	// times is the delay as a multiple of the time that the refused call took. Some calls are refused late, such as a
	// start whose input was compared with a schema. With 9, a caller takes at most a tenth of a processor.
	times = 9
	// longest bounds the delay of a refusal, unless the call was expensive, so that a client does not take the server for
	// dead. If more than a thousand callers of a key wait, each is refused once a second.
	longest = time.Second
	// longestDear bounds the delay of a refusal whose call was expensive.
	longestDear = 10 * time.Second
)

// RefusalDelay delays refusals by the key of their callers. A caller who is refused at once and asks again at once keeps a
// processor busy that other callers need; a delay prevents that. (Kafka's brokers delay their answers to clients beyond
// their quotas for the same reason.) The zero value is ready for use. Its methods may be called concurrently.
type RefusalDelay[K comparable] struct {
	mu      sync.Mutex
	waiting map[K]int
}

// Delay blocks before the refusal of a call that took the given time, until the delay is over or ctx is done. If ctx is
// done first, the refusal still counts until its delay is over, and lengthens the delays of its key. Delays are of real
// time: no run sees them.
func (b *RefusalDelay[K]) Delay(ctx context.Context, key K, took time.Duration) {
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

// leave counts a refusal whose delay is over.
func (b *RefusalDelay[K]) leave(key K) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting[key]--
	if b.waiting[key] == 0 {
		delete(b.waiting, key)
	}
}

// enter counts a refusal and returns its delay.
func (b *RefusalDelay[K]) enter(key K, took time.Duration) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == nil {
		b.waiting = map[K]int{}
	}
	b.waiting[key]++
	dear := min(times*took, longestDear)
	return min(time.Duration(b.waiting[key])*max(each, dear), max(longest, dear))
}
