package module

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// spareBytes is how much more address space than memory a Go program may reserve.
const spareBytes = 1 << 30

// limitProcess sets kernel limits for what the child's own watch misses, and makes the child the OOM killer's first
// choice. If the kernel refuses, the child's own watch is the only limit.
func limitProcess(l CompileLimits) {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) // a higher score is always allowed
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
	_ = unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: most, Max: most}) // fails if the limit is already lower
}

// lowerPriority sets the niceness of all threads of the process. On Linux each thread has its own niceness and
// inherits that of the thread that started it. So once a pass over all threads finds nothing to change, all later
// threads are nice, too.
func lowerPriority() {
	const looks = 10 // mostly two passes suffice: the first finds a few threads, the second none
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

// nicenessOf returns the niceness of a thread, from -20 to 19, or 19 if there is no such thread.
func nicenessOf(thread int) int {
	const most, offset = 19, 20
	p, err := unix.Getpriority(unix.PRIO_PROCESS, thread)
	if err != nil {
		return most
	}
	return offset - p // the system call returns 20 minus the niceness, so that it is never negative
}
