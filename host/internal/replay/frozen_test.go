package replay

import (
	"runtime"
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

// TestFrozenBytesAreReal compares what frozen machines count as with what the heap has for them.
func TestFrozenBytesAreReal(t *testing.T) {
	const n = 1000
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for name, calls := range map[string]func(m *Machine){
		"one sleep": func(m *Machine) { must(t, 1)(m.Sleep("nap", 1000)) },
		"random numbers, and names of calls": func(m *Machine) {
			m.Random(make([]byte, 16))
			for i, c := range "abcdefghijkl" {
				must(t, int64(i+1))(m.Sleep(string(c), 1000))
			}
		},
		"markers": func(m *Machine) {
			must(t, 1)(m.Version("a", 1))
			must(t, 2)(m.Version("b", 2))
			must(t, 1)(m.Sleep("nap", 1000))
		},
	} {
		tails := make([]*tail, n) // which the runs have, and not the frozen guests
		for i := range tails {
			tails[i] = newTail(t)
			calls(tails[i].machine())
		}
		frozen := make([]Frozen, n)
		before := heap()
		counted := int64(0)
		for i := range frozen {
			m := tails[i].machine()
			calls(m)
			_, err := m.Await([]int64{1})
			suspends(t, err)
			frozen[i] = m.Freeze()
			counted += frozen[i].Bytes()
		}
		took := heap() - before
		if counted < took*9/10 || counted > took*13/10 {
			t.Errorf("%s: a frozen guest takes %d bytes and counts as %d", name, took/n, counted/n)
		}
		t.Logf("%s: %d bytes, counted as %d", name, took/n, counted/n)
		runtime.KeepAlive(frozen)
		runtime.KeepAlive(tails)
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
