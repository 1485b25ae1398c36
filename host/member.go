package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/cluster"
	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/peer"
	"github.com/wfhost/wfhost/store"
)

const (
	// beatsPerLease is how often a host shows that it is alive.
	beatsPerLease = 5
	// leasesOfTrust is for how many leases a newcomer must have shown itself before it is given partitions.
	leasesOfTrust = 2
	// giveWithin is how long a member that moves a partition waits until its runs rest, and hurriedBeat the time between its
	// beats then.
	giveWithin  = 5 * time.Second
	hurriedBeat = 50 * time.Millisecond
	// skewMs is how far the clock of a host may be off the store's, either way. Beyond it the host owns nothing.
	skewMs = 2000
	// skewWarnMs is when the host warns.
	skewWarnMs = 500
)

// member is this host's membership in a cluster. One goroutine beats, and takes and gives partitions.
type member struct {
	h        *Host
	store    store.Shared
	planner  *cluster.Planner
	notifier *peer.Notifier
	now      chan struct{} // asks for a beat
	stop     context.CancelFunc
	ended    chan struct{}

	// of the goroutine
	membership store.Membership // nil: it must join again
	joinedMs   int64
	good       time.Time // when the last beat that was answered began, by the system's monotonic clock
	skew       int64
	applied    uint64
	giving     map[store.PartitionID]time.Time // since when partitions are withheld that should be given
	hurries    bool                            // some are

	mu       sync.Mutex
	view     *store.View                  // nil while the host has no membership, as far as it knows
	next     chan struct{}                // closed when there is another view
	offering map[peer.Offer]chan struct{} // closed by the next offer of another host
	wants    bool                         // to own partitions: Run goes on
	leaving  bool                         // it waits for work in flight before it gives a partition away
	settled  chan struct{}                // closed when the goroutine owns nothing and wants nothing; nil if nobody waits
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
	m := &member{h: h, store: shared, planner: cluster.NewPlanner(c.Name, leasesOfTrust*c.Lease), now: make(chan struct{}, 1),
		ended: make(chan struct{}), next: make(chan struct{}), offering: map[peer.Offer]chan struct{}{},
		giving: map[store.PartitionID]time.Time{}}
	sign := func(r *http.Request) error { return h.SignPeer(r, nil) }
	m.notifier = peer.NewNotifier(&http.Client{Transport: h.PeerTransport()}, sign)
	for began := clock.System().Now(); ; {
		err := m.enter(ctx)
		if err == nil {
			break
		}
		waited := clock.System().Now().Sub(began)
		taken := errors.Is(err, store.ErrExists)
		if taken && waited < c.Lease+c.Lease/beatsPerLease && sleep(ctx, c.Lease/(4*beatsPerLease)) == nil {
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
		Draining: !m.wants || m.skew > skewMs || m.skew < -skewMs, JoinedUnixMs: m.joinedMs, SkewMs: m.skew}
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
	now := m.h.cfg.Clock.Now().UnixMilli()
	took := clock.System().Now().Sub(began).Milliseconds()
	skew := now - took/2 - v.NowUnixMs
	if skew > -took && skew < took { // it may be the way of the beat
		skew = 0
	}
	if far(skew, skewWarnMs) && !far(m.skew, skewWarnMs) {
		m.h.cfg.Logger.Warn("the clock of this host differs from that of the store; beyond 2 s it owns no runs", "ahead_ms", skew)
	}
	m.skew = skew
	m.publish(v)
}

func far(skew, limit int64) bool { return skew > limit || skew < -limit }

// publish makes a view, or nil, the current one.
func (m *member) publish(v *store.View) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.view = v
	close(m.next)
	m.next = make(chan struct{})
}

func (m *member) current() *store.View {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view
}

// begin starts the goroutine.
func (m *member) begin() {
	if m == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	m.beatNow() // it says what it has learnt by joining
	go m.run(ctx)
}

