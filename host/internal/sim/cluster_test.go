package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/wfhost/wfhost/host/internal/cluster"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// A world of several hosts may be a cluster: its hosts share the partitions by what package cluster decides, as the members of
// package host do. Leases and beats go by ticks, which pass apart from the time of the runs: a year of sleep has no more beats than
// a second of work.

// lease is the lease of a membership in ticks, which are milliseconds.
const lease = 5 * time.Second

// latest is how late a beat, or its answer, may be.
const latest = 2 * lease

// member imitates the member of package host.
type member struct {
	h       *host
	db      *memstore.Store
	planner *cluster.Planner
	ms      store.Membership // nil: it must join
	view    *store.View      // nil: it has given up
	until   int64            // when its lease ends
	began   int64            // when the beat began that has brought the view
	acted   int64            // when it last took or gave partitions
	good    int64            // when the last beat that was answered began
	next    int64            // when it beats again
	polls   int64            // when it reads its inboxes again
	beating bool
	viewed  bool // there is a view to follow
	follows int  // operations of the plan that is carried out
}

// ticks is the time of leases, and what happens in it.
type ticks struct {
	now    int64
	events []*item                 // at is in ticks
	calmAt int64                   // since when nothing disturbs the cluster
	since  [store.Partitions]int64 // since when a partition has no owner; 0: it has one
	epochs [store.Partitions]store.Epoch
	free   [store.Partitions]bool // its owner has released it
	// What was seen of them.
	takeovers, gives, lapses, stops int
}

func (w *world) at(h *host, afterMs int64, name string, do func()) {
	w.ticks.events = append(w.ticks.events, &item{name: name, h: h, at: w.ticks.now + afterMs, do: do})
}

// tick lets ticks pass, and happen what is due then.
func (w *world) tick() {
	t := &w.ticks
	t.now += w.between(1, 300)
	for _, h := range w.hosts {
		if h.stopped > 0 && h.stopped <= t.now {
			w.note("%s goes on", h.name)
			h.stopped = 0
		}
	}
	for {
		var due []int
		for i, e := range t.events {
			if e.at <= t.now && !e.h.stands() {
				due = append(due, i)
			}
		}
		if len(due) == 0 {
			break
		}
		i := due[w.rng.IntN(len(due))]
		e := t.events[i]
		t.events = slices.Delete(t.events, i, i+1)
		w.note("tick %d: %s", t.now, e.name)
		e.do()
	}
	for _, h := range w.hosts {
		if m := h.member; m != nil && !h.stands() {
			m.tick()
		}
	}
}

// stands reports whether the process does nothing: it is stopped.
func (h *host) stands() bool { return h != nil && h.stopped > 0 }

func (m *member) clock() time.Time { return time.UnixMilli(m.h.w.ticks.now) }

func (m *member) tick() {
	w, now := m.h.w, m.h.w.ticks.now
	if !m.beating && now >= m.next {
		m.beat()
	}
	if m.viewed && m.follows == 0 && m.view != nil {
		if m.viewed = false; m.began <= m.acted {
			m.next = min(m.next, now)
		} else {
			m.follow()
		}
	}
	if now >= m.polls {
		if m.polls = now + 1000; w.calm { // few notices are lost any more
			m.polls = now + 10_000
		}
		m.poll()
	}
	if !w.calm && w.rng.IntN(400) == 0 && m.view != nil && !m.h.active && len(m.h.owned()) == 0 {
		m.leave()
	}
}

// poll reads the inboxes, because notices of other hosts may be lost.
func (m *member) poll() {
	for _, x := range m.h.writers {
		x.post(func(int64) {
			for _, p := range x.shard.Partitions() {
				if x.w.homes == nil || x.w.homes[p.ID] {
					x.shard.Kicked(p.ID)
				}
			}
		})
	}
}

// join makes a host that starts a member.
func (h *host) join() {
	h.member = &member{h: h, db: h.w.data.Open(), planner: cluster.NewPlanner(h.name, lease), next: h.w.ticks.now, acted: -1}
}

