package guest

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

var (
	// ErrCalls ends a workflow that calls too often.
	ErrCalls = fmt.Errorf("the workflow made too many calls without waiting: the limit is %d", abi.MaxHostCalls)
	// ErrFuel ends a workflow that computes too long. With the same journal it does so at the same instruction on every host,
	// except that each thaw of a frozen guest adds a few dozen instructions.
	ErrFuel = errors.New("the workflow computed too long without waiting")
	// ErrSlow ends an activation that takes longer than its fuel should: the machine is at fault, not the workflow.
	ErrSlow = errors.New("the machine is too slow for the workflow, or stood still")
)

// Limits bound what a guest uses between two waits.
type Limits struct {
	Grants int64         // grants of fuel; 0 means no limit
	CPU    time.Duration // time for computing
	Calls  int           // calls of the host
}

// letOthers yields to other goroutines. Tests replace it.
var letOthers = runtime.Gosched

// Grants converts fuel to grants, rounding up; the result is at least 1.
func Grants(fuel int64) int64 { return max((fuel+engine.FuelGrant-1)/engine.FuelGrant, 1) }

// Metered is a replay machine that limits its guest. It implements the part of engine.Host that concerns budgets. Fuel and
// calls that the guest's journal has passed are free. Only the guest's goroutine may call the methods other than Stop.
type Metered struct {
	*replay.Machine
	Limits Limits
	// Look, if set, is called at each call and grant of fuel.
	Look func() error
	// Slice, if set, is called when the guest has computed for a slice, and may let other guests compute first. Its time is not
	// counted as the guest's.
	Slice func() error
	// Granted is the fuel granted to the guest plus the bytes of its calls, including replays. The fuel used is Granted minus the
	// rest of the last grant.
	Granted int64
	// Unfuelled is set for an instance that has no fuel yet. Its first grant comes before it has computed anything, so it does
	// not count towards a slice.
	Unfuelled bool

	stopped atomic.Pointer[error]
	taken   uint64        // the machine's consumed deliveries when the counters below were last reset
	calls   int           // calls of the host
	grants  int64         // grants of fuel
	alone   int           // grants of fuel since the last slice
	handed  int           // the same for bytes of calls, since the last slice or delivery
	worked  int64         // bytes of calls that are not counted as a grant yet
	segment time.Time     // when the clock was first read
	called  time.Duration // time of calls since the last slice, without yields
	busy    time.Duration // time of calls since the last Waited
	looked  time.Time     // when sliceOfCalls last read the clock; zero after Waited
	unseen  int           // calls since looked
	perLook int           // value of unseen at which the clock is read again
}

const (
	// GrantsPerSlice is the number of grants of fuel in a slice of computing: some five milliseconds, in which a Go guest starts
	// up, and most waking guests finish.
	GrantsPerSlice = 5
	// callSlice is the time of host calls in a slice of computing, since calls occupy a processor, too. Their number is no
	// measure, because their costs differ by a factor of a thousand. callSlice is shorter than a slice of fuel, because calls
	// keep what they allocate on the heap and in journals. A run that wakes rarely calls for this long.
	callSlice = time.Millisecond
	// lookEvery is the target time of the calls between two reads of the clock, estimated from earlier calls. At each read, except
	// during the first aloneFor after a wait, the guest yields to other goroutines. The host's other work passes through many
	// goroutines, and each of them would wait for all guests, since a host call is not interrupted while it computes.
	lookEvery = 50 * time.Microsecond
	// aloneFor is the time of host calls after a wait before the guest yields. A run that wakes, makes a step and sleeps takes
	// less. A goroutine that yields goes behind all others, which takes up to ten milliseconds on a busy host.
	aloneFor = callSlice / 2
	// mostPerInterval is the maximum counted for the time between two reads of the clock. A goroutine may stand still for
	// milliseconds during a garbage collection, or when the system runs another thread, and that is no computing.
	mostPerInterval = callSlice / 4
	// leastPerLook and mostPerLook bound the calls between two reads of the clock. A read takes about as long as a cheap call.
	// The start of a child, including its garbage collection, takes some hundred microseconds.
	leastPerLook, mostPerLook = 1, 250
)

