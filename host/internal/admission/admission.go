// Package admission bounds how many guests compute at a time, and how much memory all of them hold.
//
// A guest has a Place. It is inside while it computes. While a commit of its run or an attempt of one of its steps goes
// on, it is parked: it keeps its instance, so that it need not be replayed, and somebody else computes. When the parked
// guests hold too much, or their memory is needed, the one that was parked first is evicted: it gives its instance up, and
// its run is replayed later.
//
// Of those that wait, a guest that has an instance and can go on enters before a run that wakes, and that before a new
// run; so a storm makes no more instances than steady work. A guest that has computed for a slice lets all of them go first,
// and while any of them come, one processor is left to those and to the host: a guest that computes is not interrupted, as other
// goroutines are.
// Large guests wait apart, see LargeBytes, and of those that have computed for a slice only some keep their instances, see
// slowShare. Bodies of steps, which keep theirs in any case, wait before they begin, see beginShare. Within a class, groups
// enter in turns, and of a group the one that has waited longest: whoever has a thousand guests waiting keeps nobody else
// from having one.
package admission

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"sync"

	"github.com/wfhost/wfhost/host/internal/quarantine"
)

// Class is the order in which guests enter.
type Class int

// The classes, the first one first.
const (
	Resuming  Class = iota // it has an instance, and can go on
	Woken                  // its run has waited, and is replayed
	Starting               // its run is new
	Computing              // it has computed for a slice
	Large                  // it has no instance, and will hold LargeBytes or more
	classes   = 5
)

// group is whose guest it is, among those that are to have as much as others.
type group struct {
	namespace uint32
	workflow  string
}

// space returns the group of all guests of its namespace.
func (g group) space() group { return group{namespace: g.namespace} }

func compare(a, b group) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.workflow, b.workflow))
}

// ErrStopped says that the caller's quit was closed before there was room.
var ErrStopped = errors.New("the host stops")

// Admission lets guests in. Its methods, and those of its places, may be called concurrently.
type Admission struct {
	// mu guards all fields, those of places and requests, and their elements in lists. While it is held nothing is called
	// but Request.Begin, which starts a goroutine, and the watch.
	mu        sync.Mutex
	watch     *quarantine.Watch // not changed
	free      int               // how many more may be inside; negative where guests were woken that rested
	total     int
	held      int64                // bytes of the guests that are not outside
	leaving   int64                // of them, bytes of those that were evicted and have not left yet
	large     int64                // of held, bytes of large guests that execute no body
	slow      int64                // of held, bytes of slow guests
	slowOf    map[group]int64      // of slow, by group
	slowIn    map[uint32]slowSpace // the same by namespace
	half      map[group]int        // how many guests are slow, of groups and of namespaces (without a workflow)
	ofBodies  int64                // of held, bytes of bodies, which are not in large
	bodies    bodies
	limit     int64 // of held
	resting   int   // guests that rest
	instances int   // guests that are neither outside nor evicted
	waiters   [classes]queue
	spaces    Spaces
	long      int // guests inside that have computed for a slice
	longLimit int // of long, while no others come
	quiet     int // slices since somebody came in who had not computed for one
	overtaken int // how many have entered since one of the class Computing did, while one waited
	outrun    int // the same of the class Large
	resumed   int // how many of the class Resuming have since one of the class Woken did, while one waited
	before    int // how many of the class Woken have since one of the class Starting did, while one waited

	parked      list.List // of *Place, the one that was parked first at the front
	parkedBytes int64
	parkLimit   int64
}

// New returns an admission that lets in as many guests as there are places, while all of them, with those that are parked,
// hold no more than limit bytes. Those that are parked hold at most parkLimit bytes.
func New(places int, limit, parkLimit int64) *Admission {
	return &Admission{free: places, total: places, limit: limit, parkLimit: parkLimit, longLimit: processors(),
		slowOf: map[group]int64{}, slowIn: map[uint32]slowSpace{}, half: map[group]int{}, bodies: newBodies(limit)}
}