// beat sends a beat. It, or its answer, may be late or lost.
func (m *member) beat() {
	w := m.h.w
	m.beating = true
	began := w.ticks.now
	says := store.Member{Name: m.h.name, Weight: m.h.weight, Draining: !m.h.active || cluster.Far(m.h.skew),
		BeatUnixMs: began}
	late := func() int64 {
		if w.calm || w.odds(9, 10) {
			return w.between(0, 20)
		}
		return w.between(0, latest.Milliseconds())
	}
	lost := func() bool { return !w.calm && w.rng.IntN(100) < w.p.lost }
	there, back := late(), late()
	most := cluster.BeatTime(lease).Milliseconds()
	answered := !lost() && !lost() && there+back <= most
	if !answered {
		w.at(m.h, most, m.h.name+"'s beat is not answered", func() { m.answered(began, nil, nil, errLost) })
		if w.odds(1, 2) {
			return
		}
	}
	w.at(nil, there, m.h.name+"'s beat", func() { // even if the host is dead by then
		ms, v, err := m.ms, store.View{}, error(nil)
		if ms == nil {
			ms, v, err = m.db.Join(ctx, says, lease)
		} else {
			v, err = ms.Beat(ctx, says)
		}
		if err == nil {
			m.until = w.ticks.now + lease.Milliseconds()
		}
		if answered && m.h.member == m {
			w.at(m.h, back, m.h.name+"'s beat is answered", func() { m.answered(began, ms, &v, err) })
		}
	})
}

var errLost = errors.New("lost on its way")

func (m *member) answered(began int64, ms store.Membership, v *store.View, err error) {
	w := m.h.w
	m.beating, m.next = false, w.ticks.now+lease.Milliseconds()/cluster.BeatsPerLease
	switch {
	case err == nil:
		m.ms, m.view, m.began, m.good, m.viewed = ms, v, began, began, true
	case errors.Is(err, store.ErrFenced), errors.Is(err, store.ErrExists):
		w.note("%s is no member: %v", m.h.name, err)
		m.giveUp()
		m.ms = nil
		if errors.Is(err, store.ErrFenced) {
			m.next = w.ticks.now
		}
	case cluster.GivesUp(time.Duration(w.ticks.now-m.good)*time.Millisecond, lease):
		m.giveUp()
	}
}

// giveUp drops all partitions.
func (m *member) giveUp() {
	if m.view == nil {
		return
	}
	m.h.w.note("%s gives up", m.h.name)
	m.h.w.ticks.lapses++
	m.view = nil
	for _, id := range m.h.owned() {
		m.lose(id, nil)
	}
}

var errGivenUp = errors.New("this host has given the partition up")

// lose drops a partition, and then calls done with what the host owned, nil if it did not.
func (m *member) lose(id store.PartitionID, done func(store.Partition)) {
	x := m.h.writerOf(id)
	x.post(func(int64) {
		var owned store.Partition
		if p := x.shard.Partition(id); p != nil {
			owned = p.Owned
			x.shard.Lose(p, errGivenUp)
		}
		if done != nil {
			done(owned)
		}
	})
}

