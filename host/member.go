package host

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/cluster"
	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/peer"
	"github.com/wfhost/wfhost/host/internal/runtime"
	"github.com/wfhost/wfhost/store"
)

const (
	// hurriedBeat is the time between beats while partitions are to be given whose runs do not rest yet.
	hurriedBeat = 50 * time.Millisecond
	// skewWarnMs is how far the clock of a host may be off the store's before it warns.
	skewWarnMs = 500
)

// member is this host's membership in a cluster. One goroutine beats. Another one follows the views that the beats bring: it
// takes and gives partitions, which may last longer than a lease.
type member struct {
	h        *Host
	store    store.Shared
	planner  *cluster.Planner
	notifier *peer.Notifier
	now      chan struct{} // asks for a beat
	viewed   chan struct{} // there is another view to follow
	stop     context.CancelFunc
	ended    chan struct{} // closed when both goroutines have ended

	// of the goroutine that beats
	membership store.Membership // nil: it must join again
	joinedMs   int64
	good       time.Time // when the last beat that was answered began, by the system's monotonic clock
	drops      sync.WaitGroup

	owner [store.Partitions]string // the last owner of each partition, "" if none was seen; of the goroutine that follows

	counts

	acted time.Time // of the goroutine that follows: when it last took or gave partitions

	mu          sync.Mutex
	applied     uint64                       // the generation of settings
	view        *store.View                  // nil while the host has no membership, as far as it knows
	viewBegan   time.Time                    // when the beat began that has brought it
	next        chan struct{}                // closed when there is another view
	offering    map[peer.Offer]chan struct{} // closed by the next offer of another host
	wants       bool                         // to own partitions: Run goes on
	leaving     bool                         // it waits for work in flight before it gives a partition away
	drained     bool                         // by an operator, at drainedAt
	drainedAt   time.Time
	deleting    int // calls that delete a version, or wait for it
	held        holding
	releaseUses func()        // of LockUses, while held
	settled     chan struct{} // closed when the host owns nothing and wants nothing; nil if nobody waits
	margin      leaseMargin
	skew        int64                  // ms; written by the goroutine that beats
	given       [store.Partitions]bool // a host has said that it has given the partition to this one
}

// join makes the host a member, before it reads settings. A process that was killed leaves its name behind for a lease.
func (h *Host) join(ctx context.Context) error {
	c := h.cfg.Cluster
	if c == nil {
		return nil
	}
	shared, ok := h.store.(store.Shared) // not sealed yet
	if !ok {
		return &joined{errors.New("Config.Cluster: the store cannot be shared by several hosts; PostgreSQL can"), ErrInvalid}
	}
	m := &member{h: h, store: shared, planner: cluster.NewPlanner(c.Name, c.Lease), now: make(chan struct{}, 1),
		viewed: make(chan struct{}, 1), ended: make(chan struct{}), next: make(chan struct{}), offering: map[peer.Offer]chan struct{}{}}
	sign := func(r *http.Request) error { return h.SignPeer(r, nil) }
	m.notifier = peer.NewNotifier(&http.Client{Transport: h.PeerTransport()}, sign)
	// What the previous process did is told before its lease ends, when others take over the runs that may have ended it.
	if err := h.openWatch(ctx); err != nil {
		return err
	}
	for began := clock.System().Now(); ; {
		err := m.enter(ctx)
		if err == nil {
			break
		}
		waited := clock.System().Now().Sub(began)
		taken := errors.Is(err, store.ErrExists)
		if taken && waited < c.Lease+c.Lease/cluster.BeatsPerLease && sleep(ctx, c.Lease/(4*cluster.BeatsPerLease)) == nil {
			continue
		}
		if taken {
			err = &joined{fmt.Errorf("another host of the cluster has the name %q: give this one another name", c.Name), ErrConflict}
		}
		return err
	}
	m.applied = m.view.Settings
	h.member = m
	return nil
}

// says is what the member says of itself.
func (m *member) says() store.Member {
	c := m.h.cfg.Cluster
	m.mu.Lock()
	defer m.mu.Unlock()
	return store.Member{Name: c.Name, Address: c.Address, Release: c.Release, Weight: c.Weight, Settings: m.applied,
		Draining: !m.wants || m.drained || cluster.Far(m.skew), Drained: m.drained, JoinedUnixMs: m.joinedMs, SkewMs: m.skew,
		BeatUnixMs: m.h.cfg.Clock.Now().UnixMilli() - m.skew,
		Deleting:   m.deleting > 0, Holds: m.held == holds}
}

