package sim

import (
	"flag"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host/internal/shard"
	"github.com/wfhost/wfhost/store"
)

var (
	oneSeed = flag.Uint64("sim.seed", 0, "simulate this seed alone, and print its trace; or begin with it, if sim.n is set")
	seeds   = flag.Int("sim.n", 0, "number of seeds")
)

// maxCalm bounds the number of events until everything has ended after faults have stopped.
const maxCalm = 200_000

// finish stops all faults, and lets every run end.
func (w *world) finish() {
	w.calm = true
	w.note("faults have stopped")
	if w.disk.free < diskTotal {
		w.disk.room(w)
	}
	w.pass(max(w.maxWall-w.wall, 0))
	for _, h := range w.hosts {
		h.skew, h.stopped = 0, 0
	}
	w.ticks.calmAt = w.ticks.now + latest.Milliseconds() // then the last beats from before have arrived
	for _, h := range w.hosts {
		if !h.up {
			continue
		}
		for _, name := range handlerNames {
			h.register(name)
		}
		if !h.active {
			h.setActive(true)
		}
	}
	pushed, pushedAt, quiet := 0, int64(-1), 0
	for end := w.step + maxCalm; ; {
		w.step++
		if w.p.cluster && w.odds(1, 5) {
			w.tick()
			w.covered()
		}
		if w.step > end {
			w.broken("everything comes to its end", "%s", w.open())
		}
		if w.choose() {
			w.check()
			continue
		}
		w.check()
		if w.mono != pushedAt || !w.ahead() {
			pushedAt = w.mono
			if w.push(pushed > 300) {
				pushed++
				continue
			}
		}
		none := w.unowned()
		if w.open() == "" && !(none && w.p.cluster) && (len(w.users.order) == 0 || !w.ahead()) { // a start in flight begins another run
			break
		}
		switch {
		case w.p.cluster && none:
			w.tick()
			w.covered()
		case w.jumpAhead():
			quiet = 0
		case w.p.cluster && quiet < 200: // until hosts read the inboxes of which no notice has come
			quiet++
			w.tick()
		default:
			w.broken("nothing is stuck", "%s", w.open())
		}
	}
	w.over()
}

// push makes users provide what runs wait for: for runs that nothing else wakes, or for all.
func (w *world) push(all bool) (pushed bool) {
	if len(w.users.order) > 0 {
		return false
	}
	for _, key := range w.seen.keys {
		h := w.seen.runs[key]
		if !h.deleted && !h.state.Status.Terminal() && (all || h.state.WakeUnixMs == store.NoWake || h.state.Status.Attention()) {
			pushed = w.users.push(w, h) || pushed
		}
	}
	return pushed
}

// register registers a handler with a host.
func (h *host) register(name string) {
	if !h.handlers.Handled(name) {
		h.handlers.Handle(name, performed)
	}
}

// open returns the first run that has not ended, or other unfinished work; "" if there is none.
func (w *world) open() string {
	for _, key := range w.seen.keys {
		if h := w.seen.runs[key]; !h.deleted && !h.state.Status.Terminal() {
			return key.ID + " is " + h.state.Status.String() + ", " + h.state.Reason
		}
	}
	for _, h := range w.hosts {
		if !h.up {
			return h.name + " is down"
		}
	}
	return ""
}

