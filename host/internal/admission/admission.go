// Package admission bounds how many guests compute at a time, and how much memory all of them hold.
//
// A guest has a Place. It is inside while it computes. While a commit of its run or an attempt of one of its steps is in
// flight, it is parked: it keeps its instance, which saves a replay, and frees its place for another guest. When the parked
// guests hold too much memory, or other guests need it, the guest that was parked first is evicted: it gives its instance up,
// and its run is replayed later.
//
// Among waiting guests, a guest with an instance enters before a run that wakes, and a run that wakes before a new run. So a
// storm of wakes or starts creates no more instances than steady work. A guest that has computed for a slice lets all of them
// go first. While other guests arrive, guests that have computed for a slice leave one processor free for those and for the
// host, because a computing guest is not preempted like other goroutines.
//
// Large guests have a queue of their own, see LargeBytes. Only some of the guests that have computed for a slice keep their
// instances, see slowShare. Bodies of steps always keep theirs, so they wait before they begin, see beginShare. Within a
// class, groups take turns, and a group's guests enter in the order of their arrival: a group with a thousand waiting guests
// delays a group with one by at most one guest.
package admission

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"sync"

	"github.com/wfhost/wfhost/host/internal/quarantine"
)

// Class is the priority of a waiting guest.
type Class int

// The classes, highest priority first.
const (
	Resuming  Class = iota // has an instance and can go on
	Woken                  // its run wakes and is replayed
	Starting               // its run is new
	Computing              // has computed for a slice
	Large                  // has no instance, and will hold LargeBytes or more
	classes   = 5
)

// group identifies the workflow of a guest, or a namespace if workflow is empty. Groups get equal shares.
type group struct {
	namespace uint32
	workflow  string
}

// ofNamespace returns the group of the namespace.
func (g group) ofNamespace() group { return group{namespace: g.namespace} }

func compare(a, b group) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.workflow, b.workflow))
}

// ErrStopped: the caller's quit was closed before there was room.
var ErrStopped = errors.New("the host stops")

// Admission admits guests. Its methods and the methods of its places may be called concurrently.
type Admission struct {
	// mu guards all fields, the fields of places and requests, and their list elements. While mu is held, only Request.Begin
	// (which starts a goroutine), Quotas and the watch may be called.
	mu        sync.Mutex
	watch     *quarantine.Watch // immutable
	free      int               // free places; negative after Wake has brought resting guests back
	total     int
	held      int64                    // bytes of guests that are not outside
	leaving   int64                    // part of held: evicted guests that have not left yet
	large     int64                    // part of held: large guests that execute no body
	slow      int64                    // part of held: slow guests
	slowOf    map[group]int64          // slow by group
	slowIn    map[uint32]slowNamespace // slow by namespace
	half      map[group]int            // number of slow guests by group and by namespace
	ofBodies  int64                    // part of held: bodies; not in large
	bodies    bodies
	limit     int64 // of held
	resting   int   // number of resting guests
	instances int   // guests that are neither outside nor evicted
	waiters   [classes]queue
	quotas    Quotas
	long      int // guests inside that have computed for a slice
	longLimit int // maximum of long while no other guests arrive
	quiet     int // slices since the last entry of a guest of a class other than Computing
	overtaken int // guests that entered while a Computing guest waited, since the last Computing guest entered
	outrun    int // the same for Large
	resumed   int // Resuming guests that entered while a Woken guest waited, since the last Woken guest entered
	before    int // Woken guests that entered while a Starting guest waited, since the last Starting guest entered

	parked      list.List // of *Place, in the order of parking
	parkedBytes int64
	parkLimit   int64
}

// New returns an admission with a number of places. limit bounds the bytes of all guests that are not outside, parkLimit the
// bytes of parked guests.
func New(places int, limit, parkLimit int64) *Admission {
	return &Admission{free: places, total: places, limit: limit, parkLimit: parkLimit, longLimit: processors(),
		slowOf: map[group]int64{}, slowIn: map[uint32]slowNamespace{}, half: map[group]int{}, bodies: newBodies(limit)}
}