// enter joins.
func (m *member) enter(ctx context.Context) error {
	began := clock.System().Now()
	membership, v, err := m.store.Join(ctx, m.says(), m.h.cfg.Cluster.Lease)
	if err != nil {
		return err
	}
	m.membership, m.joinedMs = membership, v.NowUnixMs
	m.seen(began, &v)
	return nil
}

// seen notes a view that a beat has brought.
func (m *member) seen(began time.Time, v *store.View) {
	m.good = began
	now, ended := m.h.cfg.Clock.Now().UnixMilli(), clock.System().Now()
	skew := cluster.Skew(now, ended.Sub(began).Milliseconds(), v.NowUnixMs)
	if far(skew, skewWarnMs) && !far(m.skew, skewWarnMs) {
		m.h.cfg.Logger.Warn("the clock of this host differs from that of the store; beyond 2 s it owns no runs", "ahead_ms", skew)
	}
	m.mu.Lock()
	m.skew = skew
	m.margin.prolonged(began, ended, m.h.cfg.Cluster.Lease)
	m.mu.Unlock()
	m.publish(v, began)
	if m.h.rt != nil { // not before Open
		m.holdVersions(v)
	}
}

func far(skew, limit int64) bool { return skew > limit || skew < -limit }

// publish makes a view, or nil, the current one. What was done before the beat began is in it.
func (m *member) publish(v *store.View, began time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.view, m.viewBegan = v, began
	close(m.next)
	m.next = make(chan struct{})
}

func (m *member) current() *store.View {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view
}

// begin starts the goroutines.
func (m *member) begin() {
	if m == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	m.h.rt.Versions.Exclusive = m.closeVersions
	m.beatNow() // it says what it has learnt by joining
	var both sync.WaitGroup
	both.Go(func() { m.run(ctx) })
	both.Go(func() { m.followViews(ctx) })
	go func() {
		both.Wait()
		m.drops.Wait()
		close(m.ended)
	}()
}

func (m *member) run(ctx context.Context) {
	every := m.h.cfg.Cluster.Lease / cluster.BeatsPerLease
	t := clock.System().NewTimer(every)
	defer t.Stop()
	for {
		select {
		case <-t.C():
		case <-m.now:
		case <-ctx.Done():
			return
		}
		again := m.beat(ctx)
		t.Stop()
		t = clock.System().NewTimer(every)
		if again {
			m.beatNow()
		}
	}
}

// beatNow asks for a beat. It does not block.
func (m *member) beatNow() {
	select {
	case m.now <- struct{}{}:
	default:
	}
}

// beat shows that the host is alive. It reports whether another beat should follow at once.
func (m *member) beat(ctx context.Context) (again bool) {
	lease := m.h.cfg.Cluster.Lease
	timed, cancel := context.WithTimeout(ctx, cluster.BeatTime(lease))
	began := clock.System().Now()
	var v store.View
	var err error
	if m.membership == nil {
		err = m.enter(timed)
	} else {
		v, err = m.membership.Beat(timed, m.says())
	}
	cancel()
	switch {
	case err == nil && v.Members != nil:
		m.seen(began, &v)
	case err == nil: // it has joined
	case errors.Is(err, store.ErrFenced), errors.Is(err, store.ErrExists), errors.Is(err, store.ErrLocked):
		m.giveUp("the membership of this host had ended, others have taken over its runs", err)
		m.membership = nil
		return errors.Is(err, store.ErrFenced)
	default:
		if cluster.GivesUp(clock.System().Now().Sub(m.good), lease) {
			m.giveUp("the store does not answer, so this host gives up its runs until it does", err)
		}
		return false
	}
	select {
	case m.viewed <- struct{}{}:
	default:
	}
	return false
}

// giveUp drops all partitions, without a call to the store. It does not wait for calls in flight.
func (m *member) giveUp(why string, cause error) {
	if m.current() == nil {
		return
	}
	m.h.cfg.Logger.Warn(why, "cause", cause)
	m.publish(nil, m.good)
	m.drops.Go(func() { m.h.rt.Partitions.Drop(runtime.ErrGivenUp, m.h.rt.Partitions.Owned()...) })
}

// tell tells a member something, if its address is known.
func (m *member) tell(v *store.View, name string, n peer.Notice) {
	if x := v.Member(name); x != nil && name != m.h.cfg.Cluster.Name {
		m.notifier.Tell(x.Address, n)
	}
}

// notify tells the owner of a partition that its inbox may have new commands.
func (m *member) notify(p store.PartitionID) {
	if v := m.current(); v != nil {
		m.tell(v, v.Owners[p], peer.Notice{Inboxes: []store.PartitionID{p}})
	}
}

