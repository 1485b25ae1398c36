package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// after returns the first regular instant after another one, false if there is none. What it returns is later, whatever a rule
// has between two milliseconds: nothing that goes from instant to instant does so for ever.
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

// fire returns when the run of an instant is started: later by the jitter, which depends on the schedule and the instant
// alone, and comes before the next instant.
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

// late returns the instant that has passed, and is still to be started since the jitter delays it. There is at most one: each is
// started before the next one comes.
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

// due returns the instant up to which everything was due by now: what is later has not been started yet. That may be an instant
// that has passed, and is late by the jitter.
func (d *Definition) due(id string, now int64) int64 {
	if at, ok := d.late(id, now); ok {
		return at - 1
	}
	return now
}
