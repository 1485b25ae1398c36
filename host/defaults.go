package host

import (
	"time"

	"github.com/wfhost/wfhost/abi"
)

// Defaults of Config that have reasons.
const (
	// defaultLinger: most steps end within it, and keeping the instance saves a replay.
	defaultLinger = time.Second
	// defaultInstances: more guests than processors, since guests wait for each other and for writers while they compute.
	// With 8, a step of a small guest took a tenth more processor time, and with 32 no less than with 16.
	defaultInstances = 16
	// defaultParkBytes keeps some 250 Go guests that have written a few dozen pages each. Those beyond it are frozen,
	// and thawed when they continue: with half as much, a sixth of the time of 256 runs that make steps. With twice as
	// much, 2,000 runs that wake at once and make a step took 100 MB more memory, and no less time.
	defaultParkBytes = 128 << 20
	// defaultWarmBytes keeps some thousand Go guests: twice as much is on the heap between two garbage collections.
	defaultWarmBytes = 64 << 20
	// defaultModuleIdle: a Go module comes back in some 50 ms of processor time, of which that is a few hundred times as much.
	defaultModuleIdle = 30 * time.Second
	// defaultModuleBytes keeps a dozen Go modules, whose code takes some 15 MiB each.
	defaultModuleBytes = 256 << 20
	// defaultStartLinger: a Go guest comes to its first step within it; one that computes longer costs a commit more.
	defaultStartLinger = 50 * time.Millisecond
	// defaultSweepEvery: an hour does not matter to what was kept for days.
	defaultSweepEvery = time.Hour
	// defaultDrain: most steps end within it, and supervisors of processes wait longer before they kill.
	defaultDrain = 10 * time.Second
	// defaultGuestBytes has room for some 120 Go guests of the usual size, or for two of the largest. With 256 MiB, and
	// as much of the other bounds as they had then, a server came to more than 1 GiB after forty minutes of attacks
	// that filled all of them.
	defaultGuestBytes = 160 << 20
	// leastGuestBytes has room for one of the largest guests, and as much for others.
	leastGuestBytes = 2 * abi.MaxMemoryBytes
	// defaultJournalBytes is one and a half of the largest journals: with the garbage that comes of them, they are most
	// of what a host may come to hold on Go's heap.
	defaultJournalBytes = 96 << 20
	// defaultCacheBytes keeps some 250 Go modules. Those beyond it, which were used longest ago, each take two seconds
	// of processor time when they are needed again.
	defaultCacheBytes = 4 << 30
	// leastCacheBytes has room for the code of the largest module, and for some of the usual size.
	leastCacheBytes = 256 << 20
)
