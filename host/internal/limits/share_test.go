package limits

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

func TestShareOfALimit(t *testing.T) {
	for _, x := range []struct {
		share       Share
		limit, want int64
	}{
		{Share{}, 7, 7}, {Share{3, 3}, 7, 7}, {Share{1, 3}, 0, 0}, {Share{1, 3}, 1, 1}, {Share{1, 3}, 2, 1}, {Share{1, 3}, 9, 3},
		{Share{1, 3}, 10, 3}, {Share{1, 3}, 11, 4}, {Share{2, 3}, 10, 7}, {Share{1, 100}, 10, 1},
		{Share{1, 2}, math.MaxInt64, math.MaxInt64/2 + 1}, {Share{math.MaxInt32, 3 * math.MaxInt32}, 1_000_000_000_000_000, 333_333_333_333_333},
	} {
		if got := x.share.Of(x.limit); got != x.want {
			t.Errorf("%v of %d is %d, want %d", x.share, x.limit, got, x.want)
		}
	}
}

// TestSharedQuotas has a third of all rates, of namespaces with and without quotas of their own, and then all of them.
func TestSharedQuotas(t *testing.T) {
	all := store.Quota{Starts: 9, Wakes: 9, Instances: 9, Requests: 9, Written: 900_000}
	own := store.Quota{Namespace: 2, Starts: 30, Wakes: 30, Instances: 30, Requests: 30, Written: 3_000_000}
	q := NewQuotas(all, []store.Quota{own}, nil)
	now := begun
	check := func(ns store.NamespaceID, want int64) {
		t.Helper()
		now = now.Add(time.Hour)
		var got [4]int64
		for range 100 {
			if done, err := q.Start(ns, now); err == nil {
				done()
				got[0]++
			}
			if q.WakeQuotas.Wake(uint32(ns), now.UnixMilli()) {
				got[1]++
			}
			if !q.Full(uint32(ns)) {
				q.Add(uint32(ns), 1)
				got[2]++
			}
		}
		q.Add(uint32(ns), -int(got[2]))
		if got[3] = q.Requests(ns); got != [4]int64{want, want, want, want} {
			t.Errorf("namespace %d: %v starts, wakes, guests and requests, want %d", ns, got, want)
		}
		q.Wrote(uint32(ns), int(want)*300_000, now.UnixMilli()) // a balance of want×100,000, and a second's debt of twice that
		if ms := q.OwesMs(uint32(ns), now.UnixMilli()); ms != 2000 {
			t.Errorf("namespace %d: it owes %d ms", ns, ms)
		}
	}
	check(1, 9)
	check(2, 30)
	if !q.SetShare(Share{1, 3}) || q.SetShare(Share{1, 3}) {
		t.Error("a share is not told from another one")
	}
	for _, ns := range []store.NamespaceID{1, 2} { // a third of the rate pays the debt, thrice as long
		if ms := q.OwesMs(uint32(ns), now.UnixMilli()); ns == 2 && ms != 6000 || ns == 1 && ms != 0 {
			t.Errorf("namespace %d: it owes %d ms", ns, ms)
		}
	}
	check(1, 3)
	check(2, 10)
	refused(t, q, 2, now, "3000000 bytes a second, its quota, of which this server has 1000000; try again in 2s")
	now = now.Add(time.Hour)
	for range 10 {
		quotaStart(t, q, 2, now)
	}
	refused(t, q, 2, now, "more than 30 runs a second, its quota, of which this server has 10; try again soon")
	q.Set(store.Quota{Namespace: 2, Starts: 60, Wakes: 60, Instances: 60, Requests: 60, Written: 6_000_000})
	check(2, 20)
	q.SetShare(Share{})
	check(1, 9)
	check(2, 60)
}

// TestSharedConcurrency has two of three slots of a handler, and one of each key's; then all, and those that wait begin.
func TestSharedConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newHouse(t, memstore.New().Open(), startClock())
		x.SetShare(Share{1, 2})
		x.set("4", "2 per input.k")
		enter := func(from, to int, key string) {
			for i := from; i < to; i++ {
				x.enter(fmt.Sprint("run", i), fmt.Sprint(key, i), key)
			}
		}
		enter(0, 2, "a")
		x.want("a0")
		enter(2, 4, "b")
		x.want("b2")
		x.leave("b2")
		x.want("b3")
		x.SetShare(Share{})
		x.want("a1")
		enter(4, 6, "c")
		x.want("c4")
		x.SetShare(Share{1, 2}) // four are in progress, two may be
		x.leave("c4")
		x.leave("a0")
		x.want("")
		x.leave("a1")
		x.want("c5")
	})
}
