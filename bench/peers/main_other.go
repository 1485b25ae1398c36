//go:build !linux

// Command peers compares wfhost with others. It reads memory and CPU time from /proc.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "peers: needs Linux, whose /proc tells memory and CPU time of processes")
	os.Exit(1)
}
