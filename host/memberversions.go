package host

import (
	"context"
	"fmt"

	"github.com/wfhost/wfhost/host/internal/peer"
	"github.com/wfhost/wfhost/store"
)

// holding is how far a member is with keeping its starts from choosing versions, while a member deletes one.
type holding uint8

const (
	holdsNot holding = iota
	willHold         // it waits until starts in flight have ended
	holds            // and says so in its beats
	mayLeave         // its next beat says that it does not hold any more; it still does
)

// holdVersions is called with each view. While a member wants to delete a version, no member lets a run begin: the one that
// deletes waits until all say so. A member stops only when a beat that no longer says it has brought a view in which nobody
// deletes. Beats of all members are in one order, so whoever deletes sees a member that says it, or the member sees that one.
func (m *member) holdVersions(v *store.View) {
	m.mu.Lock()
	defer m.mu.Unlock()
	wanted := m.deleting > 0
	for i := range v.Members {
		wanted = wanted || v.Members[i].Deleting && v.Members[i].Name != m.h.cfg.Cluster.Name
	}
	switch {
	case m.held == holdsNot && wanted:
		m.held = willHold
		go func() { // starts in flight wait for the store
			release := m.h.rt.Versions.LockUses()
			m.mu.Lock()
			m.held, m.releaseUses = holds, release
			m.mu.Unlock()
			m.beatNow()
		}()
	case m.held == holds && !wanted:
		m.held = mayLeave
		m.beatNow()
	case m.held == mayLeave && wanted:
		m.held = holds
		m.beatNow()
	case m.held == mayLeave:
		m.held = holdsNot
		m.releaseUses()
	}
}

// closeVersions returns when no member lets a run begin, until release is called.
func (m *member) closeVersions(ctx context.Context) (release func(), err error) {
	add := func(n int) {
		m.mu.Lock()
		m.deleting += n
		m.mu.Unlock()
		m.beatNow()
		m.tellAll(peer.Notice{Beat: true})
	}
	add(1)
	release = func() { add(-1) }
	for {
		m.mu.Lock()
		next, v, held := m.next, m.view, m.held == holds
		m.mu.Unlock()
		if v != nil && held && m.allHold(v) {
			return release, nil
		}
		m.beatNow()
		select {
		case <-next:
			err = sleep(ctx, barrierPause)
		case <-ctx.Done():
			err = ctx.Err()
		case <-m.ended:
			err = ErrClosed
		}
		if err != nil {
			release()
			return nil, fmt.Errorf("not all hosts of the cluster have confirmed that no run begins meanwhile: %w", err)
		}
	}
}

// allHold reports whether all members of a view hold, in which this one says that it deletes.
func (m *member) allHold(v *store.View) bool {
	all := false
	for i := range v.Members {
		x := &v.Members[i]
		if x.Name == m.h.cfg.Cluster.Name {
			all = x.Deleting
		} else if !x.Holds {
			return false
		}
	}
	return all
}