// Watched has a watch note who computes, and hold suspects, and returns the admission. It is called before anything else.
func (a *Admission) Watched(w *quarantine.Watch) *Admission {
	a.watch = w
	return a
}

// standing is where a guest stands.
type standing uint8

const (
	outside   standing = iota // it holds nothing
	inside                    // it computes
	rested                    // it waits to be told what to do, with its instance
	parked                    // it keeps its instance for a while
	returning                 // it was parked, and waits for a place
	evicted                   // it was parked, and is to give its instance up
)

// Place is what a guest has of an admission.
type Place struct {
	a     *Admission
	at    standing
	bytes int64         // that count for it unless it is outside
	asked int64         // bytes when it came in
	evict chan struct{} // buffered 1: it was evicted
	e     *list.Element // among the parked
	group group
	long  bool // it is inside, and has computed for a slice
	body  bool // it executes a body, and has computed for a slice
	begun bool // it executes a body, or is about to
	first bool // the body began though there was no room: see beginsFirst
	fresh bool // its newest slice was the first one since it last waited for something
	slow  bool // it has computed for a slice since it last waited for something
	// subject is the guest for the watch, nil if it is not watched.
	subject *quarantine.Subject
}

// Of says whose guest it is, and returns the place. It is called before anything else. A guest without
// a run is not watched.
func (p *Place) Of(namespace uint32, workflow, run string) *Place {
	p.group = group{namespace, workflow}
	if run != "" {
		p.subject = p.a.watch.Subject(namespace, run)
	}
	return p
}

// NewPlace returns the place of a guest that is outside and will hold about so many bytes.
func (a *Admission) NewPlace(bytes int64) *Place {
	return &Place{a: a, bytes: bytes, evict: make(chan struct{}, 1)}
}

// Evicted returns the channel that receives when the guest is parked and has to give its instance up.
func (p *Place) Evicted() <-chan struct{} { return p.evict }

// Bytes returns what counts for the guest unless it is outside.
func (p *Place) Bytes() int64 {
	p.a.mu.Lock()
	defer p.a.mu.Unlock()
	return p.bytes
}

// waiter is a guest that waits outside: a goroutine that blocks until granted is closed, or a request.
type waiter struct {
	place   *Place
	granted chan struct{}
	request *Request
	turn    uint64 // in which it enters: see queue
	fresh   bool   // see Place
	e       *list.Element
	aside   *group // it is in queue.aside under this; nil if it is in queue.waiting
}

// Enter waits until the guest may come in, until ctx is done or quit, which may be nil, is closed: the error is the cause
// of ctx, or ErrStopped, and the guest is outside. One that has an instance keeps it meanwhile, and is not evicted.
func (p *Place) Enter(ctx context.Context, c Class, quit <-chan struct{}) error {
	a := p.a
	if err := admitted(ctx, p); err != nil {
		return err
	}
	a.mu.Lock()
	a.returnLocked(p)
	c = p.classOf(c)
	if a.mayEnterLocked(p, c) { // before those of later classes that wait for what it held
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
		a.grantLocked() // it may have stood before others, for which there is room
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return ErrStopped
}

// admitted waits until a guest that is outside is not held.
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

// TryEnter lets a guest in that is parked, if there is room now and nobody waits who can go on, too. It reports false if
// there is not, or if the guest was evicted or has left.
func (p *Place) TryEnter() bool {
	a := p.a
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.at != parked || a.free <= 0 || a.firstLocked(Resuming) != nil || a.fullLocked(p) || a.wokenFirstLocked() {
		return false
	}
	a.resumedLocked()
	a.unparkLocked(p) // its bytes count already
	p.insideLocked()
	p.countLocked(1)
	return true
}

// Leave has the guest go outside, wherever it stands.
func (p *Place) Leave() {
	p.a.mu.Lock()
	defer p.a.mu.Unlock()
	p.a.leaveLocked(p)
}

// EvictAll evicts every guest that is parked.
func (a *Admission) EvictAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.parked.Len() > 0 {
		a.evictLocked()
	}
}

