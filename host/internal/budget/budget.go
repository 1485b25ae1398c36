// Package budget keeps guests within what they may compute and call between two waits, and ends them.
package budget

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/replay"
)

// Clock measures what guests compute and how long bodies take. It is the machine's clock even where the
// host runs in virtual time: a loop burns real time.
var Clock = clock.System()

var (
	// ErrCalls ends a workflow that calls too often.
	ErrCalls = fmt.Errorf("the workflow made too many calls without waiting: the limit is %d", abi.MaxHostCalls)
	// ErrFuel ends a workflow that computes too long. The same journal ends it at the same
	// instruction on every host, but for the few dozen that each thaw of a frozen guest adds.
	ErrFuel = errors.New("the workflow computed too long without waiting")
	// ErrSlow ends an activation that takes longer than its fuel should: the machine is at fault, not the workflow.
	ErrSlow = errors.New("the machine is too slow for the workflow, or stood still")
)

// Limits are what a guest may use between two waits.
type Limits struct {
	Grants int64         // of fuel; 0 = no limit
	CPU    time.Duration // that its computing may take
	Calls  int           // of the host
}

// letOthers lets other goroutines go first. Tests replace it.
var letOthers = runtime.Gosched

// Grants returns how many grants of fuel an amount of it is, one at least.
func Grants(fuel int64) int64 { return max((fuel+engine.FuelGrant-1)/engine.FuelGrant, 1) }

// Metered is a replay machine whose guest is kept within limits. It answers what an engine asks of its host about
// budgets; what the guest's journal has passed is free. All methods but Stop are for the goroutine that runs the guest.
type Metered struct {
	*replay.Machine
	Limits Limits
	// Look, if set, is called at each call and grant of fuel.
	Look func() error
	// Slice, if set, is called when the guest has computed for a slice: it may let others compute first. What it takes is not
	// the guest's time.
	Slice func() error
	// Granted is the fuel that the guest was granted, and the bytes of its calls, replays included. What it has used is that,
	// less what is left of the grants.
	Granted int64
	// Unfuelled is set for an instance that has no fuel yet. Its first grant comes before it has computed anything, and is none for
	// which Slice is called.
	Unfuelled bool

	stopped atomic.Pointer[error]
	taken   uint64        // deliveries, as of the wait after which everything below is counted
	calls   int           // of the host
	grants  int64         // of fuel
	alone   int           // grants of fuel since the newest slice
	handed  int           // as much for bytes of calls, since the newest slice or delivery
	worked  int64         // bytes of calls since the newest grant was counted
	segment time.Time     // when the clock was first looked at
	called  time.Duration // how long the calls took since the newest slice, without what others did at looks
	busy    time.Duration // how long calls took since the guest last waited for something that is not its doing
	looked  time.Time     // when the clock was last looked at because of calls; zero if the guest has given its place up since
	unseen  int           // calls since then
	perLook int           // calls at which the clock is looked at again
}

const (
	// GrantsPerSlice is how many grants of fuel are a slice of computing, some five milliseconds: a Go guest starts up in one, and
	// most guests that wake are done.
	GrantsPerSlice = 5
	// callSlice is how long a guest may call the host before that is a slice of computing: one that does nothing else takes its
	// processor, too. Calls differ by a thousand times in what they cost, so they are not counted. It is less than a slice of
	// fuel, as a call keeps all that it makes on the heap and in journals; a run that wakes rarely calls for so long.
	callSlice = time.Millisecond
	// lookEvery is how long the calls between two looks at the clock are to take, by what those before them took. At each look
	// but the first ones, see aloneFor, other goroutines go first: a call into the host takes its processor for as long as it
	// computes, and what others do goes through many goroutines, each of which would wait for all guests.
	lookEvery = 50 * time.Microsecond
	// aloneFor is how long a guest may call the host since it last waited before it lets others go first: a run that wakes, makes
	// a step and sleeps waits before. Whoever lets others go first comes behind all of them, which on a host whose processors
	// are busy takes as long as ten milliseconds, each time.
	aloneFor = callSlice / 2
	// mostPerInterval is how much an interval between two looks counts at most: a goroutine may stand still for milliseconds, as
	// where a collection goes on or the system has given its processor to others, and that is not a slice of computing.
	mostPerInterval = callSlice / 4
	// leastPerLook and mostPerLook bound how many they are: a look takes about as long as a cheap call, and a child's start, with
	// what it has the collector do, some hundred microseconds.
	leastPerLook, mostPerLook = 1, 250
)

// Stop ends the guest at its next call, or when its grant of fuel is used up.
func (m *Metered) Stop(cause error) { m.stopped.CompareAndSwap(nil, &cause) }

// Stopped returns why the guest was stopped, nil if it was not.
func (m *Metered) Stopped() error {
	if p := m.stopped.Load(); p != nil {
		return *p
	}
	return nil
}

