package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/store"
)

// member is the membership of this process.
type member struct {
	session
	s     *Store
	name  string
	token [16]byte
	ttl   time.Duration
	beats int64  // the newest number of a beat in the database
	gen   uint64 // of the settings that this store has seen
}

var _ store.Shared = (*Store)(nil)

// Join makes this process a member of those that share the store.
func (s *Store) Join(ctx context.Context, m store.Member, ttl time.Duration) (store.Membership, store.View, error) {
	if err := s.usable(); err != nil {
		return nil, store.View{}, err
	}
	if err := store.CheckMember(&m); err != nil {
		return nil, store.View{}, err
	}
	if s.lease != nil {
		return nil, store.View{}, fmt.Errorf("%w: open the store with Shared", store.ErrLocked)
	}
	x := &member{s: s, name: m.Name, token: randomToken(), ttl: ttl, beats: s.beats.Load()}
	v, err := x.beat(ctx, m, true)
	if err != nil {
		x.disconnect()
		return nil, v, err
	}
	s.member.Store(x)
	return x, v, nil
}

// Beat prolongs the membership.
func (x *member) Beat(ctx context.Context, m store.Member) (store.View, error) {
	if err := x.s.usable(); err != nil {
		return store.View{}, err
	}
	m.Name = x.name
	return x.beat(ctx, m, false)
}

func (x *member) beat(ctx context.Context, m store.Member, first bool) (v store.View, err error) {
	data, err := json.Marshal(m)
	if err != nil {
		return v, err
	}
	if err := x.connect(ctx, x.s); err != nil {
		return v, x.s.failed(err)
	}
	had, begun := x.s.has(), start()
	var by, timeline *string
	var named, lost bool
	var beats int64
	var settings, now *int64
	var members []byte
	var owners []string
	err = x.conn.QueryRow(ctx, `select taken_by, name_taken, lost, beats, timeline, settings, now_ms, members, owners
		from wfhost.beat($1, $2, $3, $4, $5, $6)`, x.token, x.name, x.ttl.Milliseconds(), first, data, leaseTime.Milliseconds()).
		Scan(&by, &named, &lost, &beats, &timeline, &settings, &now, &members, &owners)
	switch {
	case err != nil:
		x.disconnect()
		return v, x.s.failed(err)
	case named:
		return v, fmt.Errorf("host %q: %w", x.name, store.ErrExists)
	case by != nil:
		return v, fmt.Errorf("%w: %s", store.ErrLocked, *by)
	case beats <= x.beats:
		return v, x.s.wentBack("it has an earlier state")
	case lost:
		x.s.keep(&had, func(store.PartitionID) bool { return false })
		x.s.settings.forget()
		return v, fmt.Errorf("host %q: its membership had ended: %w", x.name, store.ErrFenced)
	}
	x.beats = beats
	x.s.beats.Store(beats)                        // for the next membership
	if err := x.s.follow(*timeline); err != nil { // a pooler may have connected to another server
		return v, err
	}
	if err := json.Unmarshal(members, &v.Members); err != nil {
		return v, fmt.Errorf("%w: members: %w", store.ErrCorrupt, err)
	}
	if len(owners) != store.Partitions {
		return v, fmt.Errorf("%w: owners of %d partitions", store.ErrCorrupt, len(owners))
	}
	v.NowUnixMs, v.Settings, v.Owners = *now, uint64(*settings), [store.Partitions]string(owners)
	x.s.keep(&had, func(p store.PartitionID) bool { return v.Owners[p] == x.name })
	if x.gen != v.Settings {
		x.gen = v.Settings
		x.s.settings.forget()
	}
	x.good.Store(&begun)
	return v, nil
}

// Leave ends the membership.
func (x *member) Leave(ctx context.Context) error {
	x.s.member.CompareAndSwap(x, nil)
	defer x.disconnect()
	if err := x.connect(ctx, x.s); err != nil {
		return x.s.failed(err)
	}
	_, err := x.conn.Exec(ctx, "delete from wfhost.member where token = $1", x.token)
	return x.s.wrote(err)
}