func (m *member) run(ctx context.Context) {
	defer close(m.ended)
	every := m.h.cfg.Cluster.Lease / beatsPerLease
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
		next := every
		if m.hurries {
			next = min(every, hurriedBeat)
		}
		t = clock.System().NewTimer(next)
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

// beat shows that the host is alive, and does what the view asks for. It reports whether another beat should follow at once.
func (m *member) beat(ctx context.Context) (again bool) {
	lease := m.h.cfg.Cluster.Lease
	timed, cancel := context.WithTimeout(ctx, lease*2/beatsPerLease)
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
	case errors.Is(err, store.ErrFenced), errors.Is(err, store.ErrExists):
		m.giveUp("the membership of this host had ended, others have taken over its runs", err)
		m.membership = nil
		return errors.Is(err, store.ErrFenced)
	default:
		if clock.System().Now().Sub(m.good) >= lease*3/beatsPerLease {
			m.giveUp("the store does not answer, so this host gives up its runs until it does", err)
		}
		return false
	}
	return m.follow(ctx)
}

// giveUp drops all partitions, without a call to the store.
func (m *member) giveUp(why string, cause error) {
	if m.current() == nil {
		return
	}
	m.h.cfg.Logger.Warn(why, "cause", cause)
	m.publish(nil)
	m.h.rt.Partitions.Drop(store.ErrFenced, m.h.rt.Partitions.Owned()...)
}

// follow does what the view asks for: it applies settings, drops partitions that others own, takes and gives.
func (m *member) follow(ctx context.Context) (again bool) {
	v := m.current()
	if v.Settings != m.applied {
		if err := m.h.applySettings(ctx); err != nil {
			m.h.cfg.Logger.Error("settings cannot be read, it is tried again", "cause", err)
		} else {
			m.applied, again = v.Settings, true // says so at once: who has changed them waits for it
		}
	}
	ps, name := m.h.rt.Partitions, m.h.cfg.Cluster.Name
	has := map[store.PartitionID]bool{}
	for _, id := range ps.Owned() {
		if v.Owners[id] == name {
			has[id] = true
			continue
		}
		ps.Drop(store.ErrFenced, id)
	}
	plan := m.planner.Plan(clock.System().Now(), v)
	take := plan.Take
	for id, owner := range v.Owners {
		if owner == name && !has[store.PartitionID(id)] { // given up, or lost for a moment
			take = append(take, store.PartitionID(id))
		}
	}
	if err := m.take(ctx, take); err != nil && ctx.Err() == nil {
		m.h.cfg.Logger.Error("partitions cannot be acquired, it is tried again", "cause", err)
	}
	gives, withheld := m.ripe(plan.Give)
	for _, g := range gives {
		if err := ps.Release(ctx, g.Partition); err != nil {
			m.h.cfg.Logger.Error("partition cannot be released", "partition", g.Partition, "cause", err)
		}
	}
	to := map[string]bool{}
	for _, g := range gives {
		if !to[g.To] {
			to[g.To] = true
			m.tell(v, g.To, peer.Notice{Beat: true})
		}
	}
	m.noteSettled(len(take) == 0 && len(ps.Owned()) == 0)
	m.hurries = withheld
	return again || len(take)+len(gives) > 0
}

// ripe returns the partitions that are given now: those whose runs rest. It withholds the others, for a while, or while the
// host drains until work in flight has ended.
func (m *member) ripe(list []cluster.Move) (ripe []cluster.Move, withheld bool) {
	now := clock.System().Now()
	m.mu.Lock()
	patient := m.leaving
	m.mu.Unlock()
	// The planner does not name them at each beat.
	maps.DeleteFunc(m.giving, func(_ store.PartitionID, first time.Time) bool { return now.Sub(first) >= 2*giveWithin })
	for _, g := range list {
		first, waits := m.giving[g.Partition]
		if !waits {
			first = now
		}
		if m.h.rt.Partitions.Resting(g.Partition) || !patient && now.Sub(first) >= giveWithin {
			ripe = append(ripe, g)
			delete(m.giving, g.Partition)
			continue
		}
		m.giving[g.Partition], withheld = first, true
	}
	return ripe, withheld
}

func (m *member) take(ctx context.Context, ids []store.PartitionID) error {
	if len(ids) == 0 {
		return nil
	}
	err := m.h.rt.Partitions.Acquire(ctx, ids...)
	if errors.Is(err, store.ErrOwned) { // another one was faster
		return nil
	}
	return err
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
			return nil
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
