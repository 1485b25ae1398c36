//go:build !wasip1

package workflow

import "unsafe"

// As in a module, the profiler label of a goroutine tells whether it belongs to a body. A new goroutine inherits the label
// of its creator.
//
//go:linkname setLabel runtime/pprof.runtime_setProfLabel
func setLabel(unsafe.Pointer)

//go:linkname getLabel runtime/pprof.runtime_getProfLabel
func getLabel() unsafe.Pointer

// bodyLabel has the layout of a pprof label set without labels.
var bodyLabel struct{ list []struct{ k, v string } }

// labelled sets the label of the calling goroutine, which new goroutines inherit. restore sets the previous label again.
func labelled(label unsafe.Pointer) (restore func()) {
	before := getLabel()
	setLabel(label)
	return func() { setLabel(before) }
}

// labelledBody reports whether the calling goroutine has the label of a body or of the function of a query.
func labelledBody() bool { return getLabel() == unsafe.Pointer(&bodyLabel) }
