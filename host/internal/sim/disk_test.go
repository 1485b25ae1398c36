package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/wfhost/wfhost/host/internal/datadir"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// Sizes of simulated disks, in bytes.
const (
	diskTotal   = 1 << 30
	diskReserve = 32 << 10
	diskOpening = 2 << 10 // free space required to open a store
	commitBytes = 200     // size of a run's commit without its entries
)

// disk is the store's disk. Other programs may fill it, and free space again. While it is nearly full, the monitor
// that hosts use in production refuses users' requests, and commits of runs use the reserve. When that is used up,
// the store fails.
type disk struct {
	odds    int // of 10,000 steps: other programs use or free space
	free    int64
	monitor *datadir.DiskMonitor
	starts  map[store.Incarnation]bool // that were refused
	events  map[string]bool            // signals and updates by their data: whether every delivery was refused
	// What was seen of it.
	refused, went, failures int
}

func (d *disk) init(w *world) {
	d.free, d.starts, d.events = diskTotal, map[store.Incarnation]bool{}, map[string]bool{}
	d.odds = []int{0, 0, 20, 60}[rand.New(rand.NewPCG(w.seed, 0xd15c)).IntN(4)] // the other draws stay what they were
	d.monitor = datadir.NewDiskMonitor(datadir.Config{Reserve: diskReserve, Disk: func() (store.Disk, error) {
		return store.Disk{Path: "disk", Free: uint64(d.free), Total: diskTotal}, nil
	}})
}

// change has other programs fill the disk up to a part of the reserve, or free space.
func (d *disk) change(w *world) {
	if d.free < diskTotal {
		d.room(w)
		return
	}
	d.free = w.between(0, 2*diskReserve)
	if w.odds(1, 4) {
		d.free = w.between(0, diskOpening)
	}
	w.note("the disk has %d bytes left", d.free)
}

func (d *disk) room(w *world) {
	d.free = diskTotal
	w.note("the disk has room")
}

// admits reports whether a host accepts a user's request: new work needs space.
func (d *disk) admits(w *world, ev run.Event) bool {
	bytes := 0
	switch e := ev.(type) {
	case run.Start:
		bytes = len(e.New.Input)
	case run.Signal:
		bytes = len(e.Data)
	default:
		return true
	}
	err := d.monitor.Admit(bytes)
	if err == nil {
		if e, ok := ev.(run.Signal); ok {
			d.events[string(e.Data)] = false
		}
		return true
	}
	if full, ok := errors.AsType[*datadir.FullError](err); !ok || d.free > 2*diskReserve {
		w.broken("work is refused only where there is no room", "%+v: %v", full, err)
	}
	d.refused++
	w.note("refused: %v", err)
	switch e := ev.(type) {
	case run.Start:
		d.starts[e.New.Incarnation] = true
	case run.Signal:
		if _, ok := d.events[string(e.Data)]; !ok {
			d.events[string(e.Data)] = true
		}
	}
	return false
}

// commit makes a commit if there is space for it. Otherwise the store fails, perhaps after the commit was durable.
func (d *disk) commit(w *world, db *memstore.Store, groups []store.Group) error {
	need := int64(0)
	for i := range groups {
		for j := range groups[i].Runs {
			need += commitBytes + journal.Size(groups[i].Runs[j].Append)
		}
	}
	if d.free == diskTotal {
		return w.seen.commit(w, db, groups)
	}
	if d.free < need {
		d.failures++
		if w.odds(1, 2) {
			if err := w.seen.commit(w, db, groups); err != nil {
				return err
			}
		}
		return fmt.Errorf("%w: no space left on the simulated device", store.ErrFailed)
	}
	d.free -= need
	if d.free < diskReserve {
		d.went++
	}
	return w.seen.commit(w, db, groups)
}

// opens reports whether the disk has space for a store to be opened.
func (d *disk) opens() bool { return d.free >= diskOpening }

// nowhere checks that nothing of a refused request is stored: no run, and no signal.
func (d *disk) nowhere(w *world, c *store.RunCommit) {
	if c.Create && d.starts[c.State.Incarnation] {
		w.broken("a refused start is nowhere", "%s was refused, and is there", c.Run.ID)
	}
	for i := range c.Append {
		if e := &c.Append[i]; e.Kind == store.KindSignalAccepted && d.events[string(e.Data)] {
			w.broken("a refused signal is nowhere", "%q was refused, and %s has it", e.Data, c.Run.ID)
		}
	}
}
