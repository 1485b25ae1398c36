// Package cluster decides which host of a cluster should own which partitions. It is pure: it knows views of the store and
// instants, does no I/O and has no clock.
//
// Every member computes the same owners from the same view. A member takes what is free and should be its own, at once; and
// gives away, slowly, what should be another member's. Two members that see different views may want one partition: the store
// gives it to one of them.
package cluster

import (
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/wfhost/wfhost/store"
)

const (
	// BeatsPerLease is how often a member shows that it is alive.
	BeatsPerLease = 5
	// leasesOfTrust is for how many leases a newcomer must have shown itself before it is given partitions.
	leasesOfTrust = 2
	// giveWithin is how long a member that moves a partition waits until its runs rest.
	giveWithin = 5 * time.Second
	// farMs is how far the clock of a member may be off the store's, either way. Beyond it the member owns nothing.
	farMs = 2000
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

// BeatTime returns how long a member waits for the answer to a beat.
func BeatTime(lease time.Duration) time.Duration { return lease * 2 / BeatsPerLease }

// GivesUp reports whether a member must drop its partitions, when its last beat that was answered began a while ago. It does so
// before its lease is over. Whether the store has let the lease run out does not depend on it: this spares attempts that would be
// made twice.
func GivesUp(ago, lease time.Duration) bool { return ago >= lease*3/BeatsPerLease }

// Skew returns by how many milliseconds a member's clock is ahead of the store's. A beat took a while and has brought the store's
// instant; what the way may have taken is no difference.
func Skew(nowUnixMs, tookMs, storeUnixMs int64) int64 {
	skew := nowUnixMs - tookMs/2 - storeUnixMs
	if skew > -tookMs && skew < tookMs {
		return 0
	}
	return skew
}

// Far reports whether a member's clock differs so much that it may own nothing.
func Far(skewMs int64) bool { return skewMs > farMs || skewMs < -farMs }

// Planner decides for one member. It is not safe for concurrent use.
type Planner struct {
	name   string
	lease  time.Duration
	seen   map[string]time.Time // when each live member was first seen
	gave   time.Time            // when partitions were last given away
	known  []store.Member       // of wanted
	want   [store.Partitions]string
	giving map[store.PartitionID]time.Time // since when partitions are withheld that should be given
}

// NewPlanner returns the planner of a member. It gives partitions to members that were seen for two leases: a host that is
// started again and again must not move runs each time.
func NewPlanner(name string, lease time.Duration) *Planner {
	return &Planner{name: name, lease: lease, seen: map[string]time.Time{},
		giving: map[store.PartitionID]time.Time{}}
}

// Move is a partition that is to be given to a member.
type Move struct {
	Partition store.PartitionID
	To        string
}

// Plan is what a member should do now, in this order.
type Plan struct {
	Drop []store.PartitionID // another member owns them
	Take []store.PartitionID
	Give []Move // to be asked of Ripe
}

// Plan returns what to do after a view that the member got at an instant of its own monotonic clock. has lists the partitions
// that it holds. It expects that what it returns is done, or tried, before the next call.
func (pl *Planner) Plan(now time.Time, v *store.View, has []store.PartitionID) (p Plan) {
	var holds [store.Partitions]bool
	for _, id := range has {
		if holds[id] = v.Owners[id] == pl.name; !holds[id] {
			p.Drop = append(p.Drop, id)
		}
	}
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
		case owner == "" && want == pl.name, owner == pl.name && !holds[id]: // given up, or lost for a moment
			p.Take = append(p.Take, store.PartitionID(id))
		case owner == pl.name && want != pl.name && want != "" && len(p.Give) < budget &&
			(me.Draining || now.Sub(pl.seen[want]) >= leasesOfTrust*pl.lease) && !pl.silent(v, want):
			p.Give = append(p.Give, Move{store.PartitionID(id), want})
		}
	}
	if len(p.Give) > 0 {
		pl.gave = now
	}
	return p
}

// silent reports whether a member has shown no life for two beats: it may have died, and what it was given would be nobody's
// until its lease is over.
func (pl *Planner) silent(v *store.View, name string) bool {
	m := v.Member(name)
	return m != nil && m.BeatUnixMs > 0 && v.NowUnixMs-m.BeatUnixMs > 2*pl.lease.Milliseconds()/BeatsPerLease
}

// Ripe returns the partitions of a plan that are given now: those whose runs rest. It withholds the others for a while, or, if
// patient, until work in flight has ended.
func (pl *Planner) Ripe(now time.Time, list []Move, patient bool, rests func(store.PartitionID) bool) (ripe []Move,
	withheld bool) {
	// A plan does not name them each time.
	maps.DeleteFunc(pl.giving, func(_ store.PartitionID, first time.Time) bool { return now.Sub(first) >= 2*giveWithin })
	for _, g := range list {
		first, waits := pl.giving[g.Partition]
		if !waits {
			first = now
		}
		if rests(g.Partition) || !patient && now.Sub(first) >= giveWithin {
			ripe = append(ripe, g)
			delete(pl.giving, g.Partition)
			continue
		}
		pl.giving[g.Partition], withheld = first, true
	}
	return ripe, withheld
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
