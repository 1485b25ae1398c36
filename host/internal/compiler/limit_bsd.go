//go:build unix && !linux

package compiler

// limitProcess leaves memory to the child itself: these systems do not limit the address space of a process.
func limitProcess(l Limits) { limitCPU(l) }
