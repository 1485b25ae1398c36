package compiler

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
func limitProcess(l Limits) {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) // more is always allowed
	limitCPU(l)
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
