// Package baddisk holds tests of whole hosts, with real guests, on disks that fail and disks that are full. They are apart from
// those of package host because a store that has failed leaves goroutines behind, which those tests look for.
package baddisk
