// Package baddisk tests whole hosts, with real guests, on full and failing disks. These tests are not in package host
// because a failed store leaves goroutines behind, which package host's tests would report.
package baddisk
