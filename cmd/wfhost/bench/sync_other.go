//go:build !linux

package bench

import (
	"os"
	"time"
)

// dataSync makes the written data of a file durable.
func dataSync(f *os.File) error { return f.Sync() }

// pause sleeps for d.
func pause(d time.Duration) { time.Sleep(d) }
