package handler

import (
	"cmp"
	"container/heap"
	"encoding/binary"
	"hash/maphash"
	"slices"

	"github.com/wfhost/wfhost/store"
)

// If many attempts of a workflow wait for the places of a handler, the last ones are packed: a packed attempt takes
// some 50 bytes instead of 250, and no pointers for the garbage collector. It is unpacked when its turn comes near,
// or when its run asks again.
const (
	packKept = 64  // number of a workflow's next attempts that stay unpacked
	packFrom = 256 // number of unpacked attempts of a workflow from which on they are packed
	// packMost and unpackAtOnce bound the work that one attempt causes, in whatever order attempts come. packMost is the
	// maximum number of attempts in a packed, and unpackAtOnce how many of them are unpacked at a time.
	packMost     = 256
	unpackAtOnce = 16
	dropAtOnce   = 16 // see dropSome
)

// packed holds attempts of a workflow that wait for the places of a handler, in the order of their turns.
type packed struct {
	index       uint32 // in packedIndex.all
	places      *handlerPlaces
	queue       *workflowQueue
	at          int // index in workflowQueue.packed
	first, last turnOrder
	n           int
	// data has for each attempt, as varints: the difference of sinceMs from the previous attempt, number, handle, and
	// the length of the run's ID; then the ID.
	data []byte
}

// turnOrder orders the waiting attempts of a workflow: by instant, then by number, the lower one first.
type turnOrder struct {
	sinceMs int64  // in order of arrival
	number  uint64 // in the order in which they came
}

func (o turnOrder) compare(p turnOrder) int {
	return cmp.Or(cmp.Compare(o.sinceMs, p.sinceMs), cmp.Compare(o.number, p.number))
}

func (o turnOrder) before(p turnOrder) bool { return o.compare(p) < 0 }

// packedIndex finds packed attempts by a hash of the keys of their runs. It takes some 15 bytes for each attempt, without
// pointers for the garbage collector to follow.
type packedIndex struct {
	kept, from int // packKept and packFrom
	seed       maphash.Seed
	by         [store.Partitions]map[uint32]uint32 // from hash to index in all; no two runs in it have the same hash
	all        []*packed                           // nil for those in free
	free       []uint32
}

func newPackedIndex() packedIndex {
	return packedIndex{kept: packKept, from: packFrom, seed: maphash.MakeSeed()}
}

func (x *packedIndex) hash(key store.RunKey) uint32 { return uint32(maphash.Comparable(x.seed, key)) }

// of returns what has the packed attempt of a run with the hash of a key; nil if there is none.
func (x *packedIndex) of(key store.RunKey) *packed {
	i, ok := x.by[key.Partition()][x.hash(key)]
	if !ok {
		return nil
	}
	return x.all[i]
}

// find returns the packed attempt of a run, and the packed that holds it; nil if the run has no packed attempt.
func (x *packedIndex) find(key store.RunKey) (*packed, *waiter) {
	p := x.of(key)
	if p == nil || p.queue.in.id != key.Namespace {
		return nil, nil
	}
	for e := range p.all {
		if string(e.id) == key.ID {
			return p, p.waiter(e)
		}
	}
	return nil, nil // another run has its hash
}

// packs reports whether an attempt can be packed: it is the only one of its run, nothing else refers to it, it has no
// state that packing would lose, and its hash is unused.
func (a *asks) packs(w *waiter) bool {
	p, x := w.run.Partition(), &a.packed
	if w.of != nil || w.slot != nil || w.lingers || w.soon || w.told || w.passed || w.tried || w.unread || w.own {
		return false
	}
	return a.by[p][w.run] == w && x.of(w.run) == nil
}

// pack packs all but the next attempts of a workflow, if it has many.
func (a *asks) pack(l *workflowQueue) {
	x := &a.packed
	if len(l.waiters) < max(x.from, l.packFrom) {
		return
	}
	slices.SortFunc(l.waiters, func(v, w *waiter) int { return v.turnOrder.compare(w.turnOrder) })
	all, kept := l.waiters, l.waiters[:x.kept]
	p := x.add(l, all[0].places)
	for _, w := range all[x.kept:] {
		if !a.packs(w) {
			kept = append(kept, w)
			continue
		}
		if p.n == packMost {
			l.addPacked(p)
			p = x.add(l, all[0].places)
		}
		p.add(packedAttempt{w.turnOrder, w.handle, []byte(w.run.ID)})
		delete(a.by[w.run.Partition()], w.run)
		x.put(w.run, p)
	}
	clear(all[len(kept):])
	l.waiters = kept
	for i, w := range kept { // a sorted slice is a heap
		w.at = i
	}
	l.packFrom = 2 * len(kept)
	if p.n == 0 {
		x.remove(p)
		return
	}
	l.addPacked(p)
}

// addPacked adds a packed to the workflow's. It must not be empty.
func (l *workflowQueue) addPacked(p *packed) {
	p.data = slices.Clone(p.data)
	heap.Push(&l.packed, p)
}

// add returns an empty packed. The caller adds attempts to it, or removes it.
func (x *packedIndex) add(l *workflowQueue, of *handlerPlaces) *packed {
	p := &packed{queue: l, places: of, index: uint32(len(x.all))}
	if n := len(x.free); n > 0 {
		p.index, x.free = x.free[n-1], x.free[:n-1]
		x.all[p.index] = p
	} else {
		x.all = append(x.all, p)
	}
	return p
}

// remove removes a packed that has no attempts.
func (x *packedIndex) remove(p *packed) {
	x.all[p.index] = nil
	if x.free = append(x.free, p.index); len(x.free) == len(x.all) {
		x.all, x.free = nil, nil
	}
}