// Watched sets a watch, which records the computing guests and holds suspects back, and returns the admission. It must be
// called before all other methods.
func (a *Admission) Watched(w *quarantine.Watch) *Admission {
	a.watch = w
	return a
}

// standing is the state of a place.
type standing uint8

const (
	outside   standing = iota // holds no memory
	inside                    // computes
	rested                    // waits for an order, with its instance
	parked                    // keeps its instance until it is evicted
	returning                 // waits for a place, with its instance, and is not evicted
	evicted                   // was parked and must give its instance up
)

// Place is the state of a guest in an admission.
type Place struct {
	a     *Admission
	at    standing
	bytes int64         // charged unless the guest is outside
	asked int64         // bytes when the guest entered
	evict chan struct{} // receives on eviction; buffered 1
	e     *list.Element // in Admission.parked
	group group
	long  bool // inside, and has computed for a slice
	body  bool // executes a body, and has computed for a slice
	begun bool // executes a body, or is about to
	first bool // the body began without room: see beginsFirst
	fresh bool // its last slice was the first one since it last waited
	slow  bool // has computed for a slice since it last waited
	// subject identifies the guest to the watch, nil if it is not watched.
	subject *quarantine.Subject
}

// Of sets the namespace, workflow and run of the guest, and returns the place. It must be called before all other methods. A
// guest without a run is not watched.
func (p *Place) Of(namespace uint32, workflow, run string) *Place {
	p.group = group{namespace, workflow}
	if run != "" {
		p.subject = p.a.watch.Subject(namespace, run)
	}
	return p
}

// NewPlace returns the place of a guest that is outside and will hold approximately this many bytes.
func (a *Admission) NewPlace(bytes int64) *Place {
	return &Place{a: a, bytes: bytes, evict: make(chan struct{}, 1)}
}

// Evicted returns a channel that receives when the parked guest must give its instance up.
func (p *Place) Evicted() <-chan struct{} { return p.evict }

// Bytes returns the bytes that are charged for the guest unless it is outside.
func (p *Place) Bytes() int64 {
	p.a.mu.Lock()
	defer p.a.mu.Unlock()
	return p.bytes
}

// waiter is a guest in a queue: a goroutine that blocks until granted is closed, or a request.
type waiter struct {
	place     *Place
	granted   chan struct{}
	request   *Request
	turn      uint64 // see queue
	fresh     bool   // see Place
	e         *list.Element
	blockedBy *group // its key in queue.blocked; nil if the waiter is in queue.waiting
}

// Enter blocks until the guest may compute. If ctx ends first, it returns the cause of ctx, and if quit, which may be nil, is
// closed first, ErrStopped; the guest is then outside. A guest that has an instance keeps it meanwhile and is not evicted.
func (p *Place) Enter(ctx context.Context, c Class, quit <-chan struct{}) error {
	a := p.a
	if err := admitted(ctx, p); err != nil {
		return err
	}
	a.mu.Lock()
	a.returnLocked(p)
	c = p.classOf(c)
	if a.mayEnterLocked(p, c) { // before lower classes, which may wait for the memory it held
		a.enterLocked(p, c)
		a.grantLocked()
		a.mu.Unlock()
		return nil
	}
	w := &waiter{place: p, granted: make(chan struct{}), fresh: c == Computing && p.fresh}
	a.waiters[c].push(w)
	a.grantLocked()
	a.mu.Unlock()
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	case <-quit:
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-w.granted: // at the same time
		a.leaveLocked(p)
	default:
		a.waiters[c].remove(w)
		p.nextLocked(c)
		a.goLocked(p)
		a.grantLocked() // there may be room for the guests behind it
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return ErrStopped
}

