package host

import (
	"time"

	"github.com/wfhost/wfhost/abi"
)

// Defaults of Config, with their reasons.
const (
	// defaultLinger: most steps end within it, and keeping the instance saves a replay.
	defaultLinger = time.Second
	// defaultInstances: more guests than processors, since guests wait for each other and for writers while they
	// compute. With 8, a step of a small guest took a tenth more processor time; 32 took as much as 16.
	defaultInstances = 16
	// defaultParkBytes keeps some 250 Go guests that have written a few dozen pages each. Further guests are frozen,
	// and thawed when they continue. With half as much, freezing takes a sixth of the time of 256 runs that make
	// steps. With twice as much, 2,000 runs that wake at once and make a step took 100 MB more memory, and no less
	// time.
	defaultParkBytes = 128 << 20
	// defaultWarmBytes keeps some thousand Go guests: twice as much is on the heap between two garbage collections.
	defaultWarmBytes = 64 << 20
	// defaultModuleIdle: reloading a Go module takes some 50 ms of processor time, and this is a few hundred times as
	// long.
	defaultModuleIdle = 30 * time.Second
	// defaultModuleBytes keeps a dozen Go modules, whose code takes some 15 MiB each.
	defaultModuleBytes = 256 << 20
	// defaultStartLinger: a Go guest reaches its first step within it; a slower guest costs one more commit.
	defaultStartLinger = 50 * time.Millisecond
	// defaultSweepEvery: an hour more is negligible for runs that were kept for days.
	defaultSweepEvery = time.Hour
	// defaultDrain: most steps end within it, and process supervisors wait longer before they kill.
	defaultDrain = 10 * time.Second
	// defaultGuestBytes has room for some 120 Go guests of the usual size, or for two of the largest. With 256 MiB,
	// and the other bounds of that time, a server exceeded 1 GiB after forty minutes of attacks that filled all
	// bounds.
	defaultGuestBytes = 160 << 20
	// leastGuestBytes has room for one guest of the largest size, and as much for other guests.
	leastGuestBytes = 2 * abi.MaxMemoryBytes
	// defaultJournalBytes is one and a half of the largest journals. With their garbage, journals are most of a
	// host's Go heap.
	defaultJournalBytes = 96 << 20
	// defaultCacheBytes keeps some 250 Go modules. Evicted modules, the least recently used, take two seconds of
	// processor time each when they are needed again.
	defaultCacheBytes = 4 << 30
	// leastCacheBytes has room for the code of the largest module, and for some of the usual size.
	leastCacheBytes = 256 << 20
)
