package partition

import "github.com/wfhost/wfhost/host/internal/wake"

// busyMs is how long a run that was woken keeps others from being woken. One that computes for long, or whose disk is slow,
// does not hold them up: they are woken as if it had come to rest.
const busyMs = 20

// busy is the runs that were woken and have not come to rest.
type busy struct {
	count int
	fresh int         // of them, those that were woken within busyMs
	since []busySince // of those the one woken first at the front; some have come to rest meanwhile
}

type busySince struct {
	sl *slot
	ms int64
}

// add counts a run.
func (b *busy) add(now int64, sl *slot) {
	if sl.woken {
		return
	}
	b.expire(now)
	sl.woken, sl.fresh, sl.wokenMs = true, true, now
	b.count++
	b.fresh++
	b.since = append(b.since, busySince{sl, now})
}

// remove no longer counts a run.
func (b *busy) remove(sl *slot) {
	if sl.woken {
		sl.woken = false
		b.count--
	}
	b.stale(sl)
}

func (b *busy) stale(sl *slot) {
	if sl.fresh {
		sl.fresh = false
		b.fresh--
	}
}

// expire forgets since when runs are busy that have been for long, or no longer are. Those of a clock that was set back are
// forgotten, too.
func (b *busy) expire(now int64) {
	for len(b.since) > 0 {
		s := b.since[0]
		if current := s.sl.fresh && s.sl.wokenMs == s.ms; current && now >= s.ms && now < s.ms+busyMs {
			return
		} else if current {
			b.stale(s.sl)
		}
		b.since[0] = busySince{}
		b.since = b.since[1:]
	}
}

// full reports whether no other run may be woken.
func (b *busy) full(now int64, limit int) bool {
	if b.fresh >= limit {
		b.expire(now)
	}
	return b.fresh >= limit
}

// next returns the instant at which another run may be woken though none comes to rest, wake.Never if one may be now.
func (b *busy) next(limit int) int64 {
	if b.fresh < limit {
		return wake.Never
	}
	return b.since[0].ms + busyMs // at the latest, and then the one behind it is looked at
}
