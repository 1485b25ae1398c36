package limits

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/store"
)

// TestWritten has runs of a namespace write more than a second's worth: none continues until the debt is paid.
func TestWritten(t *testing.T) {
	q := NewQuotas(store.Quota{}, []store.Quota{{Namespace: 1, Written: 1000}}, nil)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	owes := func(wake, goOn int64) {
		t.Helper()
		if got := q.OwesMs(1, now); got != goOn {
			t.Errorf("it owes %d ms, want %d", got, goOn)
		}
		if may := q.Wake(1, now, 0); may != (wake == 0) {
			t.Errorf("woken: %v, it owes %d ms", may, wake)
		} else if may {
			q.Wrote(1, -wakeBytes, now)
		}
		if _, err := q.Start(1, time.UnixMilli(now)); (err == nil) != (goOn == 0) {
			t.Errorf("a start: %v, it owes %d ms", err, goOn)
		}
		if wake > 0 && q.NextWake(1, 0) != now+wake {
			t.Errorf("the next wake is in %d ms, want %d", q.NextWake(1, 0)-now, wake)
		}
	}
	owes(0, 0)
	q.Wrote(1, 1000, now)
	owes(0, 0)
	q.Wrote(1, ahead, now)
	q.Wrote(2, math.MaxInt, now)
	owes(ahead, 0)
	q.Wrote(1, 1, now)
	owes(ahead+1, ahead+1) // a byte a millisecond
	now++
	owes(ahead, 0)
	now += ahead - 1
	owes(1, 0)
	now++
	owes(0, 0)
	q.Wrote(1, 1, now)
	owes(1, 0)
	now -= 1000 // another goroutine has read a later time: these milliseconds were already counted
	if q.OwesMs(1, now) != 0 || q.Wake(1, now, 0) || q.NextWake(1, 0) != now+1001 {
		t.Error(q.NextWake(1, 0) - now)
	}
	now -= time.Hour.Milliseconds() // the clock is set back
	owes(1, 0)
	now += 5000
	q.Wrote(1, 1000, now) // at most a second's worth is saved up
	owes(0, 0)
	q.Wrote(1, ahead+10, now)
	owes(ahead+10, ahead+10)
	if q.OwesMs(2, now) != 0 || !q.Wake(2, now, now) {
		t.Error("another namespace owes")
	}
	_, err := q.Start(1, time.UnixMilli(now))
	const sentence = "the runs of the namespace write more than 1000 bytes a second, its quota; try again in 16.394s"
	if err == nil || !strings.Contains(err.Error(), sentence) {
		t.Error(err)
	}
	q.Set(store.Quota{Namespace: 1})
	owes(0, 0)
}

// TestWrittenBounds: the largest quota, and the smallest and largest writes, do not overflow.
func TestWrittenBounds(t *testing.T) {
	for _, limit := range []int64{1, 1_000_000_000_000_000} {
		q := NewQuotas(store.Quota{Written: limit}, nil, nil)
		for range 10 {
			q.Wrote(1, math.MaxInt, 0)
		}
		if ms := q.OwesMs(1, 0); ms <= 0 || q.OwesMs(1, math.MaxInt64/2) > ms || q.Wake(1, 1, 1) {
			t.Errorf("limit %d: it owes %d ms", limit, ms)
		}
		if year := int64(365 * 24 * 3600 * 1000); q.OwesMs(1, year) != 0 {
			t.Errorf("limit %d: it owes %d ms after a year", limit, q.OwesMs(1, year))
		}
	}
}

// TestWokenOneAfterTheOther has many runs wait for the quota of their namespace: as many are woken as can pay for a
// wake.
func TestWokenOneAfterTheOther(t *testing.T) {
	q := NewQuotas(store.Quota{Written: 10 * wakeBytes}, nil, nil)
	n := 0
	for q.Wake(7, 0, 0) {
		n++
	}
	if n != 11 {
		t.Errorf("%d were woken at once", n)
	}
}

// TestQuotaTurns has runs wait that different goroutines own: the run that was due first continues first. A run whose
// owner does not ask again blocks the others only for a short time.
func TestQuotaTurns(t *testing.T) {
	q := NewQuotas(store.Quota{Written: 1000}, nil, nil)
	const begun = 1 << 40
	q.Wrote(1, 1100, begun)
	for _, due := range []int64{7, 5, 9, 5} {
		if q.Wake(1, begun+10, due) {
			t.Fatal(due)
		}
	}
	first, next := q.NextWake(1, 5), q.NextWake(1, 9)
	if first != begun+100 || next != first+graceMs {
		t.Error(first-begun, next-begun)
	}
	if q.Wake(1, first, 9) || q.May(1, first) {
		t.Error("another one goes before the first")
	}
	if next := q.NextWake(1, 9); next != first+graceMs {
		t.Error("it would ask again and again", next)
	}
	if !q.Wake(1, first, 5) {
		t.Error("the first one does not go on")
	}
	now := first + 1000
	q.Wrote(1, 1000, now)
	if q.Wake(1, now, 9) {
		t.Error("it owes")
	}
	now = q.NextWake(1, 9)
	if q.Wake(1, now, 20) || !q.Wake(1, now+graceMs, 20) { // the run that was due at 9 does not ask again
		t.Error("who does not come keeps others waiting")
	}
	q.Wrote(1, 2000, now)
	if q.Wake(1, now, 9) {
		t.Error("it owes")
	}
	now -= 3_600_000 // the clock is set back
	if next := q.NextWake(1, 20); q.Wake(1, now, 20) || q.NextWake(1, 20) > now+3000 || next < now {
		t.Errorf("it waits %d ms", q.NextWake(1, 20)-now)
	}
}
