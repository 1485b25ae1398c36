//go:build !unix

package pebblestore

import "time"

// cpu is not known here.
func cpu() time.Duration { return 0 }
