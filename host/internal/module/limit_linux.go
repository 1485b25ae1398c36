package module

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// spareBytes is how much more address space than memory a Go program may have reserved.
const spareBytes = 1 << 30

// limitProcess has the kernel limit what the child does not notice itself, and end the child before others when memory is short.
// Where it refuses, the child looks after itself.
func limitProcess(l CompileLimits) {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) // more is always allowed
	limitCPU(l)
	lowerPriority()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return
	}
	text, _, _ := bytes.Cut(b, []byte(" "))
	pages, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return
	}
	most := pages*uint64(os.Getpagesize()) + uint64(l.Memory) + spareBytes
	_ = unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: most, Max: most}) // a lower one stays
}

// lowerPriority sets the niceness of all threads of the process. On Linux each thread has its own, and a new one has that of the
// thread that started it; so when a look at all of them finds nothing to change, every later one is nice, too.
func lowerPriority() {
	const looks = 10 // the first one finds a few threads, the next one none, mostly
	for range looks {
		threads, err := os.ReadDir("/proc/self/task")
		changed := false
		for _, t := range threads {
			id, noNumber := strconv.Atoi(t.Name())
			if noNumber == nil && nicenessOf(id) < niceness && unix.Setpriority(unix.PRIO_PROCESS, id, niceness) == nil {
				changed = true
			}
		}
		if err != nil || !changed {
			return
		}
	}
}

// nicenessOf returns that of a thread, from -20 to 19, or the greatest one if there is no such thread.
func nicenessOf(thread int) int {
	const most, offset = 19, 20
	p, err := unix.Getpriority(unix.PRIO_PROCESS, thread)
	if err != nil {
		return most
	}
	return offset - p // the system call answers so, that nothing it returns is negative
}