// Stop stops the guest at its next call, or when its grant of fuel is used up. Only the first cause is kept.
func (m *Metered) Stop(cause error) { m.stopped.CompareAndSwap(nil, &cause) }

// Stopped returns why the guest was stopped, nil if it was not.
func (m *Metered) Stopped() error {
	if p := m.stopped.Load(); p != nil {
		return *p
	}
	return nil
}

// Enter counts a call, unless the guest's journal has passed it, and returns an error if the guest must end.
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

// Refuel grants the guest engine.FuelGrant more fuel, or returns ErrFuel at its limit. The grants depend only on the
// instructions that the guest executes and on the bytes of its calls.
func (m *Metered) Refuel() error {
	err := m.refuel(&m.alone)
	if err == nil {
		m.Granted += engine.FuelGrant
	}
	return err
}

// refuel counts a grant of fuel, in m.grants and in *since, and yields. When *since has reached GrantsPerSlice, it ends the
// slice.
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

// sliceOfCalls adds up the time of host calls. It yields to other goroutines once this has reached aloneFor, and ends the
// slice at callSlice. The time of yields does not count: with sixteen computing guests it would be most of every slice.
func (m *Metered) sliceOfCalls() error {
	if !m.looked.IsZero() {
		took := max(clock.System().Now().Sub(m.looked), 1)
		m.called += min(took, mostPerInterval)
		m.busy += min(took, mostPerInterval)
		m.perLook = int(int64(m.unseen) * int64(lookEvery) / int64(took))
	}
	if m.busy >= aloneFor {
		m.yield()
	}
	m.looked, m.unseen, m.perLook = clock.System().Now(), 0, min(max(m.perLook, leastPerLook), mostPerLook)
	if m.called < callSlice {
		return nil
	}
	return m.slice()
}

// yield yields to other goroutines. The time does not count.
func (m *Metered) yield() {
	_ = m.Untimed(func() error { letOthers(); return nil })
}

// slice ends a slice of computing: it calls Slice, or yields if Slice is not set. The time does not count.
func (m *Metered) slice() error {
	m.alone, m.handed = 0, 0
	if m.Slice == nil {
		m.yield()
		return nil
	}
	err := m.Untimed(m.Slice)
	m.called, m.looked, m.unseen = 0, clock.System().Now(), 0
	return err
}

// Waited resets the time of calls. It must be called after the guest has waited for an event that it did not cause. Earlier
// calls are no estimate for the calls that follow.
func (m *Metered) Waited() {
	m.called, m.busy, m.looked = 0, 0, time.Time{}
	m.unseen, m.perLook = 0, leastPerLook
}

// Untimed calls do without counting its time as the guest's. The time of earlier calls still counts.
func (m *Metered) Untimed(do func() error) error {
	begun := clock.System().Now()
	err := do()
	took := clock.System().Now().Sub(begun)
	for _, since := range []*time.Time{&m.segment, &m.looked} {
		if !since.IsZero() {
			*since = since.Add(took)
		}
	}
	return err
}

// Work counts the bytes of a call as fuel, one unit per byte.
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
	now := clock.System().Now()
	if m.segment.IsZero() {
		m.segment = now
	}
	if now.Sub(m.segment) > m.Limits.CPU {
		return ErrSlow
	}
	return nil
}

// Rested resets the counters if the guest has consumed a delivery since the last reset. Each reset takes only lookEvery off
// the time of calls. That is enough that a replay is no slice of computing, and too little for a guest to hide its computing
// between deliveries that it consumes one after the other.
func (m *Metered) Rested() {
	if c := m.Consumed(); c != m.taken {
		m.taken, m.calls, m.grants, m.handed, m.worked, m.segment = c, 0, 0, 0, 0, time.Time{}
		m.called = max(m.called-lookEvery, 0) // looked stays: a replay rests at each call, and would read the clock each time
	}
}
