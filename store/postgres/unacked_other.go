//go:build !linux

package postgres

import "syscall"

// limitUnacked would bound how long what was sent may stay unacknowledged, which only Linux can do.
func limitUnacked(string, string, syscall.RawConn) error { return nil }