// admitted blocks while the watch holds the guest back. It affects only guests that are outside.
func admitted(ctx context.Context, p *Place) error {
	if p.subject == nil {
		return nil
	}
	p.a.mu.Lock()
	out := p.at == outside
	p.a.mu.Unlock()
	if !out {
		return nil
	}
	return p.subject.Wait(ctx)
}

// TryEnter lets a parked guest in if there is room and no other guest of the class Resuming waits. It returns false otherwise,
// or if the guest was evicted or has left.
func (p *Place) TryEnter() bool {
	a := p.a
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.at != parked || a.free <= 0 || a.firstLocked(Resuming) != nil || a.fullLocked(p) || a.wokenFirstLocked() {
		return false
	}
	a.resumedLocked()
	a.unparkLocked(p) // its bytes are charged already
	p.insideLocked()
	p.countLocked(1)
	return true
}

// Leave makes the guest outside, whatever its state.
func (p *Place) Leave() {
	p.a.mu.Lock()
	defer p.a.mu.Unlock()
	p.a.leaveLocked(p)
}

// EvictAll evicts all parked guests.
func (a *Admission) EvictAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.parked.Len() > 0 {
		a.evictLocked()
	}
}

// Usage returns the number of guests that are neither outside nor evicted, the number of guests that wait for a place or for
// their body to begin, and the bytes of all guests that are not outside, including evicted guests.
func (a *Admission) Usage() (instances, waiting int, bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.waiters {
		waiting += a.waiters[i].size()
	}
	return a.instances, waiting + a.bodies.waiting.size(), a.held
}

// mayEnterLocked reports whether a guest may enter now: there is room, and no waiting guest goes first.
func (a *Admission) mayEnterLocked(p *Place, c Class) bool {
	for i := range c + 1 {
		if a.firstLocked(i) != nil {
			return false
		}
	}
	if c == Resuming && a.wokenFirstLocked() {
		return false
	}
	if c == Woken && a.before >= maxBefore {
		if w := a.firstLocked(Starting); w != nil && a.roomLocked(w.place, Starting) {
			return false
		}
	}
	return a.roomLocked(p, c)
}

// roomLocked reports whether there is room for a guest. A guest that would be the only one always has room, so that a guest
// larger than the limit enters eventually. A guest with an instance needs only a place.
func (a *Admission) roomLocked(p *Place, c Class) bool {
	return a.free > 0 && (c != Computing || a.long == 0 || a.long < p.longMost() && !p.crowdedLocked()) &&
		!p.keptOutLocked(c) &&
		(p.at == returning || p.fitsLocked(c))
}

func (a *Admission) enterLocked(p *Place, c Class) {
	if p.at != returning {
		a.instances++
		p.asked = p.bytes
		p.tallyLocked(1)
		a.evictOverLocked(a.chargedLocked() - a.limit) // over the limit only if it is the only one inside
	}
	p.insideLocked()
	p.countLocked(1)
	if c != Computing {
		a.quiet = 0
	}
	switch {
	case c == Computing:
		a.longLocked(p)
		a.overtaken = 0
	case a.waiters[Computing].Len() > 0:
		a.overtaken++
	}
	switch c {
	case Resuming:
		a.resumedLocked()
	case Woken:
		a.resumed = 0
	}
	switch {
	case c == Starting:
		a.before = 0
	case c == Woken && a.waiters[Starting].Len() > 0:
		a.before++
	}
	if c == Large {
		a.outrun = 0
	} else if a.waiters[Large].Len() > 0 {
		a.outrun++
	}
}

// longLocked marks a guest that is inside as having computed for a slice.
func (a *Admission) longLocked(p *Place) {
	if !p.long {
		p.long = true
		a.long++
	}
}

// insideLocked gives a place to a guest.
func (p *Place) insideLocked() {
	p.at = inside
	p.a.free--
	p.subject.Begin()
}