// Held returns how many guests are not outside, beside those that were evicted; how many wait for a place, or for a body to
// begin; and the bytes that count for the former and those that were evicted.
func (a *Admission) Held() (instances, waiting int, bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.waiters {
		waiting += a.waiters[i].size()
	}
	return a.instances, waiting + a.bodies.waiting.size(), a.held
}

// mayEnterLocked reports whether a guest may come in now: nobody waits who comes before it, and there is room.
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

// roomLocked reports whether there is room for a guest. There is for any that would be the only one inside, so that a
// guest that is larger than the limit waits, and not for ever. One that has its instance needs a place alone.
func (a *Admission) roomLocked(p *Place, c Class) bool {
	return a.free > 0 && (c != Computing || a.long == 0 || a.long < p.longMost() && !p.crowdedLocked()) &&
		p.reasonLocked(c) == nil &&
		(p.at == returning || p.fitsLocked(c))
}

func (a *Admission) enterLocked(p *Place, c Class) {
	if p.at != returning {
		a.instances++
		p.asked = p.bytes
		p.tallyLocked(1)
		a.evictOverLocked(a.chargedLocked() - a.limit) // it is the only one inside
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

// longLocked counts a guest that is inside as one that has computed for a slice.
func (a *Admission) longLocked(p *Place) {
	if !p.long {
		p.long = true
		a.long++
	}
}

// insideLocked has a guest compute.
func (p *Place) insideLocked() {
	p.at = inside
	p.a.free--
	p.subject.Begin()
}

// stopLocked has a guest that is inside compute no longer.
func (p *Place) stopLocked() {
	a := p.a
	a.free++
	if p.long {
		p.long = false
		a.long--
	}
	p.subject.End()
}

// returnLocked has a guest that has an instance wait with it.
func (a *Admission) returnLocked(p *Place) {
	if p.at != outside {
		a.upLocked(p)
		p.at = returning
	}
}

// leaveLocked has a guest go outside, and lets others in.
func (a *Admission) leaveLocked(p *Place) {
	if p.at != outside {
		a.goLocked(p)
		a.grantLocked()
	}
}

// goLocked has a guest go outside.
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

// upLocked takes a guest, which has an instance, from where it stands. What it holds still counts.
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

// stayLocked takes back that a guest is to give its instance up.
func (a *Admission) stayLocked(p *Place) {
	a.leaving -= p.bytes
	select {
	case <-p.evict: // it has not looked
	default:
	}
}

func (a *Admission) unparkLocked(p *Place) {
	a.parked.Remove(p.e)
	a.parkedBytes -= p.bytes
	p.e = nil
}

// evictLocked has the guest that was parked first give its instance up. Its bytes count until it has.
func (a *Admission) evictLocked() {
	a.parked.Front().Value.(*Place).evictLocked() //nolint:forcetypeassert // it holds nothing else
}

func (p *Place) evictLocked() {
	a := p.a
	a.unparkLocked(p)
	p.at = evicted
	a.instances--
	a.leaving += p.bytes
	p.evict <- struct{}{} // there is room: it was taken, or taken back, before the guest could be parked again
}

// evictOverLocked evicts parked guests until so many bytes are being given up, those of earlier evictions included: who
// was evicted for one that waits need not be followed by another one at each look.
func (a *Admission) evictOverLocked(bytes int64) {
	for a.leaving < bytes && a.parked.Len() > 0 {
		a.evictLocked()
	}
}

// makeRoomLocked evicts parked guests whose memory is in the way of those that wait and for which there are places.
func (a *Admission) makeRoomLocked() {
	free, over := a.free, a.chargedLocked()-a.limit
	for c := range a.waiters {
		for e := a.waiters[c].Front(); e != nil && free > 0; e = e.Next() {
			p := waiterOf(e).place
			if p.reasonLocked(Class(c)) != nil {
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

// grantLocked lets in those that wait and for which there is room now.
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
				for a.grantFirstLocked(Computing) { // these have their memory, for which the others may wait
				}
				return
			}
		}
	}
}
