//go:build !linux

package doctor

// synchronized returns "": not implemented on this system.
func synchronized() string { return "" }
