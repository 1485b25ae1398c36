package host

import (
	"context"

	"github.com/wfhost/wfhost/host/internal/quarantine"
)

// SetSuspectTimes sets when runs are tried that bring the host down, for all hosts that are opened from now on.
func SetSuspectTimes(t quarantine.Times) { suspectTimes = t }

// ResetBy sets how the memory of instances is reset for reuse: auto, scan, drop, copy or none.
func (c *Config) ResetBy(way string) { c.reset = way }

// JournalPeak returns the most bytes of journals that a host had in memory at a time.
func JournalPeak(h *Host) int64 { return h.journals.Peak() }

// LookAtDisk looks at the disk once, as Run does every now and then.
func LookAtDisk(ctx context.Context, h *Host) error { return h.lookAtDisk(ctx) }
