package limits

import (
	"testing"
	"time"

	"github.com/wfhost/wfhost/store"
)

// TestWakes wakes one second's worth at once, then one after the other, at each namespace's own rate.
func TestWakes(t *testing.T) {
	q := NewQuotas(store.Quota{}, []store.Quota{{Namespace: 1, Wakes: 4}, {Namespace: 2, Wakes: 1000}}, nil)
	now := begun.UnixMilli()
	woken := func(ns uint32, most int) (n int) {
		for n < most && q.Wake(ns, now, now) {
			n++
		}
		return n
	}
	if n := woken(1, 9); n != 4 {
		t.Errorf("%d were woken at once, the quota is 4", n)
	}
	if n, m := woken(2, 9), woken(3, 9999); n != 9 || m != 9999 {
		t.Errorf("%d and %d of other namespaces were woken", n, m)
	}
	for range 3 {
		next := q.NextWake(1, now)
		if next != now+250 {
			t.Errorf("the next one is in %d ms", next-now)
		}
		for now = next - 250; now < next; now += 3 {
			if q.Wake(1, now, now) {
				t.Errorf("woken %d ms early", next-now)
			}
		}
		now = next
		if !q.Wake(1, now, now) || q.Wake(1, now, now) {
			t.Error("not one was woken when it was time")
		}
	}
	now -= time.Hour.Milliseconds() // the clock is set back
	if q.Wake(1, now, now) || q.NextWake(1, now) != now+250 {
		t.Errorf("after the clock was set back the next one is in %d ms", q.NextWake(1, now)-now)
	}
	q.Set(store.Quota{Namespace: 1, Wakes: 5})
	if q.NextWake(1, now) != 0 || woken(1, 9) != 5 {
		t.Error("another quota does not hold at once")
	}
	q.Set(store.Quota{Namespace: 1})
	if n := woken(1, 99); n != 99 {
		t.Errorf("%d were woken without a quota", n)
	}
	q = NewQuotas(store.Quota{Wakes: 2}, nil, nil)
	if n := woken(7, 9); n != 2 {
		t.Errorf("%d were woken, the quota of all is 2", n)
	}
}
