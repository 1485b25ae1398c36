package replay

import (
	"math"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// clock is the time that a guest sees. Deliveries and entries of kind Now move it. The host appends a Now entry when the guest
// reads the time and the host's clock is more than abi.MaxLagMs ahead: the run was paused, its host was down or busy, or the
// guest computed a long time. It also appends one when the host's clock was set back by more than that. The guest's realtime
// clock then stands still until the host's clock catches up, and new waits are due by the host's clock.
//
// A Now entry identifies its reading by the number of deliveries before it (Consumed) and the number of the reading since then
// (Code). A replay moves the clock at the same reading.
type clock struct {
	nowMs  int64     // the realtime clock; it never falls
	hostMs int64     // the host's clock then; less than nowMs after it was set back
	as     store.Seq // the entry that hostMs is from
	wasMs  int64     // the host's clock before it was set back; 0 = not set back, or it has caught up since
	backMs int64     // how far it was set back
	monoMs int64     // how far the monotonic clock has moved: forward moves of the host's clock plus skipped time
	tickNs int64     // how far clock-only polls moved the monotonic clock

	reads   uint32 // readings since the newest delivery
	looked  int    // Now entries before this index have moved the clock
	settles bool   // periods with the host's clock behind do not count as time; false in runs before RulesMarkers
	ordered bool   // an older entry, taken out of order, does not move the clock; false in runs before RulesOrder
	resting bool   // the guest reached a wait and has received no delivery there yet
}

// pass moves the clock to the time of an entry. hostMs is the host's clock at the entry.
func (c *clock) pass(e *store.Entry, unixMs, hostMs int64) {
	c.nowMs = max(c.nowMs, unixMs)
	switch {
	case hostMs > c.hostMs && (e.Seq > c.as || !c.ordered):
		c.forward(hostMs)
		c.hostMs, c.as = hostMs, e.Seq
	case e.BehindMs > 0 && e.Seq > c.as: // set back since; an older entry, taken out of order, changes nothing
		was := c.hostMs
		if c.wasMs == 0 && c.settles { // the clock may have been further than this guest has seen
			was = max(was, unixMs)
		}
		c.wasMs, c.backMs = max(c.wasMs, was), c.backMs+was-hostMs
		c.hostMs, c.as = hostMs, e.Seq
	}
}

// forward moves the monotonic clock by a forward move of the host's clock. If the host's clock reaches what it showed before it
// was set back, in a jump of at least backMs, it was wrong in between: backMs of the jump is not time that passed.
func (c *clock) forward(hostMs int64) {
	passed := hostMs - c.hostMs
	if c.wasMs != 0 && hostMs >= c.wasMs {
		if passed >= c.backMs && c.settles {
			passed -= c.backMs
		}
		c.wasMs, c.backMs = 0, 0
	}
	c.monoMs += passed
}

// begins sets the clock to the start of the first activation.
func (m *Machine) begins() {
	m.nowMs, m.hostMs = m.cfg.StartedUnixMs, m.cfg.StartedUnixMs
	m.settles = m.cfg.Started.Rules >= journal.RulesMarkers
	m.ordered = m.cfg.Started.Rules >= journal.RulesOrder
	for i := range m.entries {
		if e := &m.entries[i]; e.Kind == store.KindActivated {
			m.hostMs, m.as = e.HostMs(), e.Seq
			return
		}
	}
}

// move applies Now entries to the clock: all those before index end, and later ones whose reading the guest has made.
// reads is the number of its readings since the newest delivery.
func (m *Machine) move(end int, reads uint32) {
	for ; m.looked < len(m.entries); m.looked++ {
		e := &m.entries[m.looked]
		if e.Kind != store.KindNow {
			continue
		}
		if m.looked >= end && (e.Consumed > m.consumed || e.Consumed == m.consumed && uint32(e.Code) > reads) {
			return
		}
		m.pass(e, e.UnixMs, e.HostMs())
	}
}

// read must be called when the guest reads a clock or begins to wait by one. When live, it appends a Now entry if the host's
// clock is more than abi.MaxLagMs ahead or behind.
func (m *Machine) read() {
	if m.away() {
		return
	}
	m.reads++
	m.move(0, m.reads)
	if m.looked < len(m.entries) { // a Now entry is still to come
		return
	}
	if m.cfg.Mode != Live || m.resting || m.dumped || m.Passed() || m.behind() {
		return
	}
	if lag := m.cfg.Tail.Now() - m.hostMs; max(lag, -lag) > abi.MaxLagMs { // negative: it was set back
		m.append()
	}
}

// append appends a Now entry and moves the clock. It returns false if the journal has no room or the activation is over; in the
// latter case, the guest's next call returns the error.
func (m *Machine) append() bool {
	if m.reads > math.MaxInt32 || m.cfg.Tail.CallRoom() != nil {
		return false
	}
	_, err := m.cfg.Tail.Append(store.Entry{Kind: store.KindNow, Consumed: m.consumed, Code: int32(m.reads)})
	if err == nil {
		m.refresh()
		m.move(0, m.reads)
	}
	return err == nil
}

// wasSet must be called when the guest is about to wait by a clock and there is no delivery to take. If the host's clock was
// set back since the instant from which the wait counts, or has caught up again, wasSet appends a Now entry and returns true: the
// rest of the wait counts from now.
func (m *Machine) wasSet() bool {
	if m.cfg.Mode != Live || m.dumped {
		return false
	}
	now := m.cfg.Tail.Now()
	if now >= m.hostMs-abi.MaxLagMs && (m.wasMs == 0 || now < m.wasMs) {
		return false
	}
	m.reads++ // a replay reaches the wait before the clock moves
	return m.append()
}

// WaitsFrom returns the host's clock at the guest's present time, from which a new wait counts, and the host's clock before it
// was set back, 0 if it was not. Both are in Unix milliseconds.
func (m *Machine) WaitsFrom() (hostMs, wasMs int64) { return m.hostMs, m.wasMs }

// from returns the instant from which a new sleep or time-out counts: the host's clock.
func (m *Machine) from() int64 { return m.cfg.Tail.Now() }

// sameDue reports whether two calls wait until the same instant. A replay counts from the newest delivery, the recorded call
// counted from the host's clock at the call. So the deadlines may differ by as much as these two instants.
func (m *Machine) sameDue(want, got *store.Entry) bool {
	later := want.HostMs() - m.hostMs // negative if the clock was set back in between
	d := want.DueUnixMs - got.DueUnixMs
	return want.HasDue == got.HasDue && (d == 0 || d >= min(later, 0) && d <= max(later, 0))
}

// Now returns the guest's clock in Unix milliseconds. It counts as a reading by the guest.
func (m *Machine) Now() int64 {
	m.read()
	return m.Time()
}

// Time returns the guest's clock in Unix milliseconds without counting as a reading.
func (m *Machine) Time() int64 {
	if m.inBody {
		wall, _ := m.cfg.RealTime()
		return wall / 1e6
	}
	return m.nowMs
}

// lastWallMs is the last millisecond of WASI's clock, an unsigned 64-bit number of nanoseconds: in July 2554.
const lastWallMs = math.MaxUint64 / 1_000_000

// WallNs returns WASI's realtime clock in nanoseconds, as the bits of an unsigned number.
func (m *Machine) WallNs() int64 {
	m.read()
	if m.inBody {
		wall, _ := m.cfg.RealTime()
		return wall
	}
	return wallNs(m.nowMs)
}

// wallNs converts milliseconds to nanoseconds. It stops at the end of WASI's clock instead of wrapping to 1970, because sleeps
// may last longer.
func wallNs(ms int64) int64 { return min(ms, lastWallMs) * 1e6 }

// monoBaseNs is the monotonic clock at started_at. Go's runtime crashes if it reads zero.
const monoBaseNs = 1e9

// MonoNs returns WASI's monotonic clock in nanoseconds. It is virtual. In a body, it is the virtual clock plus the real time
// since the body began, so no timer of the workflow fires in the body unexpectedly.
func (m *Machine) MonoNs() int64 {
	m.read()
	return m.mono()
}

func (m *Machine) mono() int64 {
	if m.inBody {
		_, elapsed := m.cfg.RealTime()
		return max(m.bodyMonoNs, monoBaseNs) + elapsed
	}
	return monoBaseNs + m.monoMs*1e6 + m.tickNs
}
