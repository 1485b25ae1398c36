package replay

import (
	"strings"
	"testing"
)

// A frozen machine counts the bytes that the guest has passed to it, and the names of its calls.
func TestFrozenBytes(t *testing.T) {
	m := newTail(t).machine()
	m.Complete(make([]byte, 1<<20))
	m.Fail(make([]byte, 1<<19))
	must(t, 1)(m.Sleep(strings.Repeat("n", 200), 1000))
	if n := m.Freeze().Bytes(); n < 1<<20+1<<19+200 {
		t.Errorf("it takes %d bytes", n)
	}
}

// TestThawedBehindItsWait thaws a snapshot after the guest has reached another wait in a new instance: it reads the
// clock as it did then, since it has yet to take earlier deliveries.
func TestThawedBehindItsWait(t *testing.T) {
	x := newTail(t)
	come := func(m *Machine) {
		t.Helper()
		if got, err := m.Poll(PollRequest{Events: true}); got != PollEvents || err != nil || m.NextEvent() == 0 {
			t.Fatal(got, err)
		}
		if now := m.Now(); now != 1005 {
			t.Fatalf("the clock shows %d", now)
		}
		_, err := m.Poll(PollRequest{Events: true, HasClock: true, TimeoutNs: 10e9})
		if m.Consumed() == 1 {
			suspends(t, err)
			x.j.Suspend(m.Suspension())
		}
	}
	m := x.machine()
	must(t, 1)(m.Sleep("nap", 5))
	_, err := m.Poll(PollRequest{Events: true})
	suspends(t, err)
	x.j.Suspend(m.Suspension())
	f := m.Freeze()
	due := func(now int64) {
		t.Helper()
		x.now = now
		if err := x.j.FireDue(now); err != nil {
			t.Fatal(err)
		}
		x.j.Resume()
	}
	due(1005)
	rested := func(c *Config) { c.Rested = x.j.Rested() }
	m = x.machine(rested)
	must(t, 1)(m.Sleep("nap", 5))
	come(m)
	due(x.now + 10_000)
	n := x.j.Len()
	m = f.Thaw(x.machine(rested).cfg)
	come(m)
	if x.j.Len() != n {
		t.Errorf("it has appended %v", x.j.Entries()[n].Kind)
	}
}
