package host

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/store"
)

// Drain has this host of a cluster give its partitions to the others, and take none until Undrain or the next Open. It returns
// when the store knows it. Partitions whose runs rest are given at once, the others when they rest, at most Config.Drain later:
// then attempts in flight are made again by their new owner, with the same idempotency keys. Hosts shows how many are left.
//
// ErrConflict if no other host takes partitions, ErrNotFound if the host is of no cluster, ErrUnavailable if it does not reach
// the store. It is not drained then, unless it was before.
func (h *Host) Drain(ctx context.Context) error {
	if h.member == nil {
		return errAlone
	}
	return h.member.drain(ctx)
}

// Undrain ends what Drain began: the host gets its share of the partitions again, a few each second. It returns when the store
// knows it. ErrNotFound if the host is of no cluster, ErrUnavailable if it does not reach the store; it is undrained even then.
func (h *Host) Undrain(ctx context.Context) error {
	if h.member == nil {
		return errAlone
	}
	h.member.setDrained(false)
	_, err := h.member.confirmDrained(ctx, false)
	return err
}

// HostNamed returns a live host of the cluster. ErrNotFound if there is none of the name, or as Hosts.
func (h *Host) HostNamed(name string) (HostInfo, error) {
	list, err := h.Hosts()
	if err != nil {
		return HostInfo{}, err
	}
	var names []string
	for _, x := range list {
		if x.Name == name {
			return x, nil
		}
		names = append(names, fmt.Sprintf("%q", x.Name))
	}
	err = fmt.Errorf("the cluster has no live host %q; it has %s", name, strings.Join(names, ", "))
	return HostInfo{}, &joined{err, ErrNotFound}
}

// setDrained reports whether the member was drained before.
func (m *member) setDrained(drained bool) (was bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was = m.drained
	if drained && !was {
		m.drainedAt = clock.System().Now()
	}
	m.drained = drained
	return was
}

// drain looks at the other members in a view that shows this one as drained. Beats are in one order, so of the last two hosts
// that are drained at the same time one sees the other.
func (m *member) drain(ctx context.Context) error {
	was := m.setDrained(true)
	v, err := m.confirmDrained(ctx, true)
	if err == nil && !was && !m.others(v) {
		err = &joined{fmt.Errorf("%q is the last host of the cluster that takes partitions: start or undrain another one first",
			m.h.cfg.Cluster.Name), ErrConflict}
	}
	if err != nil {
		m.setDrained(was)
		m.beatNow()
	}
	return err
}

// confirmDrained returns the first view in which this member is drained, or is not.
func (m *member) confirmDrained(ctx context.Context, drained bool) (*store.View, error) {
	for {
		m.mu.Lock()
		next, v := m.next, m.view
		m.mu.Unlock()
		if v == nil {
			return nil, errLapsed
		}
		if me := v.Member(m.h.cfg.Cluster.Name); me != nil && me.Drained == drained {
			return v, nil
		}
		m.beatNow()
		select {
		case <-next:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-m.ended:
			return nil, ErrClosed
		}
	}
}

var errLapsed = &joined{errors.New("this host has not reached the store for too long, and is not one of the cluster now"),
	ErrUnavailable}
