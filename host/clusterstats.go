package host

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/store"
)

// ClusterStats says how a host stands in its cluster, and what it has done there since Open.
type ClusterStats struct {
	Hosts   int // live hosts, with this one; 0 while the host is not one of the cluster
	Unowned int // partitions that no live host owns; 0 while the host is not one of the cluster
	// Lease is Cluster.Lease: how long the host keeps its partitions after its last beat. Margin is the shortest time that was left
	// of it within the last half minute to minute. A host that beats in time has about four fifths of the lease; at two fifths it
	// gives up its runs. 0 if the membership has lapsed.
	Lease, Margin time.Duration
	// Skew is the host's clock minus the store's; 0 if the difference may be the time that the beat took.
	Skew time.Duration
	// TakenOver are partitions acquired because their owner had shown no life, or had ended without a Cluster.Address, so that this
	// host did not hear of it. Moved are those that their owner had given away, or that no host had owned.
	TakenOver, Moved uint64
	// Forwards counts the requests that the host has passed on to others, by result. It has all results.
	Forwards map[ForwardResult]uint64
}

// ForwardResult is how a request ended that a host has passed on to another one.
type ForwardResult string

// Results of requests that were passed on.
const (
	ForwardAnswered  ForwardResult = "answered"  // with any status
	ForwardRefused   ForwardResult = "refused"   // the other host has not accepted the signature
	ForwardFailed    ForwardResult = "failed"    // the other host has no address, or has not answered
	ForwardCancelled ForwardResult = "cancelled" // the caller has gone before there was an answer
)

var forwardResults = []ForwardResult{ForwardAnswered, ForwardRefused, ForwardFailed, ForwardCancelled}

// ClusterStats returns the current numbers. ErrNotFound if the host is of no cluster.
func (h *Host) ClusterStats() (ClusterStats, error) {
	m := h.member
	if m == nil {
		return ClusterStats{}, errAlone
	}
	s := ClusterStats{Lease: h.cfg.Cluster.Lease, TakenOver: m.takenOver.Load(), Moved: m.moved.Load(),
		Forwards: map[ForwardResult]uint64{}}
	for i, r := range forwardResults {
		s.Forwards[r] = m.forwards[i].Load()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s.Margin = m.margin.shortest(clock.System().Now())
	s.Skew = time.Duration(m.skew) * time.Millisecond
	if m.view != nil {
		s.Hosts = len(m.view.Members)
		for _, owner := range m.view.Owners {
			if owner == "" {
				s.Unowned++
			}
		}
	}
	return s, nil
}

var errAlone = &joined{errors.New("the server is not one of a cluster"), ErrNotFound}

// CountForward counts a request that this host has passed on to another one, for ClusterStats.
func (h *Host) CountForward(r ForwardResult) {
	for i := range forwardResults {
		if h.member != nil && forwardResults[i] == r {
			h.member.forwards[i].Add(1)
		}
	}
}

// counts is what a member counts.
type counts struct {
	takenOver, moved atomic.Uint64
	forwards         [4]atomic.Uint64 // by index in forwardResults
}

// leaseMargin remembers how long the membership would have lasted when it was prolonged. Guarded by member.mu.
type leaseMargin struct {
	ends          time.Time     // if no further beat is answered
	least, before time.Duration // in this window, and in the one before
	began         time.Time     // of this window
}

// marginWindow is short enough that two windows show what has happened within a minute.
const marginWindow = 30 * time.Second

// prolonged notes that a beat which began at an instant was answered at now.
func (l *leaseMargin) prolonged(began, now time.Time, lease time.Duration) {
	if l.ends.IsZero() {
		l.least, l.before, l.began = lease, lease, now
	} else if now.Sub(l.began) >= marginWindow {
		l.least, l.before, l.began = lease, l.least, now
	}
	if !l.ends.IsZero() {
		l.least = min(l.least, max(l.ends.Sub(now), 0))
	}
	l.ends = began.Add(lease)
	l.least = min(l.least, l.ends.Sub(now))
}

func (l *leaseMargin) shortest(now time.Time) time.Duration {
	return max(min(l.least, l.before, l.ends.Sub(now)), 0)
}

// countAcquired counts partitions that the host has just acquired, by whether their last owner has died. Of the goroutine that
// follows views.
func (m *member) countAcquired(v *store.View, ids []store.PartitionID) {
	from := map[string]int{}
	for _, id := range ids {
		was := m.owner[id]
		if was == m.h.cfg.Cluster.Name || v.Owners[id] == m.h.cfg.Cluster.Name || !m.owns(id) { // it only was not held for a moment
			continue
		}
		m.owner[id] = m.h.cfg.Cluster.Name
		m.mu.Lock()
		given := m.given[id]
		m.given[id] = false
		m.mu.Unlock()
		if given || was == "" || v.Member(was) != nil {
			m.moved.Add(1)
		} else {
			m.takenOver.Add(1)
			from[was]++
		}
	}
	for name, n := range from {
		m.h.cfg.Logger.Warn("a host shows no life, this one takes over its partitions", "host", name, "partitions", n)
	}
}

// noteOwners remembers who owned the partitions last. Of the goroutine that follows views.
func (m *member) noteOwners(v *store.View) {
	for id, owner := range v.Owners {
		if owner == "" || owner == m.owner[id] {
			continue
		}
		m.owner[id] = owner
		m.mu.Lock()
		m.given[id] = false // whatever was given, another host has taken it
		m.mu.Unlock()
	}
}

// noteGiven notes that a host has given partitions to this one: if it ends before this one's next view, it has not died.
func (m *member) noteGiven(ids []store.PartitionID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		if id < store.Partitions {
			m.given[id] = true
		}
	}
}
