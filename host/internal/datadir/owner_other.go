//go:build !unix

package datadir

import "os"

// modes says that permissions of files mean something. Here, access is given by lists, which folders inherit.
const modes = false

func owner(os.FileInfo) (uid int, ok bool) { return 0, false }