// over checks what is left when everything has ended.
func (w *world) over() {
	for range 2 {
		for range maxCalm {
			if !w.choose() && !w.jumpAhead() {
				break
			}
		}
		for _, h := range w.hosts {
			if h.member != nil {
				h.member.poll()
			}
		}
	}
	w.check()
	if len(w.users.order) > 0 {
		w.broken("a caller is answered", "%s", w.users.order[0].name)
	}
	for p, h := range w.owner {
		id := store.PartitionID(p)
		q := h.writerOf(id).shard.Partition(id)
		if q == nil {
			w.broken("a partition that is lost is acquired again", "%d by %s", p, h.name)
		}
		cmds, err := q.Owned.Commands(ctx, 0, 1000)
		cmds = slices.DeleteFunc(cmds, w.seen.left)
		if err != nil || len(cmds) > 0 {
			w.broken("every command is taken in", "partition %d: %+v, %v", p, cmds, err)
		}
	}
	for _, h := range w.hosts {
		for _, x := range h.writers {
			for _, a := range x.actors {
				if !a.dead {
					w.broken("every guest comes to its end", "%s waits for %d", a.name(), a.state)
				}
			}
			if st := x.shard.Stats(h.now()); st != (shard.Stats{}) {
				w.broken("nothing is left of ended runs", "%s: %+v", x.name(), st)
			}
		}
	}
	for _, token := range w.users.tokens {
		if holder, held, _ := w.db.Hook(ctx, 0, token); held {
			w.broken("an ended run holds no token", "%s is held by %s", token, holder.Run.ID)
		}
	}
	for _, key := range w.seen.keys {
		if h := w.seen.runs[key]; !h.deleted {
			w.replays(h)
			w.stays(h)
		}
	}
	w.seen.updates(w)
}

// TestSeeds simulates several hundred worlds under the rules of the oracle.
func TestSeeds(t *testing.T) {
	n, first := 300, uint64(1)
	if *oneSeed != 0 {
		n, first = 1, *oneSeed
		verbose = *seeds == 0
	}
	if *seeds > 0 {
		n = *seeds
	}
	began := time.Now()
	var next, bad atomic.Int64
	var steps, effects, runs, migrations, unfit, updates, answers, refused, went, failures atomic.Int64
	var clusters, takeovers, gives, lapses, stops atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				i := next.Add(1) - 1
				if int(i) >= n || bad.Load() > 3 {
					return
				}
				w := newWorld(first + uint64(i))
				if err := w.run(); err != nil {
					bad.Add(1)
					t.Errorf("%v\nrepeat it with: make simulate SEED=%d", err, w.seed)
				}
				steps.Add(int64(w.step))
				effects.Add(int64(w.effect.n))
				runs.Add(int64(len(w.seen.incs)))
				migrations.Add(int64(w.users.migrations))
				unfit.Add(int64(w.users.unfit))
				updates.Add(int64(w.users.updates))
				answers.Add(int64(w.users.answers))
				refused.Add(int64(w.disk.refused))
				went.Add(int64(w.disk.went))
				failures.Add(int64(w.disk.failures))
				if w.p.cluster {
					clusters.Add(1)
					takeovers.Add(int64(w.ticks.takeovers))
					gives.Add(int64(w.ticks.gives))
					lapses.Add(int64(w.ticks.lapses))
					stops.Add(int64(w.ticks.stops))
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d seeds, %d events, %d runs, %d attempts, %d migrations, %d that did not fit, %d updates, %d answers, %v",
		next.Load(), steps.Load(), runs.Load(), effects.Load(), migrations.Load(), unfit.Load(), updates.Load(), answers.Load(),
		time.Since(began))
	t.Logf("full disks: %d requests refused, %d commits in the reserve, %d failures of the store", refused.Load(), went.Load(),
		failures.Load())
	t.Logf("%d clusters: %d partitions acquired from another host, %d given, %d memberships given up, %d hosts stopped for a while",
		clusters.Load(), takeovers.Load(), gives.Load(), lapses.Load(), stops.Load())
	if n >= 300 && (takeovers.Load() == 0 || gives.Load() == 0 || lapses.Load() == 0 || stops.Load() == 0) {
		t.Error("no cluster was disturbed")
	}
	if n >= 300 && (refused.Load() == 0 || went.Load() == 0 || failures.Load() == 0) {
		t.Error("no disk was full")
	}
}

// TestSameSeedSameTrace runs seeds twice: a simulation may depend only on its seed.
func TestSameSeedSameTrace(t *testing.T) {
	for seed := range uint64(6) {
		a, b := newWorld(seed), newWorld(seed)
		_, _ = a.run(), b.run()
		if a.trace.hash.Sum64() != b.trace.hash.Sum64() || a.trace.n != b.trace.n {
			t.Errorf("seed %d: %d lines, and %d; the last ones:\n%s\nand:\n%s", seed, a.trace.n, b.trace.n, a.trace.tail(), b.trace.tail())
		}
	}
}
