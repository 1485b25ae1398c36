package workflow

import (
	"math/rand/v2"
	"unsafe"
)

// The global functions of math/rand and math/rand/v2 use a generator of Go's runtime. It is seeded at initialization, so its
// state is part of the image from which every instance starts, and it returns the same numbers in all runs of a module. A
// workflow needs the same numbers for replays. A body must not get them: two runs would choose the same "random" key. So before
// a body or step function runs, scatter fills the state with random bytes from the host, which are truly random there. The
// change is undone with the rest of the body's memory.
//
// The runtime keeps the generator in the machine (the m), to which the goroutine (the g) has a pointer, and has no function
// to seed it. At initialization, findGenerator searches the machine for the number that the generator has just returned.
// Package chacha8rand keeps the numbers in a buffer of 32 words, followed by four words of seed and the index of the next
// number. If a version of Go has another layout, the generator is not found and not changed, and a test fails.

// generator is the address of the generator's state, 0 if it was not found.
var generator uintptr

const (
	generatorBuffer = 32 // words of numbers
	generatorWords  = generatorBuffer + 4
	// machineBytes is the size of the part of a machine that is searched.
	machineBytes = 2048
	// generatorChecks is the number of random numbers that isGenerator checks.
	generatorChecks = 40 // more than the buffer has
)

// findGenerator sets generator.
func findGenerator() {
	end := uintptr(memoryPages()) * wasmPageBytes
	g, x := current(), rand.Uint64()
	for i := range uintptr(headWords) {
		m := address(g+8*i, end-machineBytes-8*(generatorWords+1))
		if m == 0 {
			continue
		}
		for at := m; at < m+machineBytes; at += 8 {
			next := uintptr(word(at + 8*generatorWords))
			if next == 0 || next > generatorBuffer || word64(at+8*(next-1)) != x {
				continue
			}
			if isGenerator(at) {
				generator = at
				return
			}
		}
	}
}

// isGenerator reports whether the runtime's generator has its state at an address.
func isGenerator(at uintptr) bool {
	for range generatorChecks {
		x := rand.Uint64()
		next := uintptr(word(at + 8*generatorWords))
		if next == 0 || next > generatorBuffer || word64(at+8*(next-1)) != x {
			return false
		}
	}
	return true
}

// scatter reseeds the generator for a body or step function, so that its numbers are not repeated elsewhere.
func scatter() {
	if generator != 0 {
		hostRandom(unsafe.Add(unsafe.Pointer(nil), generator), 8*generatorWords)
	}
}
