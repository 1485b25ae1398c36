//go:build !unix

package main

import "math"

// maxFiles returns how many file descriptors the process may have open.
func maxFiles() int { return math.MaxInt32 }
