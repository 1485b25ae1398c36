//go:build !linux && !darwin

package doctor

// Limits of a process are not implemented on this system.

func fileLimit(int) (uint64, bool)                { return 0, false }
func addressLimit(int) (uint64, bool)             { return 0, false }
func strictOvercommit() bool                      { return false }
func memoryLimit(int) (limit uint64, from string) { return 0, "" }
