package doctor

import (
	"math"

	"golang.org/x/sys/unix"
)

// limitOf returns a soft limit of this process. The limits of other processes are not available on this system.
func limitOf(which int) (uint64, bool) {
	var l unix.Rlimit
	if unix.Getrlimit(which, &l) != nil {
		return 0, false
	}
	if uint64(l.Cur) >= math.MaxInt64 {
		return math.MaxUint64, true
	}
	return uint64(l.Cur), true
}

func fileLimit(int) (uint64, bool)    { return limitOf(unix.RLIMIT_NOFILE) }
func addressLimit(int) (uint64, bool) { return limitOf(unix.RLIMIT_AS) }
func strictOvercommit() bool          { return false }

// memoryLimit returns nothing: not implemented on this system.
func memoryLimit(int) (limit uint64, from string) { return 0, "" }
