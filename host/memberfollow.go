package host

import (
	"context"
	"errors"
	"math"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/limits"
	"github.com/wfhost/wfhost/host/internal/peer"
	"github.com/wfhost/wfhost/host/internal/runtime"
	"github.com/wfhost/wfhost/store"
)

// followViews does what the newest view asks for, until ctx is done.
func (m *member) followViews(ctx context.Context) {
	for {
		select {
		case <-m.viewed:
		case <-ctx.Done():
			return
		}
		m.mu.Lock()
		v, began := m.view, m.viewBegan
		m.mu.Unlock()
		// A view from before the last step would undo it: what was taken would be dropped, and what was given taken again.
		if v != nil && (began.Before(m.acted) || m.follow(ctx, v)) {
			m.beatNow()
		}
	}
}

// follow does what the view asks for: it applies settings, drops partitions that others own, takes and gives. It
// reports whether another beat should follow at once.
func (m *member) follow(ctx context.Context, v *store.View) (again bool) {
	m.mu.Lock()
	applied := m.applied
	m.mu.Unlock()
	if v.Settings != applied {
		if err := m.h.applySettings(ctx); err != nil {
			m.h.cfg.Logger.Error("settings cannot be read, it is tried again", "cause", err)
		} else {
			m.mu.Lock()
			m.applied = v.Settings
			m.mu.Unlock()
			again = true // to say so: who has changed them waits for it
		}
	}
	ps, name := m.h.rt.Partitions, m.h.cfg.Cluster.Name
	if share := shareOf(v, name); m.h.quotas.SetShare(share) {
		m.h.handlerLimiter.SetShare(share)
		m.h.rt.QuotasChanged()
	}
	plan := m.planner.Plan(clock.System().Now(), v, ps.Owned())
	ps.Drop(runtime.ErrGivenUp, plan.Drop...)
	if err := m.take(ctx, plan.Take); err != nil && ctx.Err() == nil {
		m.h.cfg.Logger.Error("partitions cannot be acquired, it is tried again", "cause", err)
	}
	m.countAcquired(v, plan.Take)
	m.noteOwners(v)
	now := clock.System().Now()
	m.mu.Lock()
	patient := m.leaving || m.drained && now.Sub(m.drainedAt) < m.h.cfg.Drain
	m.mu.Unlock()
	gives, withheld := m.planner.Ripe(now, plan.Give, patient, ps.Resting)
	to := map[string][]store.PartitionID{}
	for _, g := range gives {
		if err := ps.Give(ctx, g.Partition); err != nil {
			m.h.cfg.Logger.Error("partition cannot be released", "partition", g.Partition, "cause", err)
		}
		to[g.To], m.owner[g.Partition] = append(to[g.To], g.Partition), g.To
	}
	for name, given := range to {
		m.tell(v, name, peer.Notice{Beat: true, Given: given})
	}
	if len(plan.Take)+len(gives) > 0 {
		m.acted = clock.System().Now()
	}
	m.noteSettled(len(plan.Take) == 0 && len(ps.Owned()) == 0)
	if withheld {
		clock.AfterFunc(clock.System(), hurriedBeat, m.beatNow)
	}
	return again || len(plan.Take)+len(gives) > 0
}

// shareOf returns the part of limits that a member has while it owns partitions. One that drains has its part until it owns none.
func shareOf(v *store.View, name string) (s limits.Share) {
	owns := map[string]bool{}
	for _, owner := range v.Owners {
		owns[owner] = true
	}
	for i := range v.Members {
		x := &v.Members[i]
		if x.Draining && !owns[x.Name] && x.Name != name {
			continue
		}
		weight := int64(min(max(x.Weight, 1), math.MaxInt32))
		if s.All += weight; x.Name == name {
			s.Own = weight
		}
	}
	return s
}

func (m *member) take(ctx context.Context, ids []store.PartitionID) error {
	if len(ids) == 0 {
		return nil
	}
	err := m.h.holdSuspects(ctx, ids)
	if err == nil {
		err = m.h.rt.Partitions.Acquire(ctx, ids...)
	}
	if errors.Is(err, store.ErrOwned) { // another one was faster
		return nil
	}
	return err
}
