package replay

import (
	"fmt"
	"testing"
)

// slept returns a journal of n sequential sleeps, and their names.
func slept(t testing.TB, n int) (*tail, []string) {
	x := newTail(t)
	names := make([]string, n)
	m := x.machine()
	for i := range names {
		names[i] = fmt.Sprint("nap ", i)
		h, err := m.Sleep(names[i], 10)
		if err != nil {
			t.Fatal(err)
		}
		x.now += 10
		if err := x.j.FireDue(x.now); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Await([]int64{h}); err != nil {
			t.Fatal(err)
		}
	}
	return x, names
}

func replayAll(t testing.TB, x *tail, names []string) {
	m := x.machine()
	var ids [1]int64
	for i, name := range names {
		h, err := m.Sleep(name, 10)
		if err != nil || h != int64(i)+1 {
			t.Fatal(h, err)
		}
		ids[0] = h
		if got, err := m.Await(ids[:]); err != nil || got != h {
			t.Fatal(got, err)
		}
	}
}

// TestReplayAllocates counts heap allocations of a replay: a few for the machine, and none per call.
func TestReplayAllocates(t *testing.T) {
	count := func(n int) float64 {
		x, names := slept(t, n)
		return testing.AllocsPerRun(20, func() { replayAll(t, x, names) })
	}
	few, many := count(10), count(1000)
	if few != many {
		t.Errorf("%v allocations for 10 calls and their waits, %v for 1,000", few, many)
	}
	if few > 5 {
		t.Errorf("%v allocations for a machine, want at most 5", few)
	}
}

// BenchmarkReplay replays a journal of 1,000 sleeps; an operation is a sleep with its wait.
func BenchmarkReplay(b *testing.B) {
	x, names := slept(b, 1000)
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += len(names) {
		replayAll(b, x, names)
	}
}
