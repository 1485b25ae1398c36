package httpapi

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
)

// Limits of the memory for bodies of requests.
const (
	// maxBodies bounds the received bytes of large bodies until their requests end: the largest module, and as much
	// beside it. Otherwise four thousand connections, the default, could hold some gigabytes, each with nearly a whole
	// body.
	maxBodies = 64 << 20
	// smallBody is the part of a body that does not count and is never refused because of other bodies. A connection
	// takes about as much for the head of a request.
	smallBody = 64 << 10
	// timesLeft bounds what one caller may hold, as a multiple of what is left for all: a single caller may hold 42
	// MiB, which is more than the largest module, and each of two callers 25 MiB. So some room is always left for
	// another caller.
	timesLeft = 2
	// standsStill is the time after which a body that has got less than smallBody is cut off for another caller: an
	// eighth of the rate slowestUpload.
	standsStill = 8 * time.Second
)

// bodies holds the sizes of received parts of large bodies until they are used. Callers that send make progress: if a
// caller has no more room, bodies cuts off a stalled body of a caller that holds more, or else the caller's own body
// that has got nothing for the longest time.
type bodies struct {
	limit int
	now   func() time.Time

	mu     sync.Mutex
	bytes  int
	turns  uint64
	by     map[string]int      // bytes of each caller
	coming map[*timed]struct{} // bodies that are incomplete
}

func newBodies(limit int) *bodies {
	return &bodies{limit: limit, now: clock.System().Now, by: map[string]int{}, coming: map[*timed]struct{}{}}
}

// share is the part of a body in bodies. Only the body's request accesses from and got; in.mu guards the rest.
type share struct {
	in   *bodies // nil: it is not counted
	from string  // caller
	got  int

	held int
	turn uint64    // of the last bytes, in order of arrival
	mark time.Time // start of the period in which smallBody must arrive
	most int       // held at mark
	cut  bool
}

// came counts n more bytes of a body; last is its end. It returns a problem if the body was cut off.
func (t *timed) came(n int, last bool) error {
	b := t.in
	t.got += n
	if t.got <= smallBody || b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > 0 && !t.cut {
		b.count(t)
		for !t.cut && b.by[t.from] > timesLeft*(b.limit-b.bytes) {
			b.cutOff(b.victim(t.from))
		}
	}
	if t.cut {
		t.header.Set("Retry-After", "1")
		return errBodies
	}
	if last { // a complete body is answered
		delete(b.coming, t)
	}
	return nil
}

// errBodies is the answer to a request whose body was cut off: nothing was done.
var errBodies = problem(http.StatusTooManyRequests, "busy", "the server has no room for this body beside others of more than %d "+
	"bytes: nothing was done; try again later", smallBody)

func (b *bodies) count(t *timed) {
	n := t.got - t.held
	b.turns++
	t.turn = b.turns
	b.coming[t] = struct{}{}
	t.held += n
	if t.mark.IsZero() || t.held-t.most >= smallBody {
		t.mark, t.most = b.now(), t.held
	}
	b.bytes += n
	b.by[t.from] += n
}

// victim returns the body to cut off when the caller asks has no more room. It chooses among the stalled bodies of
// callers that hold more than asks, from the caller that holds most; if there are none, the body of asks that has got
// nothing for the longest time. There always is one, since a body of asks is arriving.
func (b *bodies) victim(asks string) (victim *timed) {
	now := b.now()
	for t := range b.coming {
		if b.by[t.from] <= b.by[asks] || now.Sub(t.mark) < standsStill {
			continue
		}
		if victim == nil || b.by[t.from] > b.by[victim.from] || t.from == victim.from && t.turn < victim.turn {
			victim = t
		}
	}
	if victim != nil {
		return victim
	}
	for t := range b.coming {
		if t.from == asks && (victim == nil || t.turn < victim.turn) {
			victim = t
		}
	}
	return victim
}

// cutOff interrupts the reads of a body and stops counting it: its request ends at once.
func (b *bodies) cutOff(t *timed) {
	b.remove(t)
	t.cut = true
	t.interrupt()
}

func (b *bodies) remove(t *timed) {
	delete(b.coming, t)
	b.bytes -= t.held
	b.by[t.from] -= t.held
	if b.by[t.from] == 0 {
		delete(b.by, t.from)
	}
	t.held = 0
}

// enter starts counting the body of a request. Until the caller is known it counts for the network of its address.
// leave is called when the request ends.
func (b *bodies) enter(r *http.Request, address string) (leave func()) {
	t, ok := r.Body.(*timed)
	if !ok {
		return func() {}
	}
	t.in, t.from = b, address
	return func() {
		if t.in != nil && t.got > smallBody {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.remove(t)
		}
	}
}

// sentBy makes the body of a request count for its caller. Callers with a token for one namespace share the
// namespace's part, since its administrators may make a thousand tokens.
func sentBy(r *http.Request, c *caller) {
	if t, ok := r.Body.(*timed); ok && t.got == 0 {
		t.from = c.name
		if c.Namespace != "" {
			t.from = "namespace " + c.Namespace
		}
	}
}

// bodyKey is the context key of a request's body.
type bodyKey struct{}

// used stops counting the body of a request that is still being handled: its memory was released.
func used(ctx context.Context) {
	t, ok := ctx.Value(bodyKey{}).(*timed)
	if !ok || t.in == nil || t.got <= smallBody {
		return
	}
	t.in.mu.Lock()
	defer t.in.mu.Unlock()
	t.in.remove(t)
}
