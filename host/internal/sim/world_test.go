package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// world is one simulation. It runs in one goroutine, and rng draws what happens next.
type world struct {
	seed  uint64
	rng   *rand.Rand
	p     profile
	step  int
	trace trace

	wall    int64 // clock of all hosts, in Unix milliseconds: it may jump
	mono    int64 // milliseconds that have passed
	maxWall int64 // latest time that the clock has shown

	data   *memstore.Data
	db     *memstore.Store
	hosts  []*host
	owner  [store.Partitions]*host // whoever has acquired the partition last
	items  []*item
	calm   bool // faults have stopped
	faults int  // of activations that may still be injected
	users  users
	ticks  ticks
	disk   disk
	seen   shadow
	effect ledger
	flows  []*workflow
	byMod  map[store.Digest]*version
	homes  map[store.PartitionID]bool // in which runs live; nil = all
}

// profile is what a seed draws once.
type profile struct {
	hosts, writers int
	cluster        bool
	lost           int // of 100 beats
	steps          int // with faults and users
	crash          int // of 10,000 steps; likewise the others
	jump           int
	flaky          int // of 1,000 operations of the store
	fork           bool
	all            bool // runs live in all partitions
	busy, starts   int
	places         int // of each handler
	kept           int64
	timers         int
	portion        int
	commits        int // at a time
	user           int // of 1,000 steps
	linger         int64
}

// item is an operation that is pending.
type item struct {
	name string
	h    *host // whose crash ends it; nil = nobody's
	at   int64 // not before mono is that
	do   func()
	// crash, if set, is called when the host crashes while the item is pending.
	crash func()
	gone  bool
}

// violation is a rule that was broken.
type violation struct{ rule, text string }

func (v *violation) Error() string { return v.rule + ": " + v.text }

// broken ends the simulation because a rule is broken.
func (w *world) broken(rule, format string, args ...any) {
	panic(&violation{rule, fmt.Sprintf(format, args...)})
}

var ctx = context.Background()

// epoch is when simulations begin: 2026-01-05T08:00:00Z.
const epoch = 1767600000000

func newWorld(seed uint64) *world {
	w := &world{seed: seed, rng: rand.New(rand.NewPCG(seed, 0x5eed)), wall: epoch, maxWall: epoch, data: memstore.New()}
	w.data.NowMs = func() int64 { return w.ticks.now }
	w.db = w.data.Open()
	w.p = w.draw()
	w.trace.init()
	w.seen.init()
	w.disk.init(w)
	if w.p.cluster { // its disk is the database's
		w.disk.odds = 0
	}
	w.effect.init()
	if !w.p.all {
		w.homes = map[store.PartitionID]bool{}
		for len(w.homes) < 4 {
			w.homes[store.PartitionID(w.rng.IntN(store.Partitions))] = true
		}
	}
	w.faults = w.rng.IntN(4)
	w.programs()
	w.users.init(w)
	for i := range w.p.hosts {
		w.hosts = append(w.hosts, &host{w: w, name: fmt.Sprintf("h%d", i), weight: 1 + w.rng.IntN(3),
			want: map[store.PartitionID]bool{}})
	}
	for p := range w.owner {
		w.owner[p] = w.hosts[0]
	}
	for p := range store.PartitionID(store.Partitions) {
		w.hosts[w.rng.IntN(len(w.hosts))].want[p] = true
	}
	for _, h := range w.hosts {
		h.start()
	}
	return w
}

func (w *world) draw() profile {
	pick := func(list ...int) int { return list[w.rng.IntN(len(list))] }
	p := profile{hosts: pick(1, 1, 2), writers: pick(1, 1, 2), steps: pick(400, 1500, 1500, 3000), crash: pick(0, 10, 40),
		jump: pick(0, 0, 10), flaky: pick(0, 0, 5, 30), fork: w.odds(1, 2), all: w.odds(1, 8), busy: pick(1, 3, 512),
		starts: pick(1, 2, 512), kept: int64(pick(0, 20_000, 1<<20)), timers: pick(0, 2, 1<<17), portion: pick(1, 2, 1024), commits: pick(1, 2, 8), places: pick(1, 2, 64),
		user: pick(10, 40, 100), linger: int64(pick(5, 1000))}
	if p.cluster = w.odds(1, 3); p.cluster {
		p.hosts, p.lost, p.crash = pick(3, 3, 4, 5), pick(0, 2, 20), 0
	}
	return p
}

