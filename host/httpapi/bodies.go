package httpapi

import (
	"net/http"
	"sync"
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
	// largest module and some more, 25 MiB beside one who takes all that he can. So something is left for the next one, always.
	timesLeft = 2
)

// bodies is what has come of large bodies, and waits to be used or for the rest. Whoever sends gets on: if a caller has too much,
// the one of his bodies is cut off that has got nothing for the longest time.
type bodies struct {
	limit int

	mu     sync.Mutex
	bytes  int
	turns  uint64
	by     map[string]int      // bytes of each caller
	coming map[*timed]struct{} // those that have not come to their ends
}

func newBodies(limit int) *bodies {
	return &bodies{limit: limit, by: map[string]int{}, coming: map[*timed]struct{}{}}
}

// share is the part of a body in what all of them hold. Its request alone changes from and got; b.mu guards the rest.
type share struct {
	in   *bodies // nil: it is not counted
	from string  // caller
	got  int

	held int
	turn uint64 // of the last bytes: later ones have higher numbers
	cut  bool
}

// came counts n bytes more of a body, and whether they are the last. It returns a problem if the body was cut off.
func (t *timed) came(n int, last bool) error {
	b := t.in
	if t.got += n; t.got <= smallBody || b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > 0 && !t.cut {
		b.count(t)
		for !t.cut && b.by[t.from] > timesLeft*(b.limit-b.bytes) {
			b.cutOff(b.slowestOf(t.from))
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
var errBodies = problem(http.StatusTooManyRequests, "busy", "you send too many bodies of more than %d bytes at a time, and this "+
	"one got nothing for the longest time: try again later", smallBody)

func (b *bodies) count(t *timed) {
	n := t.got - t.held
	b.turns++
	t.turn = b.turns
	b.coming[t] = struct{}{}
	t.held += n
	b.bytes += n
	b.by[t.from] += n
}

// slowestOf returns the body of a caller that has got nothing for the longest time. There is one: who asks has one that comes.
func (b *bodies) slowestOf(caller string) (slowest *timed) {
	for t := range b.coming {
		if t.from == caller && (slowest == nil || t.turn < slowest.turn) {
			slowest = t
		}
	}
	return slowest
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
	if b.by[t.from] -= t.held; b.by[t.from] == 0 {
		delete(b.by, t.from)
	}
	t.held = 0
}

// enter has the body of a request count, for its address until it is known who makes it. leave is called when the request ends.
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
