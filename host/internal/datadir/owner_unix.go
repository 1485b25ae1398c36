//go:build unix

package datadir

import (
	"os"
	"syscall"
)

// modes says that permissions of files mean something.
const modes = true

// owner returns the number of the user to whom a file belongs.
func owner(info os.FileInfo) (uid int, ok bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(s.Uid), true
}