// stopLocked takes the place from a guest that is inside.
func (p *Place) stopLocked() {
	a := p.a
	a.free++
	if p.long {
		p.long = false
		a.long--
	}
	p.subject.End()
}

// returnLocked makes a guest that has an instance wait for a place with it.
func (a *Admission) returnLocked(p *Place) {
	if p.at != outside {
		a.upLocked(p)
		p.at = returning
	}
}

// leaveLocked makes a guest outside and lets waiting guests in.
func (a *Admission) leaveLocked(p *Place) {
	if p.at != outside {
		a.goLocked(p)
		a.grantLocked()
	}
}

// goLocked makes a guest outside.
func (a *Admission) goLocked(p *Place) {
	if p.at != outside {
		a.upLocked(p)
		p.slowLocked(false)
		p.tallyLocked(-1)
		p.at = outside
		a.instances--
		p.endBodyLocked()
	}
}

// upLocked ends the current state of a guest that has an instance. Its bytes stay charged.
func (a *Admission) upLocked(p *Place) {
	switch p.at {
	case inside:
		p.stopLocked()
		p.countLocked(-1)
	case rested:
		a.resting--
		p.countLocked(-1)
	case parked:
		a.unparkLocked(p)
	case evicted:
		a.stayLocked(p)
		a.instances++
	case outside, returning:
	}
}

// stayLocked revokes an eviction.
func (a *Admission) stayLocked(p *Place) {
	a.leaving -= p.bytes
	select {
	case <-p.evict: // the guest has not received it
	default:
	}
}

func (a *Admission) unparkLocked(p *Place) {
	a.parked.Remove(p.e)
	a.parkedBytes -= p.bytes
	p.e = nil
}

// evictLocked evicts the guest that was parked first. Its bytes stay charged until it leaves.
func (a *Admission) evictLocked() {
	a.parked.Front().Value.(*Place).evictLocked() //nolint:forcetypeassert // the list holds only *Place
}

func (p *Place) evictLocked() {
	a := p.a
	a.unparkLocked(p)
	p.at = evicted
	a.instances--
	a.leaving += p.bytes
	p.evict <- struct{}{} // does not block: an earlier eviction was received or revoked before the guest parked again
}

// evictOverLocked evicts parked guests until the evicted guests that have not left yet hold at least bytes. Earlier evictions
// count, so that repeated calls for the same waiting guest evict no further guests.
func (a *Admission) evictOverLocked(bytes int64) {
	for a.leaving < bytes && a.parked.Len() > 0 {
		a.evictLocked()
	}
}

// makeRoomLocked evicts parked guests to make memory for the waiting guests for which there are free places.
func (a *Admission) makeRoomLocked() {
	free, over := a.free, a.chargedLocked()-a.limit
	for c := range a.waiters {
		for e := a.waiters[c].Front(); e != nil && free > 0; e = e.Next() {
			p := waiterOf(e).place
			if p.keptOutLocked(Class(c)) {
				continue
			}
			if p.at != returning {
				over += p.bytes
			}
			free--
		}
	}
	if free < a.free {
		a.evictOverLocked(over)
	}
}

// grantLocked lets waiting guests in while there is room.
func (a *Admission) grantLocked() {
	if a.long == 0 && a.overtaken >= maxOvertaken {
		a.grantFirstLocked(Computing)
	}
	if a.large == 0 && a.outrun >= maxOvertaken {
		a.grantFirstLocked(Large)
	}
	defer a.grantLargeLocked()
	for c := range Class(Large) {
		for a.firstLocked(c) != nil {
			if c == Resuming && a.wokenFirstLocked() && a.grantFirstLocked(Woken) {
				continue
			}
			if c == Woken && a.before >= maxBefore && a.grantFirstLocked(Starting) {
				continue
			}
			if !a.grantFirstLocked(c) {
				a.makeRoomLocked()
				for a.grantFirstLocked(Computing) { // Computing guests have their memory; the guests before them may wait for memory
				}
				return
			}
		}
	}
}
