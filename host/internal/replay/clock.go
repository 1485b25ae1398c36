package replay

import (
	"math"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// clock is the time that a guest sees. Deliveries move it, and entries of kind Now, which the host appends where the guest reads
// the time and the host's clock is more than abi.MaxLagMs ahead: the run was paused, its host was down or busy, or the guest
// has computed for long. One is appended, too, where the host's clock was set back: the guest's realtime clock waits for it then,
// and what the guest begins to wait for is due by it. An entry of kind Now says at which reading it was: after so many deliveries
// (Consumed), the reading of that number (Code). A replay moves the clock there.
type clock struct {
	nowMs  int64     // the realtime clock; it never falls
	hostMs int64     // what the host's clock showed then, which is less than nowMs after it was set back
	as     store.Seq // of the entry that hostMs is from
	wasMs  int64     // what the host's clock had shown before it was set back; 0 = it was not, or has shown that again since
	backMs int64     // by how much it was set back
	monoMs int64     // by how much the monotonic clock has moved: by what the host's has, forward, and what was skipped
	tickNs int64     // by which clock-only polls moved it

	reads   uint32 // readings since the newest delivery
	looked  int    // entries of kind Now among so many of the journal have moved the clock
	settles bool   // a moment in which the host's clock was behind does not count: not so in runs of older rules
	resting bool   // the guest has come to a wait, and was given nothing there yet
}

// pass moves the clock to what an entry says. hostMs is the host's clock there.
func (c *clock) pass(e *store.Entry, unixMs, hostMs int64) {
	c.nowMs = max(c.nowMs, unixMs)
	switch {
	case hostMs > c.hostMs:
		c.forward(hostMs)
		c.hostMs, c.as = hostMs, e.Seq
	case e.BehindMs > 0 && e.Seq > c.as: // set back since; what was taken out of order is older
		was := c.hostMs
		if c.wasMs == 0 && c.settles { // other entries may know a later instant
			was = max(was, unixMs)
		}
		c.wasMs, c.backMs = max(c.wasMs, was), c.backMs+was-hostMs
		c.hostMs, c.as = hostMs, e.Seq
	}
}

// forward moves the monotonic clock by what the host's goes forward. Where that shows what it did before it was set back, and was
// set forward by as much, it had been wrong for a moment: that is no time that has passed.
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

// begins sets the clock to the beginning of the first activation.
func (m *Machine) begins() {
	m.nowMs, m.hostMs = m.cfg.StartedUnixMs, m.cfg.StartedUnixMs
	m.settles = m.cfg.Started.Rules >= journal.RulesMarkers
	for i := range m.entries {
		if e := &m.entries[i]; e.Kind == store.KindActivated {
			m.hostMs, m.as = e.HostMs(), e.Seq
			return
		}
	}
}

// move lets the entries of kind Now move the clock that stand before the entry at end, or belong to a reading that the guest has
// made by now.
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

// read is called where the guest reads a clock, or waits by one.
func (m *Machine) read() {
	if m.away() {
		return
	}
	m.reads++
	m.move(0, m.reads)
	if m.cfg.Mode != Live || m.resting || m.dumped || m.Passed() {
		return
	}
	if lag := m.cfg.Tail.Now() - m.hostMs; max(lag, -lag) > abi.MaxLagMs { // less than 0: it was set back
		m.append()
	}
}

// append appends an entry of kind Now, and moves the clock. It reports false if there is no room, or the activation is over,
// which its next call is told.
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

// wasSet is called where the guest comes to wait by a clock, and has nothing to take. It reports whether the host's clock was set
// back since the instant that the wait counts from, or shows again what it did before it was, and has moved the clock then: the
// wait, or what is left of it, counts from now.
func (m *Machine) wasSet() bool {
	if m.cfg.Mode != Live || m.dumped {
		return false
	}
	now := m.cfg.Tail.Now()
	if now >= m.hostMs-abi.MaxLagMs && (m.wasMs == 0 || now < m.wasMs) {
		return false
	}
	m.reads++ // a replay comes to the wait before the clock is moved
	return m.append()
}

// WaitsFrom returns what the host's clock showed at the instant that the guest's clock is at: what a wait that begins now counts
// from; and, if it was set back before, what it had shown, else 0. Both are in Unix milliseconds.
func (m *Machine) WaitsFrom() (hostMs, wasMs int64) { return m.hostMs, m.wasMs }

// from returns the instant from which what the guest asks for now lasts: what the host's clock shows.
func (m *Machine) from() int64 { return m.cfg.Tail.Now() }

// sameDue reports whether two calls wait until the same instant: a replay counts from the newest delivery, and the call that the
// journal has was counted from the host's clock as of that call.
func (m *Machine) sameDue(want, got *store.Entry) bool {
	later := want.HostMs() - m.hostMs // less than 0 where the clock was set back in between
	d := want.DueUnixMs - got.DueUnixMs
	return want.HasDue == got.HasDue && (d == 0 || d >= min(later, 0) && d <= max(later, 0))
}

// Now gives the guest's clock in Unix milliseconds.
func (m *Machine) Now() int64 {
	m.read()
	return m.Time()
}

// Time is Now where it is not the guest that asks.
func (m *Machine) Time() int64 {
	if m.inBody {
		wall, _ := m.cfg.RealTime()
		return wall / 1e6
	}
	return m.nowMs
}

// lastWallMs is the last millisecond of WASI's clock, which is 64 bits of nanoseconds without a sign: in July of 2554.
const lastWallMs = math.MaxUint64 / 1_000_000

// WallNs gives the realtime clock of WASI in nanoseconds, as the bits of a number without a sign.
func (m *Machine) WallNs() int64 {
	m.read()
	if m.inBody {
		wall, _ := m.cfg.RealTime()
		return wall
	}
	return wallNs(m.nowMs)
}

// wallNs stops at the end of WASI's clock, rather than begin again in 1970: sleeps reach farther.
func wallNs(ms int64) int64 { return min(ms, lastWallMs) * 1e6 }

// monoBaseNs is the monotonic clock at started_at: a monotonic zero kills Go's run-time.
const monoBaseNs = 1e9

// MonoNs gives the monotonic clock of WASI in nanoseconds: virtual, and in a body the virtual one plus the real
// time that passed since the body began, so that no timer of the workflow fires inside of a body by surprise.
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
