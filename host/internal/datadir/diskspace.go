// The reserve is a part of the disk that is kept free: new work is refused before the disk is full, and existing runs
// use the reserve to finish.

package datadir

import (
	"errors"
	"fmt"
	"sync"

	"github.com/wfhost/wfhost/store"
)

const (
	// DefaultReserve is the reserve of a disk that is large enough. It is the most that the store takes between two checks of the
	// disk: a few logs and tables of 16 MiB each, and the tables that a compaction has written and not yet exchanged. It is also
	// what must be free for the store to prepare a log in advance, so that it never uses the reserve for its own speed.
	DefaultReserve = 256 << 20
	// defaultShare is the part of a smaller disk that is reserved: a tenth.
	defaultShare = 10
	// leastReserve is the reserve of a disk whose tenth is less, but at most half of the disk. The store needs this much
	// to write a table of 16 MiB beside two logs of that size, and would otherwise fail in the middle of the runs that the
	// reserve is kept for.
	leastReserve = 40 << 20
	// returnShare is the part of the reserve that must be free beyond it before work is accepted again, a sixteenth.
	// Without it, a disk at the edge of its reserve would alternate between refusing and accepting work.
	returnShare = 16
	// copies is how often the bytes of a request are written: to the log, and to a table.
	copies = 2
)

// State is the state of a disk when a DiskMonitor checked it.
type State struct {
	store.Disk
	Reserve uint64 // bytes
	Full    bool   // less than the reserve is free: new work is refused
}

// FullError reports that new work is refused because the disk is nearly full.
type FullError struct {
	State
	Need uint64 // bytes that the request would take; 0 if the request is refused whatever its size
}

// Error implements error.
func (e *FullError) Error() string {
	if e.Need > 0 {
		return fmt.Sprintf("no room on the disk of %s: the request takes %s, %s are free, and %s of them are kept for the runs "+
			"that are there", e.Path, size(e.Need), size(e.Free), size(e.Reserve))
	}
	return fmt.Sprintf("the disk of %s is nearly full: %s are free, and %s are kept for the runs that are there; nothing new is "+
		"accepted until there is room", e.Path, size(e.Free), size(e.Reserve))
}

// size formats a number of bytes for people.
func size(n uint64) string {
	const unit = 1 << 10
	switch {
	case n < unit:
		return fmt.Sprintf("%d bytes", n)
	case n < unit*unit:
		return fmt.Sprintf("%d KiB", n/unit)
	default:
		return fmt.Sprintf("%.1f MiB", float64(n)/(unit*unit))
	}
}

// Config configures a DiskMonitor.
type Config struct {
	// Disk asks the file system. It is called for each request. If it fails, work is accepted: if the disk is broken, the
	// store fails too, with a better message.
	Disk func() (store.Disk, error)
	// Reserve is the reserve in bytes; 0 is the default, and a negative number means no reserve.
	Reserve int64
	// Changed is called when work begins to be refused, and when it is accepted again. The request that noticed the change
	// waits for it.
	Changed func(State)
}

// DiskMonitor checks the disk. It is safe for concurrent use.
type DiskMonitor struct {
	cfg Config

	mu   sync.Mutex // held while Changed is called, so that changes are reported in order
	full bool
}

// NewDiskMonitor returns a DiskMonitor that takes the disk not to be full until it has checked it.
func NewDiskMonitor(cfg Config) *DiskMonitor { return &DiskMonitor{cfg: cfg} }

// ErrUnknown reports that the store does not say how much room its disk has.
var ErrUnknown = fmt.Errorf("the store does not say how much room it has: %w", errors.ErrUnsupported)

// reserve returns the reserve on a disk of total bytes.
func (g *DiskMonitor) reserve(total uint64) uint64 {
	switch {
	case g.cfg.Reserve > 0:
		return uint64(g.cfg.Reserve)
	case g.cfg.Reserve < 0:
		return 0
	}
	return min(DefaultReserve, max(total/defaultShare, min(leastReserve, total/2)))
}

// Check checks the disk, and calls Changed if the answer changed. It returns ErrUnknown if there is no Config.Disk.
func (g *DiskMonitor) Check() (State, error) {
	if g.cfg.Disk == nil {
		return State{}, ErrUnknown
	}
	disk, err := g.cfg.Disk()
	if err != nil {
		return State{}, err
	}
	s := State{Disk: disk, Reserve: g.reserve(disk.Total)}
	g.mu.Lock()
	defer g.mu.Unlock()
	bound := s.Reserve
	if g.full {
		bound += s.Reserve / returnShare
	}
	s.Full = s.Free < bound
	if s.Full != g.full {
		g.full = s.Full
		if g.cfg.Changed != nil {
			g.cfg.Changed(s)
		}
	}
	return s, nil
}

// Admit returns a *FullError if a request of the given size must be refused.
func (g *DiskMonitor) Admit(bytes int) error {
	if g.cfg.Reserve < 0 || g.cfg.Disk == nil {
		return nil
	}
	s, err := g.Check()
	if err != nil {
		return nil //nolint:nilerr // see Config.Disk
	}
	if s.Full {
		return &FullError{State: s}
	}
	if need := copies * uint64(bytes); s.Free < s.Reserve+need {
		return &FullError{State: s, Need: need}
	}
	return nil
}
