package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/wfhost/wfhost/store"
)

// membership is the membership of one host; guarded by Data.mu.
type membership struct {
	s           *Store
	member      store.Member
	ttl         time.Duration
	untilUnixMs int64
}

var _ store.Shared = (*Store)(nil)

func (d *Data) now() int64 {
	if d.NowMs == nil {
		return 0
	}
	return d.NowMs()
}

// live reports whether a live member has a name, other than one of a store.
func (d *Data) live(name string, except *Store) bool {
	return slices.ContainsFunc(d.members, func(x *membership) bool {
		return x.member.Name == name && x.s != except && x.untilUnixMs > d.now()
	})
}

// Join makes a host a member.
func (s *Store) Join(_ context.Context, m store.Member, ttl time.Duration) (store.Membership, store.View, error) {
	if err := store.CheckMember(&m); err != nil {
		return nil, store.View{}, err
	}
	if err := s.lock(); err != nil {
		return nil, store.View{}, err
	}
	defer s.d.mu.Unlock()
	if s.d.live(m.Name, nil) {
		return nil, store.View{}, fmt.Errorf("host %q: %w", m.Name, store.ErrExists)
	}
	x := &membership{s: s, member: m, ttl: ttl, untilUnixMs: s.d.now() + ttl.Milliseconds()}
	s.d.members = append(slices.DeleteFunc(s.d.members, func(o *membership) bool { return o.member.Name == m.Name }), x)
	slices.SortFunc(s.d.members, func(a, b *membership) int { return cmp.Compare(a.member.Name, b.member.Name) })
	return x, s.d.view(x), nil
}

// view removes members whose lease has ended, unless it is keep.
func (d *Data) view(keep *membership) store.View {
	now := d.now()
	d.members = slices.DeleteFunc(d.members, func(x *membership) bool { return x != keep && x.untilUnixMs <= now })
	v := store.View{NowUnixMs: now, Settings: d.settings + 1}
	for _, x := range d.members {
		v.Members = append(v.Members, x.member)
	}
	for p, by := range d.owners {
		if v.Member(by) != nil {
			v.Owners[p] = by
		}
	}
	return v
}

// Beat prolongs the membership.
func (x *membership) Beat(_ context.Context, m store.Member) (store.View, error) {
	if err := x.s.lock(); err != nil {
		return store.View{}, err
	}
	defer x.s.d.mu.Unlock()
	if !slices.Contains(x.s.d.members, x) {
		return store.View{}, fmt.Errorf("host %q: its membership had ended: %w", x.member.Name, store.ErrFenced)
	}
	m.Name = x.member.Name
	x.member, x.untilUnixMs = m, x.s.d.now()+x.ttl.Milliseconds()
	return x.s.d.view(x), nil
}

// Leave ends the membership.
func (x *membership) Leave(context.Context) error {
	x.s.d.mu.Lock()
	defer x.s.d.mu.Unlock()
	x.s.d.members = slices.DeleteFunc(x.s.d.members, func(o *membership) bool { return o == x })
	return nil
}