// odds is true n times of m.
func (w *world) odds(n, m int) bool { return w.rng.IntN(m) < n }

func (w *world) between(a, b int64) int64 { return a + w.rng.Int64N(b-a+1) }

// later adds a pending operation that completes after a period of virtual time.
func (w *world) later(h *host, afterMs int64, name string, do func()) *item {
	it := &item{name: name, h: h, at: w.mono + afterMs, do: do}
	w.items = append(w.items, it)
	return it
}

// maybeDrop removes a pending operation, or leaves it, as if it was just beginning.
func (w *world) maybeDrop(it *item) {
	if !it.gone && w.odds(1, 2) {
		it.gone = true
		w.items = slices.DeleteFunc(w.items, func(other *item) bool { return other == it })
	}
}

// flaky reports whether an operation of the store fails.
func (w *world) flaky() bool { return !w.calm && w.p.flaky > 0 && w.rng.IntN(1000) < w.p.flaky }

var errIO = errors.New("the simulated disk cannot be read")

// run performs the simulation, and returns the broken rule, nil if there is none.
func (w *world) run() (err error) {
	defer func() {
		for _, h := range w.hosts {
			h.kill()
		}
		if r := recover(); r != nil {
			v, ok := r.(*violation)
			if !ok {
				v = &violation{"nothing panics", fmt.Sprintf("%v\n%s", r, debug.Stack())}
			}
			err = fmt.Errorf("seed %d, step %d: %w\nlast steps:\n%s", w.seed, w.step, v, w.trace.tail())
		}
	}()
	for w.step < w.p.steps {
		w.one()
	}
	w.finish()
	return nil
}

// one lets one thing happen.
func (w *world) one() {
	w.step++
	if w.p.cluster && w.odds(1, 6) {
		w.tick()
	}
	if !w.calm && w.misfortune() {
		w.check()
		return
	}
	if !w.calm && w.rng.IntN(1000) < w.p.user {
		w.users.act(w)
		w.check()
		return
	}
	if w.odds(1, 50) {
		w.pass(w.between(0, 20))
	}
	if !w.choose() {
		if !w.calm && w.odds(1, 3) {
			w.users.act(w)
		} else if !w.jumpAhead() && !w.calm {
			w.users.act(w)
		}
	}
	w.check()
}

// choose completes one pending item, and returns false if there is none.
func (w *world) choose() bool {
	var ready []int
	for i, it := range w.items {
		if it.at <= w.mono && !it.h.stands() {
			ready = append(ready, i)
		}
	}
	var loops []*writer
	var actors []*actor
	for _, h := range w.hosts {
		for _, x := range h.writers {
			if x.runnable() {
				loops = append(loops, x)
			}
			for _, a := range x.actors {
				if a.runnable() {
					actors = append(actors, a)
				}
			}
		}
	}
	n := len(ready) + 2*len(loops) + len(actors)
	if n == 0 {
		return false
	}
	switch k := w.rng.IntN(n); {
	case k < len(ready):
		it := w.items[ready[k]]
		w.items = slices.Delete(w.items, ready[k], ready[k]+1)
		w.note("%s", it.name)
		it.gone = true
		it.do()
	case k < len(ready)+2*len(loops):
		loops[(k-len(ready))/2].loop()
	default:
		actors[k-len(ready)-2*len(loops)].resume()
	}
	return true
}

// pass lets time pass.
func (w *world) pass(ms int64) {
	w.mono += ms
	w.wall += ms
	w.maxWall = max(w.maxWall, w.wall)
	w.skewed()
}

// jumpAhead advances the time to the next event, and returns false if there is none.
func (w *world) jumpAhead() bool {
	wait := w.wait()
	if wait < 0 {
		return false
	}
	w.pass(wait)
	w.note("%d ms pass", wait)
	return true
}

