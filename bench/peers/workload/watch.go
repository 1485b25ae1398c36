package workload

import (
	"runtime"
	"sync"
	"time"

	"github.com/wfhost/wfhost/bench/peers/measure"
)

// watched is what a watch has seen.
type watched struct {
	asleep, peak int64         // bytes
	cpu          time.Duration // what the watching itself took, which is no work of the engine
}

// watch reads the memory of an engine again and again until it is stopped.
type watch struct {
	machine Machine
	night   *night
	end     chan struct{}
	done    sync.WaitGroup
	seen    watched
	err     error
}

func newWatch(m Machine, n *night) *watch {
	w := &watch{machine: m, night: n, end: make(chan struct{})}
	w.done.Go(w.run)
	return w
}

// stop ends the watch and returns what it has seen.
func (w *watch) stop() (watched, error) {
	close(w.end)
	w.done.Wait()
	return w.seen, w.err
}

func (w *watch) run() {
	runtime.LockOSThread() // so that its CPU time can be told apart
	defer runtime.UnlockOSThread()
	before, err := measure.Thread()
	tick := time.NewTicker(sampleEach)
	defer tick.Stop()
	for err == nil {
		select {
		case <-tick.C:
			err = w.sample()
			continue
		case <-w.end:
		}
		break
	}
	after, err2 := measure.Thread()
	w.seen.cpu, w.err = after-before, err
	if err == nil {
		w.err = err2
	}
}

// sample reads the memory once. A reading counts as asleep only if it was taken, from its beginning to its end, when
// all were asleep; the last such reading stays.
func (w *watch) sample() error {
	all := w.night.asleep.Load() == int64(len(w.night.first))
	bytes, err := w.machine.Memory()
	if err != nil {
		return err
	}
	if w.night.wake.Load() != 0 {
		w.seen.peak = max(w.seen.peak, bytes)
	} else if all {
		w.seen.asleep = bytes
	}
	return nil
}
