package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/wfhost/wfhost/host/internal/datadir"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// Sizes of simulated disks, in bytes.
const (
	diskTotal   = 1 << 30
	diskReserve = 32 << 10
	diskOpening = 2 << 10 // what has to be free for a store to be opened
	commitBytes = 200     // what the commit of a run takes beside its entries
)

// disk is the one on which the store is. Others may fill it, and make room again. While it is nearly full, users are refused by
// the monitor that hosts ask in production, and what runs commit comes out of the reserve. When that is gone, the store fails.
type disk struct {
	odds    int // of 10,000 steps: others take room, or make some
	free    int64
	monitor *datadir.DiskMonitor
	starts  map[store.Incarnation]bool // that were refused
	events  map[string]bool            // signals and updates by their data: whether they were refused each time that they came
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

// change has others fill the disk up to some of the reserve, or make room.
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

// admits reports whether a host takes what a user asks for: what is new needs room.
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

// commit makes a commit if there is room for it. Where there is none the store fails, perhaps after the commit was durable.
func (d *disk) commit(w *world, groups []store.Group) error {
	need := int64(0)
	for i := range groups {
		for j := range groups[i].Runs {
			need += commitBytes + journal.Size(groups[i].Runs[j].Append)
		}
	}
	if d.free == diskTotal {
		return w.seen.commit(w, groups)
	}
	if d.free < need {
		d.failures++
		if w.odds(1, 2) {
			if err := w.seen.commit(w, groups); err != nil {
				return err
			}
		}
		return fmt.Errorf("%w: no space left on the simulated device", store.ErrFailed)
	}
	d.free -= need
	if d.free < diskReserve {
		d.went++
	}
	return w.seen.commit(w, groups)
}

// opens reports whether a store can be opened on the disk.
func (d *disk) opens() bool { return d.free >= diskOpening }

// nowhere checks that nothing is stored of what was refused: no run, and no signal.
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
