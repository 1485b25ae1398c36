//go:build !linux

package bench

import (
	"os"
	"time"
)

// dataSync makes what was written to a file durable.
func dataSync(f *os.File) error { return f.Sync() }

// pause waits.
func pause(d time.Duration) { time.Sleep(d) }
