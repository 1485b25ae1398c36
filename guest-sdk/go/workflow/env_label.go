//go:build !wasip1

package workflow

import "unsafe"

// Whether a goroutine belongs to a body is told by its profiler label, as in a module: goroutines inherit it from the one that
// starts them.
//
//go:linkname setLabel runtime/pprof.runtime_setProfLabel
func setLabel(unsafe.Pointer)

//go:linkname getLabel runtime/pprof.runtime_getProfLabel
func getLabel() unsafe.Pointer

// bodyLabel has the layout of a pprof label set without labels.
var bodyLabel struct{ list []struct{ k, v string } }

// labelled gives the calling goroutine, and those that it starts, a label until the function that it returns is called.
func labelled(label unsafe.Pointer) (restore func()) {
	before := getLabel()
	setLabel(label)
	return func() { setLabel(before) }
}

// labelledBody reports whether the calling goroutine is one of a body, or of what answers a query.
func labelledBody() bool { return getLabel() == unsafe.Pointer(&bodyLabel) }
