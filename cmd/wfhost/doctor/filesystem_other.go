//go:build !linux

package doctor

// fileSystem returns "": which kind it is, is not found out here.
func fileSystem(string) (kind string, volatile, remote bool) { return "", false, false }