// ahead reports whether any event is scheduled.
func (w *world) ahead() bool { return w.wait() >= 0 }

// wait returns the time until the next event, -1 if there is none.
func (w *world) wait() int64 {
	wait := int64(-1)
	consider := func(ms int64) {
		if wait < 0 || ms < wait {
			wait = max(ms, 0)
		}
	}
	for _, it := range w.items {
		if !it.h.stands() {
			consider(it.at - w.mono)
		}
	}
	for _, h := range w.hosts {
		for _, x := range h.writers {
			if h.stands() {
				continue
			}
			if x.hasAlarm {
				consider(x.alarm - h.now())
			}
			for _, a := range x.actors {
				if at, ok := a.deadline(); ok {
					consider(at - w.mono)
				}
			}
		}
	}
	return wait
}

// misfortune lets a fault happen, rarely.
func (w *world) misfortune() bool {
	switch k := w.rng.IntN(10_000); {
	case k < w.p.crash:
		h := w.hosts[w.rng.IntN(len(w.hosts))]
		if !h.up {
			return false
		}
		h.crash()
	case k < w.p.crash+w.p.jump:
		by := []int64{1000, 60_000, 3_600_000, 365 * 24 * 3_600_000}[w.rng.IntN(4)]
		by = w.between(1, by)
		if w.odds(1, 2) {
			by = -by
		}
		w.wall += by
		w.maxWall = max(w.maxWall, w.wall)
		w.skewed()
		w.note("the clock jumps by %d ms", by)
	case k < w.p.crash+w.p.jump+10:
		h := w.hosts[w.rng.IntN(len(w.hosts))]
		if !h.up || h.failed {
			return false
		}
		h.drainOrResume()
	case k < w.p.crash+w.p.jump+25:
		h := w.hosts[w.rng.IntN(len(w.hosts))]
		if !h.up || h.failed {
			return false
		}
		if w.p.cluster {
			w.disturb()
			return true
		}
		h.take(store.PartitionID(w.rng.IntN(store.Partitions)))
	case k < w.p.crash+w.p.jump+60:
		return w.evictOne()
	case k < w.p.crash+w.p.jump+60+w.disk.odds:
		w.disk.change(w)
	default:
		return false
	}
	return true
}

func (w *world) evictOne() bool {
	for _, h := range w.hosts {
		for _, x := range h.writers {
			for _, a := range x.actors {
				if a.state == waitPark && !a.evict && w.odds(1, 2) {
					w.note("evict %s", a.name())
					a.evict = true
					return true
				}
			}
		}
	}
	return false
}

// trace keeps the newest lines, and a hash of all lines.
type trace struct {
	hash  interface{ Sum64() uint64 }
	write func([]byte)
	lines [60]string
	n     int
}

func (t *trace) init() {
	h := fnv.New64a()
	t.hash, t.write = h, func(b []byte) { _, _ = h.Write(b) }
}

// verbose prints every line of a trace immediately.
var verbose = false

// note adds a line to the trace.
func (w *world) note(format string, args ...any) {
	line := fmt.Sprintf("%6d %d+%d ", w.step, w.mono, w.wall-epoch-w.mono) + fmt.Sprintf(format, args...)
	w.trace.write([]byte(line))
	w.trace.lines[w.trace.n%len(w.trace.lines)] = line
	w.trace.n++
	if verbose {
		fmt.Println(line)
	}
}

func (t *trace) tail() string {
	var b strings.Builder
	for i := max(0, t.n-len(t.lines)); i < t.n; i++ {
		b.WriteString(t.lines[i%len(t.lines)] + "\n")
	}
	return b.String()
}

// idIn returns an id with a prefix that belongs to one of the partitions in which runs live.
func (w *world) idIn(prefix string) string {
	if w.homes == nil || w.homes[(store.RunKey{ID: prefix}).Partition()] {
		return prefix
	}
	for i := 0; ; i++ {
		id := fmt.Sprintf("%s~%d", prefix, i)
		if w.homes[(store.RunKey{ID: id}).Partition()] {
			return id
		}
	}
}
