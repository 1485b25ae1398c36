//go:build unix

package datadir

import (
	"os"
	"syscall"
)

// modes is whether permission bits of files control access.
const modes = true

// owner returns the id of the user who owns a file.
func owner(info os.FileInfo) (uid int, ok bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(s.Uid), true
}
