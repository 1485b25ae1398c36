package workflow

import (
	"math/rand/v2"
	"unsafe"
)

// The global functions of math/rand and math/rand/v2 take their numbers from a generator of Go's runtime, which is seeded when
// the program is initialized: its state is part of the image with which every instance starts. So it gives the same numbers
// in all runs of a module, which a workflow needs and a body must not have: two runs would choose the same "random" key. Before
// a body or a step function runs, its state is therefore filled with random bytes of the host, which are real there. What a
// body does to it is undone with the rest of its memory.
//
// The runtime keeps the generator in its description of the machine (the m), to which the goroutine's (the g) has a pointer,
// and offers no function to seed it. When the program is initialized, that description is searched for the number which the
// generator has just given; package chacha8rand keeps it in a buffer of 32 words, with four words of a seed and the index of
// the next number behind it. If a version of Go keeps it in another way, nothing is found, nothing is changed, and a test fails.

// generator is the address of the generator's state, 0 if it was not found.
var generator uintptr

const (
	generatorBuffer = 32 // words of numbers
	generatorWords  = generatorBuffer + 4
	// machineBytes is searched behind the beginning of a machine.
	machineBytes = 2048
	// generatorChecks is how many numbers have to be found where they should be.
	generatorChecks = 40 // more than the buffer has
)

// findGenerator fills generator.
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

// isGenerator reports whether numbers are taken from the state at an address.
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

// scatter makes the generator of a body or step function another one than that of any other.
func scatter() {
	if generator != 0 {
		hostRandom(unsafe.Add(unsafe.Pointer(nil), generator), 8*generatorWords)
	}
}