func (x *packedIndex) put(key store.RunKey, p *packed) {
	by := &x.by[key.Partition()]
	if *by == nil {
		*by = map[uint32]uint32{}
	}
	(*by)[x.hash(key)] = p.index
}

func (x *packedIndex) forget(key store.RunKey) {
	by := &x.by[key.Partition()]
	if delete(*by, x.hash(key)); len(*by) == 0 {
		*by = nil // a map never shrinks
	}
}

// unpack unpacks the attempt of a run and returns it; nil if the run has no packed attempt.
func (a *asks) unpack(key store.RunKey) *waiter {
	p, w := a.packed.find(key)
	if p == nil {
		return nil
	}
	a.drop(p, func(e packedAttempt) bool { return string(e.id) == key.ID })
	a.pack(w.queue) // otherwise attempts of runs that ask again would stay unpacked until another attempt comes
	a.unpacked(w)
	return w
}

// unpackNext unpacks attempts until no packed attempt has its turn before an unpacked one.
func (a *asks) unpackNext(l *workflowQueue) {
	for len(l.packed) > 0 && (len(l.waiters) == 0 || l.packed[0].first.before(l.waiters[0].turnOrder)) {
		p := l.packed[0]
		var list []*waiter
		a.drop(p, func(e packedAttempt) bool {
			if len(list) == unpackAtOnce {
				return false
			}
			list = append(list, p.waiter(e))
			return true
		})
		for _, w := range list {
			a.unpacked(w)
		}
	}
}

func (a *asks) unpacked(w *waiter) {
	a.put(w)
	heap.Push(w.queue, w)
}

// drop removes the attempts for which del returns true, and returns their number.
func (a *asks) drop(p *packed, del func(packedAttempt) bool) (n int) {
	kept := packed{data: make([]byte, 0, len(p.data))}
	for e := range p.all {
		if del(e) {
			a.packed.forget(store.RunKey{Namespace: p.queue.in.id, ID: string(e.id)})
			n++
		} else {
			kept.add(e)
		}
	}
	p.data, p.n, p.first, p.last = kept.data, kept.n, kept.first, kept.last
	if p.n == 0 {
		heap.Remove(&p.queue.packed, p.at)
		a.packed.remove(p)
	} else {
		heap.Fix(&p.queue.packed, p.at)
	}
	return n
}

// dropSome removes some of the packed attempts of a partition's runs, so that the lock of the Registry is held only
// briefly. It returns the places that these attempts waited for; none if no attempt of these runs is packed any more.
func (a *asks) dropSome(id store.PartitionID) (of map[*handlerPlaces]bool) {
	of = map[*handlerPlaces]bool{}
	for range dropAtOnce {
		for _, i := range a.packed.by[id] { // any of them
			p := a.packed.all[i]
			n := a.drop(p, func(e packedAttempt) bool {
				return store.RunKey{Namespace: p.queue.in.id, ID: string(e.id)}.Partition() == id
			})
			a.all -= n
			p.places.left(p.queue, n)
			of[p.places] = true
			break
		}
	}
	return of
}

// move makes the packed attempts wait for other places.
func (p *packed) move(to *handlerPlaces) {
	from, l := p.places, p.queue
	heap.Remove(&l.packed, p.at)
	from.left(l, p.n)
	p.places, p.queue = to, to.queueOf(l.in.id, l.workflow)
	heap.Push(&p.queue.packed, p)
	to.came(p.queue, p.n)
}

// packedAttempt is the packed form of an attempt.
type packedAttempt struct {
	turnOrder
	handle int64
	id     []byte // of the run
}

// add appends an attempt. Its turn must come after all others in p.
func (p *packed) add(e packedAttempt) {
	if p.n == 0 {
		p.first = e.turnOrder
	}
	p.data = binary.AppendVarint(p.data, e.sinceMs-p.last.sinceMs)
	p.data = binary.AppendUvarint(p.data, e.number)
	p.data = binary.AppendVarint(p.data, e.handle)
	p.data = binary.AppendUvarint(p.data, uint64(len(e.id)))
	p.data = append(p.data, e.id...)
	p.last = e.turnOrder
	p.n++
}

// all yields the attempts.
func (p *packed) all(yield func(packedAttempt) bool) {
	data := p.data
	signed := func() int64 {
		v, n := binary.Varint(data)
		data = data[n:]
		return v
	}
	unsigned := func() uint64 {
		v, n := binary.Uvarint(data)
		data = data[n:]
		return v
	}
	e := packedAttempt{}
	for len(data) > 0 {
		e.sinceMs += signed()
		e.number, e.handle = unsigned(), signed()
		size := unsigned()
		if e.id, data = data[:size], data[size:]; !yield(e) {
			return
		}
	}
}

// waiter returns the unpacked form of an attempt.
func (p *packed) waiter(e packedAttempt) *waiter {
	key := store.RunKey{Namespace: p.queue.in.id, ID: string(e.id)}
	return &waiter{askKey: askKey{key, e.handle}, turnOrder: e.turnOrder, places: p.places, queue: p.queue}
}

// before counts the attempts of p whose turn comes before o.
func (p *packed) before(o turnOrder) (n int) {
	switch {
	case !p.first.before(o):
		return 0
	case p.last.before(o):
		return p.n
	}
	for e := range p.all {
		if !e.turnOrder.before(o) {
			break
		}
		n++
	}
	return n
}

// packedHeap is a heap of the packed attempts of a workflow, the next ones first.
type packedHeap []*packed

func (h packedHeap) Len() int           { return len(h) }
func (h packedHeap) Less(i, j int) bool { return h[i].first.before(h[j].first) }

func (h packedHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *packedHeap) Push(p any) {
	x := p.(*packed) //nolint:forcetypeassert // the heap holds only packed attempts
	x.at = len(*h)
	*h = append(*h, x)
}

func (h *packedHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return x
}