// owned returns the partitions that a host has in memory.
func (h *host) owned() (ids []store.PartitionID) {
	for _, x := range h.writers {
		for _, p := range x.shard.Partitions() {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// follow does what the newest view asks for.
func (m *member) follow() {
	h, w := m.h, m.h.w
	plan := m.planner.Plan(m.clock(), m.view, h.owned())
	for _, id := range plan.Drop {
		m.lose(id, nil)
	}
	for _, id := range plan.Take {
		m.follows++
		h.later(fmt.Sprintf("takes partition %d", id), func() {
			m.done()
			h.acquire(id)
		})
	}
	rests := func(id store.PartitionID) bool {
		p := h.writerOf(id).shard.Partition(id)
		return p == nil || p.Resting()
	}
	gives, withheld := m.planner.Ripe(m.clock(), plan.Give, !h.active, rests)
	for _, g := range gives {
		m.follows++
		w.ticks.gives++
		m.lose(g.Partition, func(owned store.Partition) {
			if owned == nil {
				m.done()
				return
			}
			h.later(fmt.Sprintf("releases partition %d", g.Partition), func() {
				m.done()
				if owned.Release(ctx) == nil { // else another host was faster
					w.ticks.free[g.Partition] = true
				}
			})
		})
	}
	if withheld || len(plan.Take)+len(gives) > 0 {
		m.next = min(m.next, w.ticks.now+50)
	}
}

// done notes that an operation of a plan has ended.
func (m *member) done() {
	m.follows--
	m.acted = m.h.w.ticks.now
}

// leave ends the process of a host that drains and owns nothing.
func (m *member) leave() {
	h := m.h
	h.w.note("%s leaves", h.name)
	if m.ms != nil {
		_ = m.ms.Leave(ctx)
	}
	h.kill()
	h.w.later(nil, h.w.between(0, 1000), h.name+" comes back", h.start)
}

// disturb disturbs the cluster.
func (w *world) disturb() {
	h := w.hosts[w.rng.IntN(len(w.hosts))]
	if !h.up || h.stands() {
		return
	}
	switch w.rng.IntN(3) {
	case 0:
		h.stopped = w.ticks.now + w.between(1, 3*lease.Milliseconds())
		w.ticks.stops++
		w.note("%s is stopped", h.name)
	case 1:
		h.skew = w.between(-400, 400)
		if w.odds(1, 4) {
			h.skew *= 10
		}
		w.skewed()
		w.note("the clock of %s is %d ms ahead", h.name, h.skew)
	default:
		h.crash()
	}
}

// skewed notes that a clock may show what no clock has shown before.
func (w *world) skewed() {
	for _, h := range w.hosts {
		w.maxWall = max(w.maxWall, h.now())
	}
}

// now is the host's clock.
func (h *host) now() int64 { return h.w.wall + h.skew }

// notify tells the host that owns a partition of commands, as far as a host knows it. Notices may be late, lost and doubled.
func (m *member) notify(id store.PartitionID) {
	w := m.h.w
	if m.view == nil {
		return
	}
	for n := w.between(0, 2); n >= 0; n-- {
		if w.odds(1, 5) && !w.calm {
			continue
		}
		for _, to := range w.hosts {
			if to.name != m.view.Owners[id] {
				continue
			}
			w.later(nil, w.hosts[0].slowly(), "a notice for partition "+fmt.Sprint(id), func() {
				if to.up {
					x := to.writerOf(id)
					x.post(func(int64) { x.shard.Kicked(id) })
				}
			})
		}
		if w.calm {
			break
		}
	}
}

// slowly is how long a message takes.
func (h *host) slowly() int64 {
	if h.w.odds(1, 30) {
		return h.w.between(1, 3000)
	}
	return 0
}

// holds reports whether the host that has acquired a partition last has it in memory.
func (w *world) holds(id store.PartitionID) bool {
	h := w.owner[id]
	return h.up && h.writerOf(id).shard.Partition(id) != nil
}

// unowned reports whether a partition has no owner.
func (w *world) unowned() bool {
	for id := range store.PartitionID(store.Partitions) {
		if !w.holds(id) {
			return true
		}
	}
	return false
}

// covered checks that no partition is without an owner for longer than a lease and two seconds while nothing disturbs the cluster.
func (w *world) covered() {
	const within = 2000
	t := &w.ticks
	slow := slices.ContainsFunc(w.hosts, func(h *host) bool { // what has been decided is not done yet
		return !h.up || h.member.follows > 0 || slices.ContainsFunc(h.writers, func(x *writer) bool { return !x.settled() })
	})
	for p := range w.owner {
		switch id := store.PartitionID(p); {
		case w.holds(id):
			t.since[p] = 0
		case t.since[p] == 0 || slow:
			t.since[p] = t.now
		case t.now-max(t.since[p], t.calmAt) > lease.Milliseconds()+within:
			w.broken("each partition has an owner", "partition %d has none since tick %d, now it is %d: %s", id, t.since[p], t.now, w.views())
		}
	}
}

func (w *world) views() (text string) {
	for _, h := range w.hosts {
		text += fmt.Sprintf("\n%s up %v active %v, owns %d", h.name, h.up, h.active, len(h.owned()))
		if m := h.member; h.up && m.view != nil {
			for _, x := range m.view.Members {
				text += fmt.Sprintf(", sees %s draining %v", x.Name, x.Draining)
			}
		}
	}
	return text
}

// acquired notes that a host has acquired a partition. A live one keeps what it has not released.
func (t *ticks) acquired(h *host, id store.PartitionID, owned store.Partition) {
	was := h.w.owner[id]
	if was != h {
		t.takeovers++
		if m := was.member; m != nil && t.epochs[id] > 0 && m.until > t.now && !t.free[id] {
			h.w.broken("a live host keeps its partitions", "%s has acquired partition %d of %s", h.name, id, was.name)
		}
	}
	t.epochs[id], t.free[id] = owned.Epoch(), false
}

// fits checks that only the newest owner of a partition has committed.
func (t *ticks) fits(w *world, groups []store.Group) {
	for i := range groups {
		if p := groups[i].Partition; p.Epoch() != t.epochs[p.ID()] {
			w.broken("a partition has one owner", "a commit of partition %d in epoch %d, the newest is %d", p.ID(), p.Epoch(), t.epochs[p.ID()])
		}
	}
}
