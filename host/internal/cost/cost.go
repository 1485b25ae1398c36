// Package cost measures in tests how the cost of a call grows with the amount of data that the call may read.
package cost

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
)

// A Case is a call with a kind of data, and the amounts of data to measure it with.
type Case struct {
	Call, Of string
	Sizes    []int // ascending; the last one is the maximum amount
	// Setup makes n items of the data, and returns the call. The call may add a few: it is made a few hundred times.
	Setup func(t testing.TB, n int) (call func())
	// Calls is the number of calls per round; 0: 20.
	Calls int
	// Slow is how many microseconds more than the allowed multiple a call may take; 0: 5.
	Slow float64
}

const (
	rounds = 8
	// Most is the allowed ratio of a call's cost with the maximum amount to its cost with the least. A call that reads
	// all data costs hundreds of times as much, and figures of a busy machine vary by less than this.
	Most = 8
)

// usual and usualBytes are the allocations and bytes that a call may always make: the data that it adds grows slices at
// times.
const usual, usualBytes = 8, 16 << 10

// Table measures cases, logs them as a table of microseconds of CPU, allocations and bytes, and fails cases that grow.
// Allocations depend neither on the machine nor on its load. Times are not compared with -short, as under the race
// detector.
func Table(t *testing.T, cases []Case) {
	t.Helper()
	var b strings.Builder
	for _, c := range cases {
		fmt.Fprintf(&b, "\n| %s | %s |", c.Call, c.Of)
		first, few := 0.0, memory{}
		for i, n := range c.Sizes {
			us, m := measure(t, c, n)
			fmt.Fprintf(&b, " %d: %.2f µs, %d of %d B |", n, us, m.allocations, m.bytes)
			if i == 0 {
				few = m
			} else if m.allocations > Most*few.allocations+usual || m.bytes > Most*few.bytes+usualBytes {
				t.Errorf("%s makes %d allocations of %d bytes with %d %s, and %d of %d with %d", c.Call, m.allocations, m.bytes, n, c.Of,
					few.allocations, few.bytes, c.Sizes[0])
			}
			slow := c.Slow
			if slow == 0 {
				slow = 5
			}
			if i == 0 {
				first = us
			} else if us > Most*first+slow && !testing.Short() {
				t.Errorf("%s costs %.1f µs with %d %s, and %.1f with %d", c.Call, us, n, c.Of, first, c.Sizes[0])
			}
		}
	}
	t.Log(b.String())
}

// memory is what a call allocates.
type memory struct{ allocations, bytes uint64 }

// measure returns a call's microseconds of CPU on average in the fastest round, and its allocations in the round with
// the fewest: the other rounds may include the garbage collector, other work of the process, and growing slices.
func measure(t *testing.T, c Case, n int) (us float64, m memory) {
	t.Helper()
	call, calls := c.Setup(t, n), c.Calls
	if calls == 0 {
		calls = 20
	}
	runtime.GC()
	least := math.MaxFloat64
	m = memory{math.MaxUint64, math.MaxUint64}
	for range rounds {
		var from, to runtime.MemStats
		runtime.ReadMemStats(&from)
		before := CPU()
		for range calls {
			call()
		}
		least = min(least, float64((CPU()-before).Nanoseconds())/float64(calls)/1000)
		runtime.ReadMemStats(&to)
		m.allocations = min(m.allocations, (to.Mallocs-from.Mallocs)/uint64(calls))
		m.bytes = min(m.bytes, (to.TotalAlloc-from.TotalAlloc)/uint64(calls))
	}
	return least, m
}
