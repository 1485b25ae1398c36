package workflow

import (
	"runtime"
	"time"
	"unsafe"
)

// A goroutine that polls directly keeps Go's scheduler from running. The scheduler fires timers, so a pending
// time.AfterFunc, or the timer of context.WithTimeout, would not fire meanwhile. A direct wait is therefore only allowed
// while no timer is pending. The runtime has no function for that, but it counts the timers in words of its processor (the
// P of the scheduler). There is one processor here, and it never moves. At initialization, findCounters starts and stops
// changing numbers of timers, and searches the processor for the words that have all of these values in turn. Their
// addresses are part of the image from which every instance starts.
//
// A word that matches by chance does no harm, since a direct wait requires that all of them are zero. If a version of Go
// counts differently, no goroutine waits directly. Timers with channels (time.After, time.Ticker) count while a goroutine
// waits for the channel. Sleeps of other goroutines count, too.

// counters are the addresses of the two words that count the pending timers, 0 if they were not found: the atomic length of
// the timer heap, and the length of its slice.
var counters [2]uintptr

// timersPending reports whether a timer may be pending.
func timersPending() bool {
	return counters[0] == 0 || word(counters[0]) != 0 || word(counters[1]) != 0
}

// earliest are the addresses of two words with the time when the first timer is due, in nanoseconds of the monotonic clock;
// 0 if they were not found. The first word is for timers at their place in the heap, the second for timers that were
// modified since. A word is 0 if there are no such timers. They are found like the counters: findEarliest starts timers
// with known times and searches for words with these values.
var earliest [2]uintptr

// firstTimer returns when the first timer is due, 0 if that is unknown. The timer may have been stopped.
func firstTimer() int64 {
	if earliest[0] == 0 || earliest[1] == 0 {
		return 0
	}
	at, changed := int64(word64(earliest[0])), int64(word64(earliest[1]))
	if at == 0 || changed != 0 && changed < at {
		return changed
	}
	return at
}

//go:linkname nanotime runtime.nanotime
func nanotime() int64

// While the garbage collector marks, goroutines may wait for it, and its workers are in no queue of the scheduler. Marking
// can be recognized by the write barrier: each write of a pointer then adds to the processor's write barrier buffer. The
// first two words of the buffer are the addresses of the next entry and of its end, and the entries follow.

// barrier is the address of the write barrier buffer, 0 if it was not found.
var barrier uintptr

// marking writes pointer, a pointer into the heap, to written.
var written, pointer *int = new(int), new(int)

// marking reports whether the garbage collector may be marking.
func marking() bool {
	if barrier == 0 {
		return true
	}
	next := word(barrier)
	written = pointer
	return word(barrier) != next
}

// findBarrier sets barrier. p is the address of the processor.
func findBarrier(p uintptr) {
	for at := p; at < p+processorBytes; at += 8 {
		if next, end := uintptr(word64(at)), uintptr(word64(at+8)); next == at+16 && end > next && end <= p+processorBytes {
			barrier = at
			return
		}
	}
}

// word reads a word of linear memory. The address is arbitrary, so it must not become a pointer that the garbage collector
// could see.
func word(at uintptr) uint32 { return *(*uint32)(unsafe.Add(unsafe.Pointer(nil), at)) }

func memoryPages() int32

// current returns the address of the calling goroutine's g, its description in the runtime.
func current() uintptr

const (
	wasmPageBytes = 65536
	// headWords is the number of words of a g that are searched for its machine (the m), and machineWords the number of
	// words of a machine that are searched for its processor.
	headWords    = 16
	machineWords = 128
	// runningFirst is the first word of a running processor: its id 0, and its status 1.
	runningFirst = 1 << 32
	// processorBytes is the size of the part of a processor that is searched.
	processorBytes = 16 << 10
	// manyTimers is the largest number of timers that findCounters starts.
	manyTimers = 29
)

// maxSuspects is the largest number of words that are examined.
const maxSuspects = 256

// probe holds the timers, and the words that may count them.
var probe struct {
	timers   [manyTimers]*time.Timer
	suspects [maxSuspects]uintptr
	n        int
}

// findCounters sets counters, earliest and barrier.
func findCounters() {
	p := processor(uintptr(memoryPages()) * wasmPageBytes)
	if p == 0 {
		return
	}
	findBarrier(p)
	pend(manyTimers)
	for at := p; at < p+processorBytes && probe.n < maxSuspects; at += 4 {
		if word(at) == manyTimers {
			probe.suspects[probe.n] = at
			probe.n++
		}
	}
	for _, n := range [...]uint32{0, 13, 0, 1, 27, 0} {
		pend(n)
		keep(func(at uintptr) bool { return word(at) == n })
	}
	if probe.n > 0 && probe.n <= len(counters) {
		counters[0], counters[1] = probe.suspects[0], probe.suspects[probe.n-1]
	}
	findEarliest(p)
}

// findEarliest sets earliest. No timer may be pending before, and none is pending after.
func findEarliest(p uintptr) {
	var found [2]uintptr
	for i, changed := range [...]bool{false, true} {
		probe.n = 0
		for round, d := range [...]time.Duration{7 * time.Hour, 3 * time.Hour, 11 * time.Hour} {
			began := nanotime()
			t := time.AfterFunc(d, func() {})
			if changed {
				t.Reset(d - time.Hour)
				d -= time.Hour
			}
			from, to := began+int64(d), nanotime()+int64(d)
			if round == 0 {
				for at := p; at < p+processorBytes && probe.n < maxSuspects; at += 8 {
					probe.suspects[probe.n] = at
					if isInstant(at, from, to) {
						probe.n++
					}
				}
			}
			keep(func(at uintptr) bool { return isInstant(at, from, to) })
			t.Stop()
			runtime.Gosched()
			keep(func(at uintptr) bool { return word64(at) == 0 })
		}
		if probe.n != 1 {
			return
		}
		found[i] = probe.suspects[0]
	}
	earliest = found
}

func isInstant(at uintptr, from, to int64) bool {
	v := int64(word64(at))
	return from <= v && v <= to
}

// keep removes the suspects for which holds returns false.
func keep(holds func(at uintptr) bool) {
	kept := 0
	for _, at := range probe.suspects[:probe.n] {
		if holds(at) {
			probe.suspects[kept] = at
			kept++
		}
	}
	probe.n = kept
}

// processor returns the address of the running processor, 0 if it is not found. It treats the first words of the g as
// possible addresses of its machine, and the words of each of these as possible addresses of a processor.
func processor(end uintptr) uintptr {
	g := current()
	for i := range uintptr(headWords) {
		m := address(g+8*i, end-8*machineWords)
		if m == 0 {
			continue
		}
		for j := range uintptr(machineWords) {
			p := address(m+8*j, end-processorBytes)
			if p != 0 && word64(p) == runningFirst {
				return p
			}
		}
	}
	return 0
}

// address reads a word of linear memory and returns it if it is an aligned address below end, else 0.
func address(at, end uintptr) uintptr {
	if a := uintptr(word64(at)); a%8 == 0 && a < end {
		return a
	}
	return 0
}

func word64(at uintptr) uint64 { return *(*uint64)(unsafe.Add(unsafe.Pointer(nil), at)) }

// pend stops all timers of probe and starts n.
func pend(n uint32) {
	for i, t := range probe.timers {
		if t != nil {
			t.Stop()
			probe.timers[i] = nil
		}
	}
	runtime.Gosched() // the scheduler removes stopped timers from the heap
	for i := range n {
		probe.timers[i] = time.AfterFunc(time.Hour, func() {})
	}
}