// tellAll tells all other members something.
func (m *member) tellAll(n peer.Notice) {
	if v := m.current(); v != nil {
		for i := range v.Members {
			m.tell(v, v.Members[i].Name, n)
		}
	}
}

// offer tells the other members that this one has an attempt for which no worker asks it.
func (m *member) offer(q handler.WorkerQueue) {
	m.tellAll(peer.Notice{Offers: []peer.Offer{{Namespace: q.Namespace, Handler: q.Handler}}})
}

func (m *member) offered(o peer.Offer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.offering[o]; c != nil {
		close(c)
		delete(m.offering, o)
	}
}

func (m *member) offers(o peer.Offer) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.offering[o] == nil {
		m.offering[o] = make(chan struct{})
	}
	return m.offering[o]
}

func (m *member) owns(p store.PartitionID) bool {
	return m.h.rt.Partitions.Get(p) != nil
}

// ownerOf returns the host that owns a partition, false if it is this one.
func (m *member) ownerOf(p store.PartitionID) (HostInfo, bool, error) {
	if m.owns(p) {
		return HostInfo{}, false, nil
	}
	none := &joined{errors.New("no host of the cluster owns its partition at the moment; try again"), ErrFenced}
	v := m.current()
	if v == nil {
		return HostInfo{}, false, none
	}
	x := v.Member(v.Owners[p])
	if x == nil || x.Name == m.h.cfg.Cluster.Name {
		return HostInfo{}, false, none
	}
	return HostInfo{Name: x.Name, Address: x.Address, Release: x.Release}, true, nil
}

// want begins or ends the ownership of partitions. Without it, partitions whose runs rest are given away, and the others after
// leave.
func (m *member) want(wants bool) {
	if m == nil {
		return
	}
	m.mu.Lock()
	m.wants, m.leaving = wants, !wants
	m.mu.Unlock()
	m.beatNow()
}

// leave gives all partitions away, after want(false). It returns when the host owns none, or ctx is done.
func (m *member) leave(ctx context.Context) {
	if m == nil {
		return
	}
	settled := make(chan struct{})
	m.mu.Lock()
	m.settled, m.wants, m.leaving = settled, false, false
	m.mu.Unlock()
	m.beatNow()
	select {
	case <-settled:
	case <-ctx.Done():
	case <-m.ended:
	}
}

func (m *member) noteSettled(none bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	alone := m.view != nil && !m.others(m.view)
	if m.settled != nil && !m.wants && (none || alone) { // nobody would take them
		close(m.settled)
		m.settled = nil
	}
}

// others reports whether another member of a view takes partitions.
func (m *member) others(v *store.View) bool {
	for i := range v.Members {
		if x := &v.Members[i]; x.Name != m.h.cfg.Cluster.Name && !x.Draining {
			return true
		}
	}
	return false
}

// halt ends the goroutine.
func (m *member) halt() {
	if m != nil && m.stop != nil {
		m.stop()
		<-m.ended
	}
}

// close ends the membership, after halt, when the runtime writes nothing any more.
func (m *member) close(ctx context.Context) {
	if m == nil {
		return
	}
	if m.membership != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.h.cfg.Cluster.Lease)
		defer cancel()
		if err := m.membership.Leave(ctx); err != nil {
			m.h.cfg.Logger.Warn("the membership of this host ends by itself", "cause", err)
		}
	}
	m.tellAll(peer.Notice{Beat: true})
	m.notifier.Close()
}

// barrier returns when all live members have applied the settings that were durable when it was called, or ctx is done.
func (m *member) barrier(ctx context.Context) error {
	if m == nil {
		return nil
	}
	var target uint64
	for first := true; ; first = false {
		m.mu.Lock()
		next := m.next
		m.mu.Unlock()
		m.beatNow()
		select {
		case <-next:
		case <-ctx.Done():
			return fmt.Errorf("the setting is durable, but not all hosts have confirmed it: %w", ctx.Err())
		case <-m.ended:
			return ErrClosed
		}
		v := m.current()
		if v == nil {
			continue
		}
		if first {
			continue // the beat may have begun before the change
		}
		if target == 0 {
			target = v.Settings
			m.tellAll(peer.Notice{Beat: true})
		}
		all := true
		for i := range v.Members {
			all = all && v.Members[i].Settings >= target
		}
		if all {
			return nil
		}
		if err := sleep(ctx, barrierPause); err != nil {
			return err
		}
	}
}

// barrierPause is the time between two beats of a host that waits for others.
const barrierPause = 20 * time.Millisecond
