// Package cost tells tests how the cost of a call grows with how much there is of what it may look at.
package cost

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
)

// A Case is a call, and what there is more and more of.
type Case struct {
	Call, Of string
	Sizes    []int // ascending; the last one is the limit of what there may be
	// Setup makes n things, and returns the call. The call may add some to them: it is made a few hundred times.
	Setup func(t testing.TB, n int) (call func())
	// Calls is how often the call is made in a round; 0: 20.
	Calls int
	// Slow is how many microseconds more a call may take without being called slower. 0: 5.
	Slow float64
}

const (
	rounds = 8
	// Most is how many times as much a call may cost at the limit as where there is little. A call that looks at all of many
	// things costs hundreds of times as much, and figures of a busy machine differ by less than this.
	Most = 8
)

// usual is how many allocations and bytes a call may make without being called costly: what it adds grows its slices at times.
const usual, usualBytes = 8, 16 << 10

// Table measures cases, logs them as a table of microseconds of CPU, allocations and bytes, and fails those that grow.
// Allocations do not depend on the machine, nor on what else it does. Times are not compared with -short, as under the race
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

// measure returns the microseconds of CPU that a call took on average of the fastest round, and what it allocated in the round
// with the fewest allocations: the garbage collector and other work of the process count in the others, and slices that grow.
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
