package host

import (
	"context"

	"github.com/wfhost/wfhost/host/internal/quarantine"
)

// SetSuspectTimes sets the times of trials of suspects, for all hosts that are opened afterwards.
func SetSuspectTimes(t quarantine.Times) { suspectTimes = t }

// ResetBy sets how the memory of instances is reset for reuse: auto, scan, drop, copy or none.
func (c *Config) ResetBy(way string) { c.reset = way }

// JournalPeak returns the maximum of the bytes of journals in memory.
func JournalPeak(h *Host) int64 { return h.journals.Peak() }

// LookAtDisk checks the disk once, as Run does periodically.
func LookAtDisk(ctx context.Context, h *Host) error { return h.lookAtDisk(ctx) }
