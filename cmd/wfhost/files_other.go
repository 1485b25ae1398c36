//go:build !unix

package main

import (
	"math"
	"os"
)

// maxFiles returns the limit of open file descriptors.
func maxFiles() int { return math.MaxInt32 }

// terminalWidth returns 0: the width is unknown.
func terminalWidth(*os.File) int { return 0 }
