//go:build !linux

package bench

import "os"

// dataSync makes what was written to a file durable.
func dataSync(f *os.File) error { return f.Sync() }
