package httpapi

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
)

// Limits of the memory that bodies of requests hold.
const (
	// maxBodies bounds what has come of large bodies, until their requests end: the largest module, and as much beside it. Four
	// thousand connections, the default, could hold some gigabytes otherwise, each with nearly a whole body.
	maxBodies = 64 << 20
	// smallBody is how much of a body does not count, and is never refused because of others. A connection takes about as much for
	// the head of a request.
	smallBody = 64 << 10
	// timesLeft is how many times as much one caller may hold as is left for all: 42 MiB if there is no other one, which is the
	// largest module and some more, 25 MiB each of two. So something is left for the next one, always.
	timesLeft = 2
	// standsStill is after what time a body of which less than smallBody has come is cut off for another caller: an eighth of what
	// slowestUpload says.
	standsStill = 8 * time.Second
)

// bodies is what has come of large bodies, and waits to be used or for the rest. Whoever sends gets on: if there is no room for a
// caller, a body of another one who holds more is cut off if it stands still, else the caller's own that has got nothing for the
// longest time.
type bodies struct {
	limit int
	now   func() time.Time

	mu     sync.Mutex
	bytes  int
	turns  uint64
	by     map[string]int      // bytes of each caller
	coming map[*timed]struct{} // those that have not come to their ends
}

func newBodies(limit int) *bodies {
	return &bodies{limit: limit, now: clock.System().Now, by: map[string]int{}, coming: map[*timed]struct{}{}}
}

// share is the part of a body in what all of them hold. Its request alone changes from and got; b.mu guards the rest.
type share struct {
	in   *bodies // nil: it is not counted
	from string  // caller
	got  int

	held int
	turn uint64    // of the last bytes: later ones have higher numbers
	mark time.Time // when so much more had come that it does not stand still
	most int       // what was held then
	cut  bool
}

// came counts n bytes more of a body, and whether they are the last. It returns a problem if the body was cut off.
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
	if last { // who has sent everything is answered
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

// victim returns the body that is cut off as a caller has no more room: one that stands still, of the caller who holds most of
// those who hold more than that caller; if there is none, that of the caller's own which has got nothing for the longest time.
// There is one: who asks has one that comes.
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

// cutOff ends what is read of a body, and counts it no more: its request ends at once.
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

// enter begins to count the body of a request, for the network of its address until the caller is known. leave is called when the
// request ends.
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

// sentBy has the body of a request count for its caller. One for a namespace has the share of that: its administrators may make a
// thousand tokens.
func sentBy(r *http.Request, c *caller) {
	if t, ok := r.Body.(*timed); ok && t.got == 0 {
		t.from = c.name
		if c.Namespace != "" {
			t.from = "namespace " + c.Namespace
		}
	}
}

// bodyKey is that of the body of a request in its context.
type bodyKey struct{}

// used has the body of a request count no more, though the request goes on: what it held was given up.
func used(ctx context.Context) {
	t, ok := ctx.Value(bodyKey{}).(*timed)
	if !ok || t.in == nil || t.got <= smallBody {
		return
	}
	t.in.mu.Lock()
	defer t.in.mu.Unlock()
	t.in.remove(t)
}
