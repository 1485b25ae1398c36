package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// after returns the first regular instant after ms, false if there is none. The result is always later than ms, even if a
// rule has several instants within a millisecond, so loops over instants end.
func (d *Definition) after(ms int64) (int64, bool) {
	if d.FromMs != 0 {
		ms = max(ms, d.FromMs-1)
	}
	t, ok := d.times.Next(time.UnixMilli(ms))
	if ok && t.UnixMilli() <= ms {
		t, ok = d.times.Next(t)
	}
	if !ok || t.UnixMilli() <= ms || d.UntilMs != 0 && t.UnixMilli() > d.UntilMs {
		return 0, false
	}
	return t.UnixMilli(), true
}

// fire returns when the run of an instant starts: delayed by the jitter, which is a hash of the schedule's id and the
// instant, and always before the next instant.
func (d *Definition) fire(id string, at int64) int64 {
	if d.JitterMs == 0 {
		return at
	}
	span := d.JitterMs + 1
	if next, ok := d.after(at); ok {
		span = min(span, next-at)
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(id), uint64(at)))
	return at + int64(binary.BigEndian.Uint64(sum[:])%uint64(span))
}

// late returns the instant that has passed and whose start jitter still delays. There is at most one, since each start
// comes before the next instant.
func (d *Definition) late(id string, now int64) (int64, bool) {
	for back := min(int64(1000), d.JitterMs); back > 0; back = min(2*back, d.JitterMs) {
		last := now - back - 1
		at, ok := d.after(last)
		for ; ok && at <= now; at, ok = d.after(at) {
			last = at
		}
		if last >= now-back {
			return last, d.fire(id, last) > now
		}
		if back == d.JitterMs {
			break
		}
	}
	return 0, false
}

// due returns the instant up to which everything has been started by now. It lies before an instant that has passed and is
// still delayed by jitter.
func (d *Definition) due(id string, now int64) int64 {
	if at, ok := d.late(id, now); ok {
		return at - 1
	}
	return now
}
