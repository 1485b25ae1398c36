package host

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/wfhost/wfhost/host/internal/admission"
)

// gcHeadroomBytes is the least allocation between two garbage collections. Go's own rule is as much as is alive,
// which in a busy host may be 6 MiB: forty collections a second cost a fifth of the processors' time, including the
// stacks that they shrink and that wakes grow again. A host with many sleepers has more alive than this, and keeps
// Go's rule.
const gcHeadroomBytes = 64 << 20

// gcMostBytes is the most allocation between two collections, as long as the heap then stays within gcGoalBytes. For
// larger heaps it is at least gcFloorPercent of what is alive: most of a large heap is payloads in journals, which a
// collection need not scan.
const (
	gcMostBytes    = 128 << 20
	gcGoalBytes    = 320 << 20
	gcFloorPercent = 25
)

// gcLeastPercent is Go's own rule, and gcLeastLiveBytes the heap size below which Go does not collect.
const (
	gcLeastPercent   = 100
	gcLeastLiveBytes = 4 << 20
)

// Tune tunes Go's runtime for a host that has the process to itself, as `wfhost serve` does. Call it once, at the
// beginning of main:
//
//   - GOMAXPROCS becomes one more than it was, since a thread of a host nearly always waits for the disk. Go then no longer
//     follows changes of the process's CPU limit.
//   - The garbage collector runs after 64 MiB were allocated, or as much as is alive if that is more, which is Go's own rule.
//     If more than 128 MiB is alive, it runs after 128 MiB, and after less, down to a quarter of what is alive, if the heap
//     would exceed 320 MiB. A busy host with little alive takes up to a fifth less CPU time, and up to 64 MiB more memory; a
//     host with much alive holds less garbage.
//
// GOMAXPROCS and GOGC in the environment take precedence. A program should not call Tune if memory is scarcer than
// CPU time, if it does much else beside the host, or if it calls runtime.GOMAXPROCS, debug.SetGCPercent or
// debug.SetMemoryLimit itself: Tune sets the percentage again after collections. The host does not need Tune to work.
func Tune() {
	if v, _ := os.LookupEnv("GOMAXPROCS"); v == "" {
		// One more than there are cores: Go takes a while to notice that a thread waits for the disk, and a host
		// nearly always has such a thread. Without it, two cores were idle for a quarter of the time.
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
		admission.Spare.Add(1)
	}
	if v, _ := os.LookupEnv("GOGC"); v == "" {
		t := &headroom{percent: gcLeastPercent, live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
		t.collected(&afterGC{t})
	}
}

// headroom adapts the GC percentage after each collection.
type headroom struct {
	percent int
	live    []metrics.Sample
}

// afterGC has a finalizer that runs after each collection.
type afterGC struct{ t *headroom }

func (t *headroom) collected(a *afterGC) {
	metrics.Read(t.live)
	var live uint64
	if v := t.live[0].Value; v.Kind() == metrics.KindUint64 {
		live = v.Uint64()
	}
	if p := gcPercent(live); p*10 < t.percent*9 || p*9 > t.percent*10 { // each change stops the world briefly
		debug.SetGCPercent(p)
		t.percent = p
	}
	runtime.SetFinalizer(a, func(a *afterGC) { a.t.collected(a) })
}

// gcPercent returns how much may be allocated before the next collection, in percent of the live heap.
func gcPercent(liveBytes uint64) int {
	live := max(liveBytes, gcLeastLiveBytes)
	most := uint64(gcHeadroomBytes)
	if live < gcGoalBytes {
		most = min(gcMostBytes, gcGoalBytes-live)
	}
	least := min(max(most*100/live, gcFloorPercent), gcLeastPercent)
	return int(max(gcHeadroomBytes*100/live, least))
}
