package host_test

import "runtime"

// goroutines counts what is left when the host rests.
func goroutines(l *lab) int {
	l.Settle()
	runtime.GC()
	return runtime.NumGoroutine()
}