// Enter counts a call, unless the guest's journal has passed it.
func (m *Metered) Enter() error {
	if !m.Passed() {
		m.calls++
	}
	if m.calls > m.Limits.Calls {
		return ErrCalls
	}
	m.unseen++
	if m.unseen >= m.perLook {
		if err := m.inTime(); err != nil {
			return err
		}
		if err := m.sliceOfCalls(); err != nil {
			return err
		}
	}
	if m.Look != nil {
		if err := m.Look(); err != nil {
			return err
		}
	}
	return m.Stopped()
}

// Refuel grants the guest more fuel, unless it has used all that there is between two waits. What it is granted depends on
// nothing but what it executes, and the bytes of its calls.
func (m *Metered) Refuel() error {
	err := m.refuel(&m.alone)
	if err == nil {
		m.Granted += engine.FuelGrant
	}
	return err
}

// refuel counts a grant of fuel, which the guest has used or is about to, among those since the newest slice, and lets others go
// first.
func (m *Metered) refuel(since *int) error {
	if err := m.Stopped(); err != nil {
		return err
	}
	if m.Look != nil {
		if err := m.Look(); err != nil {
			return err
		}
	}
	if !m.Passed() {
		m.grants++
	}
	if m.Limits.Grants > 0 && m.grants > m.Limits.Grants {
		return ErrFuel
	}
	first := m.Unfuelled
	m.Unfuelled = false
	if !first {
		*since++
		if *since < GrantsPerSlice {
			m.yield()
		} else if err := m.slice(); err != nil {
			return err
		}
	}
	return m.inTime()
}

// sliceOfCalls lets other goroutines run if the guest has called for a while, and other guests go first if it has for a slice.
// The time that others take is not counted: with sixteen guests computing it would be most of every slice.
func (m *Metered) sliceOfCalls() error {
	if !m.looked.IsZero() {
		took := max(Clock.Now().Sub(m.looked), 1)
		m.called += min(took, mostPerInterval)
		m.busy += min(took, mostPerInterval)
		m.perLook = int(int64(m.unseen) * int64(lookEvery) / int64(took))
	}
	if m.busy >= aloneFor {
		m.yield()
	}
	m.looked, m.unseen, m.perLook = Clock.Now(), 0, min(max(m.perLook, leastPerLook), mostPerLook)
	if m.called < callSlice {
		return nil
	}
	return m.slice()
}

// yield lets other goroutines go first, and does not count how long.
func (m *Metered) yield() {
	_ = m.Untimed(func() error { letOthers(); return nil })
}

// slice lets others compute, and does not count how long.
func (m *Metered) slice() error {
	m.alone, m.handed = 0, 0
	if m.Slice == nil {
		m.yield()
		return nil
	}
	err := m.Untimed(m.Slice)
	m.called, m.looked, m.unseen = 0, Clock.Now(), 0
	return err
}

// Waited says that the guest has waited for something that is not its doing: no slice of calls goes on. What its calls took
// before says nothing of those to come.
func (m *Metered) Waited() {
	m.called, m.busy, m.looked = 0, 0, time.Time{}
	m.unseen, m.perLook = 0, leastPerLook
}

// Untimed does something whose time is not the guest's. What calls took before it counts.
func (m *Metered) Untimed(do func() error) error {
	begun := Clock.Now()
	err := do()
	took := Clock.Now().Sub(begun)
	for _, since := range []*time.Time{&m.segment, &m.looked} {
		if !since.IsZero() {
			*since = since.Add(took)
		}
	}
	return err
}

// Work counts the bytes of a call as fuel.
func (m *Metered) Work(bytes int64) error {
	m.Granted += bytes
	for m.worked += bytes; m.worked >= engine.FuelGrant; m.worked -= engine.FuelGrant {
		if err := m.refuel(&m.handed); err != nil {
			return err
		}
	}
	return m.Stopped()
}

// inTime returns ErrSlow if the guest has taken too long since it last waited.
func (m *Metered) inTime() error {
	now := Clock.Now()
	if m.segment.IsZero() {
		m.segment = now
	}
	if now.Sub(m.segment) > m.Limits.CPU {
		return ErrSlow
	}
	return nil
}

// Rested begins to count anew when the guest has waited, or what it waits for had happened already. A delivery takes no more
// than lookEvery off the time of its calls: enough that a replay is no slice of computing, and too little for a guest that takes
// one delivery after the other to hide what it computes between them.
func (m *Metered) Rested() {
	if c := m.Consumed(); c != m.taken {
		m.taken, m.calls, m.grants, m.handed, m.worked, m.segment = c, 0, 0, 0, 0, time.Time{}
		m.called = max(m.called-lookEvery, 0) // and not looked: a replay rests at each call, and would look at each
	}
}
