package host

import (
	"context"
	"errors"
	"time"

	"github.com/wfhost/wfhost/host/internal/admission"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/datadir"
	"github.com/wfhost/wfhost/store"
)

// DefaultDiskReserve is the default of Config.DiskReserve on disks larger than ten times that.
const DefaultDiskReserve = datadir.DefaultReserve

// DiskFullError says why new work was refused because of the disk. errors.Is(err, ErrDiskFull) is true. In addition
// to the state of the disk (Free, Total and Reserve, in bytes) it has
//
//	Need uint64 // bytes that the request would take; 0 if its size does not matter
type DiskFullError = datadir.FullError

// DiskState is the state of the disk that holds a host's store.
type DiskState struct {
	Path    string `json:"path"`    // the directory of the store
	Free    uint64 `json:"free"`    // bytes that the host may still write
	Total   uint64 `json:"total"`   // bytes of the file system
	Reserve uint64 `json:"reserve"` // bytes of Free that are reserved for existing runs: see Config.DiskReserve
	Full    bool   `json:"full"`    // starts, signals and uploads are refused with ErrDiskFull
	Stalls  uint64 `json:"stalls"`  // disk operations that took longer than two seconds, since Open
}

func diskState(s datadir.State) DiskState {
	return DiskState{Path: s.Path, Free: s.Free, Total: s.Total, Reserve: s.Reserve, Full: s.Full, Stalls: s.Stalls}
}

// Disk returns the state of the disk that holds the store. ErrNotFound if Config.Store does not report it.
func (h *Host) Disk() (DiskState, error) {
	s, err := h.disk.Check()
	if errors.Is(err, errors.ErrUnsupported) {
		return DiskState{}, &joined{err, ErrNotFound}
	}
	return diskState(s), err
}

// newDiskMonitor returns the monitor for the disk of the host's store.
func (h *Host) newDiskMonitor() *datadir.DiskMonitor {
	cfg := datadir.Config{Reserve: h.cfg.DiskReserve, Changed: func(s datadir.State) {
		text, level := "the disk has room again; new work is accepted", h.cfg.Logger.Info
		if s.Full {
			text, level = "the disk is nearly full; new work is refused", h.cfg.Logger.Warn
		}
		level(text, "path", s.Path, "free", s.Free, "reserve", s.Reserve, "total", s.Total)
		if f := h.cfg.Events.DiskChanged; f != nil {
			f(diskState(s))
		}
	}}
	if s, ok := h.below.(store.OnDisk); ok {
		cfg.Disk = s.Disk
	}
	return datadir.NewDiskMonitor(cfg)
}

// roomOnDisk returns an error if the disk has no room for new work of this size. Work that ends or deletes runs does
// not call it.
func (h *Host) roomOnDisk(bytes int) error { return translate(h.disk.Admit(bytes)) }

// diskInterval is how often Run checks the disk, in addition to the check at each request. A check takes a
// microsecond, and a disk takes minutes to fill.
const diskInterval = 10 * time.Second

// watchStore stops the host when the store fails by itself, until ctx is done. A failed commit also reports that, but
// a host whose runs all sleep may make no commit for a year.
func (h *Host) watchStore(ctx context.Context) {
	s, ok := h.below.(store.Failing)
	if !ok {
		return
	}
	select {
	case <-s.Failed():
		h.rt.Fail(s.Failure())
	case <-ctx.Done():
	}
}

// moduleTimes multiplies the size of a module: the module is written twice, like all admitted data, and its compiled
// code, about four times as large, is kept beside the store.
const moduleTimes = 3

// watchDisk checks the disk periodically until ctx is done, so that its state is logged even without requests. It
// waits by the machine's clock, as keepSwept does.
func (h *Host) watchDisk(ctx context.Context) {
	var said string
	for {
		if err := h.lookAtDisk(ctx); err == nil {
			said = ""
		} else if text := err.Error(); text != said && ctx.Err() == nil {
			said = text
			h.cfg.Logger.Warn("the disk is nearly full, and the room of deleted runs cannot be given back", "cause", err)
		}
		t := clock.System().NewTimer(diskInterval)
		select {
		case <-t.C():
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// lookAtDisk checks the disk once. If less than twice the reserve is free, the store reclaims the space of deleted
// data before the disk is full. Errors in reading the state of the disk are ignored here: the store finds out.
func (h *Host) lookAtDisk(ctx context.Context) error {
	s, err := h.disk.Check()
	if st, ok := h.below.(store.Reclaiming); ok && err == nil && s.Free < 2*s.Reserve {
		return st.Reclaim(ctx)
	}
	return nil
}

// roomForJournals returns the budget for journals, nil if they are not bounded.
func (h *Host) roomForJournals() *admission.Journals {
	if h.cfg.JournalBytes >= 0 {
		var behind func() bool
		if s, ok := h.below.(interface{ Behind() bool }); ok {
			behind = s.Behind
		}
		h.journals = admission.NewJournals(h.cfg.JournalBytes, behind)
	}
	return h.journals
}
