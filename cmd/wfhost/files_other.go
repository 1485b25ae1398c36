//go:build !unix

package main

import (
	"math"
	"os"
)

// maxFiles returns how many file descriptors the process may have open.
func maxFiles() int { return math.MaxInt32 }

// terminalWidth returns 0: it is not known.
func terminalWidth(*os.File) int { return 0 }
