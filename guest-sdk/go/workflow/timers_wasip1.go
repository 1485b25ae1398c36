package workflow

import (
	"runtime"
	"time"
	"unsafe"
)

// A goroutine that polls by itself keeps Go's scheduler from running, and timers are the scheduler's: a pending
// time.AfterFunc, or the one behind context.WithTimeout, would not fire meanwhile. So a direct wait needs to know
// that no timer is pending, which the runtime does not tell. It counts them, though, in words of its processor (the P
// of the scheduler). There is one processor here, and it never moves. When the program is initialized, changing
// numbers of timers are started and stopped, and the processor is searched for the words that follow all of these
// numbers. They are part of the image with which every instance starts.
//
// A word that follows by chance would do no harm, since all of them have to be zero for a direct wait. If a version of
// Go counts in another way, nobody waits directly. Timers of channels (time.After, time.Ticker)
// count while a goroutine waits for the channel, as do the sleeps of other goroutines.

// counters are the addresses of the words that count the pending timers, 0 if they were not found. There are two, the
// atomic length of the heap of timers and the length of the slice that it is.
var counters [2]uintptr

// timersPending reports whether a timer may be pending.
func timersPending() bool {
	return counters[0] == 0 || word(counters[0]) != 0 || word(counters[1]) != 0
}

// earliest are the addresses of the words that say when the first timer is due, in nanoseconds of the monotonic clock, 0 if
// they were not found. There are two as well, of the timers that stand in the heap where they belong, and of those that were
// changed since, either of which is 0 if there are none. They are found as the counters are: timers of known instants are
// pending, and the words follow these.
var earliest [2]uintptr

// firstTimer tells when the first timer is due, which may be one that was stopped; 0 if that is not known.
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

// While the garbage collector marks, goroutines may wait for it, and its workers are in no queue of the scheduler. What
// tells is that a pointer which is written leaves a trace in the processor's buffer of the write barrier: its first two
// words are the addresses of the next entry and of its end, and the entries follow.

// barrier is the address of that buffer, 0 if it was not found.
var barrier uintptr

// What marking writes: a pointer into the heap.
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

// findBarrier fills barrier.
func findBarrier(p uintptr) {
	for at := p; at < p+processorBytes; at += 8 {
		if next, end := uintptr(word64(at)), uintptr(word64(at+8)); next == at+16 && end > next && end <= p+processorBytes {
			barrier = at
			return
		}
	}
}

// word reads linear memory. The address may be of anything that memory holds, so it never becomes a pointer that
// the garbage collector could see.
func word(at uintptr) uint32 { return *(*uint32)(unsafe.Add(unsafe.Pointer(nil), at)) }

func memoryPages() int32

// current returns the address of the runtime's description of the calling goroutine (the g).
func current() uintptr

const (
	wasmPageBytes = 65536
	// headWords is how many words of a g may come before its machine, and machineWords how many words of a machine
	// (the m) before its processor.
	headWords    = 16
	machineWords = 128
	// runningFirst is how a processor begins: its id, 0, and its status, 1 for running.
	runningFirst = 1 << 32
	// processorBytes is searched behind the beginning of a processor.
	processorBytes = 16 << 10
	// manyTimers are started at most.
	manyTimers = 29
)

// maxSuspects bounds the words that held the first number.
const maxSuspects = 256

// The timers, and the words that are suspected to count them.
var probe struct {
	timers   [manyTimers]*time.Timer
	suspects [maxSuspects]uintptr
	n        int
}

// findCounters fills counters, earliest and barrier.
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

// findEarliest fills earliest. No timer is pending, before and after.
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

// keep keeps the suspects of which something holds.
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

// processor follows the words of the goroutine that may be addresses to what may be its machine, and those of the
// machine to what begins as a running processor. It gives 0 if nothing does.
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

// address returns the aligned address below end that a word holds, else 0.
func address(at, end uintptr) uintptr {
	if a := uintptr(word64(at)); a%8 == 0 && a < end {
		return a
	}
	return 0
}

func word64(at uintptr) uint64 { return *(*uint64)(unsafe.Add(unsafe.Pointer(nil), at)) }

// pend makes n timers the pending ones.
func pend(n uint32) {
	for i, t := range probe.timers {
		if t != nil {
			t.Stop()
			probe.timers[i] = nil
		}
	}
	runtime.Gosched() // the scheduler takes what was stopped out of the heap
	for i := range n {
		probe.timers[i] = time.AfterFunc(time.Hour, func() {})
	}
}
