package host_test

import "runtime"

// goroutines returns the number of goroutines after the host has settled.
func goroutines(l *lab) int {
	l.Settle()
	runtime.GC()
	return runtime.NumGoroutine()
}
