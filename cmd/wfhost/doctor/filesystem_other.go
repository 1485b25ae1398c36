//go:build !linux

package doctor

// fileSystem returns "": not implemented on this system.
func fileSystem(string) (kind string, volatile, remote bool) { return "", false, false }
