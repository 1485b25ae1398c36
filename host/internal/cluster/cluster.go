// Package cluster decides which host of a cluster should own which partitions. It is pure: it knows views of the store and
// instants, does no I/O and has no clock.
//
// Every member computes the same owners from the same view. A member takes what is free and should be its own, at once; and
// gives away, slowly, what should be another member's. Two members that see different views may want one partition: the store
// gives it to one of them.
package cluster

import (
	"hash/fnv"
	"slices"
	"time"

	"github.com/wfhost/wfhost/store"
)

const (
	// givesPerSecond bounds the partitions that a member gives away, so that few runs move at a time.
	givesPerSecond = 4
	// maxWeight bounds weights: the work of Owners grows with them.
	maxWeight = 256
)

// Owners returns the name of the member that should own each partition, "" if no member can. Each member draws a number for
// each partition, as often as its weight says, and the highest number wins. So a member that comes or goes moves only its own
// partitions (rendezvous hashing, Thaler and Ravishankar 1996).
func Owners(members []store.Member) (owners [store.Partitions]string) {
	var best [store.Partitions]uint64
	for i := range members {
		m := &members[i]
		if m.Draining {
			continue
		}
		h := fnv.New64a()
		_, _ = h.Write([]byte(m.Name))
		seed := h.Sum64()
		for p := range owners {
			for n := range min(max(m.Weight, 1), maxWeight) {
				x := mix(seed ^ mix(uint64(p)<<16|uint64(n)))
				if x > best[p] || x == best[p] && m.Name > owners[p] {
					best[p], owners[p] = x, m.Name
				}
			}
		}
	}
	return owners
}

// mix is the finalizer of MurmurHash3: each bit of x changes each bit of the result with about even odds.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// Planner decides for one member. It is not safe for concurrent use.
type Planner struct {
	name  string
	trust time.Duration
	seen  map[string]time.Time // when each live member was first seen
	gave  time.Time            // when partitions were last given away
	known []store.Member       // of wanted
	want  [store.Partitions]string
}

// NewPlanner returns the planner of a member. It gives partitions to members that were seen for trust: a host that is started
// again and again must not move runs each time.
func NewPlanner(name string, trust time.Duration) *Planner {
	return &Planner{name: name, trust: trust, seen: map[string]time.Time{}}
}

// Move is a partition that is to be given to a member.
type Move struct {
	Partition store.PartitionID
	To        string
}

// Plan is what a member should do now.
type Plan struct {
	Take []store.PartitionID
	Give []Move
}

// Plan returns what to do after a view that the member got at an instant of its own monotonic clock. It expects that what it
// returns is done before the next call.
func (pl *Planner) Plan(now time.Time, v *store.View) (p Plan) {
	pl.see(now, v)
	me := v.Member(pl.name)
	if me == nil {
		return p
	}
	budget := store.Partitions
	if !me.Draining {
		budget = givesPerSecond
		if now.Sub(pl.gave) < time.Second {
			budget = 0
		}
	}
	for id, owner := range v.Owners {
		want := pl.want[id]
		switch {
		case owner == "" && want == pl.name:
			p.Take = append(p.Take, store.PartitionID(id))
		case owner == pl.name && want != pl.name && want != "" && len(p.Give) < budget &&
			(me.Draining || now.Sub(pl.seen[want]) >= pl.trust):
			p.Give = append(p.Give, Move{store.PartitionID(id), want})
		}
	}
	if len(p.Give) > 0 {
		pl.gave = now
	}
	return p
}

// see notes who is live, and computes the owners again if that has changed.
func (pl *Planner) see(now time.Time, v *store.View) {
	for name := range pl.seen {
		if v.Member(name) == nil {
			delete(pl.seen, name)
		}
	}
	for i := range v.Members {
		if _, ok := pl.seen[v.Members[i].Name]; !ok {
			pl.seen[v.Members[i].Name] = now
		}
	}
	same := len(v.Members) == len(pl.known)
	for i := 0; same && i < len(v.Members); i++ {
		a, b := &v.Members[i], &pl.known[i]
		same = a.Name == b.Name && a.Weight == b.Weight && a.Draining == b.Draining
	}
	if !same {
		pl.known, pl.want = slices.Clone(v.Members), Owners(v.Members)
	}
}
