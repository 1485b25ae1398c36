package host_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/pebblestore"
)

var (
	limitRuns = flag.Int("limits.n", 600, "how many runs TestLimitCrashes starts")
	limitKeys = flag.Int("limits.keys", 30, "on how many keys")
	limitSeed = flag.Uint64("limits.seed", 1, "where its host crashes")
)

// limited is a test of many runs on a host that crashes.
type limited struct {
	*printed
	rng     *rand.Rand
	crashes int
}

// TestLimitCrashes starts many runs with many keys under a low limit, while the host crashes at commits. No limit is
// ever exceeded, all runs end, and no key waits much longer than the others.
func TestLimitCrashes(t *testing.T) {
	var opts []hosttest.Option
	if *limitRuns > 5000 { // the memory store sorts its cells on each read
		dir := t.TempDir()
		opts = append(opts, hosttest.WithStore(func() store.Store {
			s, err := pebblestore.Open(dir, pebblestore.Options{})
			do(t, err)
			return s
		}))
	}
	x := &limited{printed: newPrinted(t, opts...), rng: rand.New(rand.NewPCG(*limitSeed, 0))}
	perKey, all := 2, max(*limitKeys/2, 3)
	x.limit(fmt.Sprintf("%d per input.customer|%d", perKey, all), fmt.Sprintf("%d/5m per input.customer", 4*perKey))
	began := time.Now()
	x.startAll()
	t.Logf("%d runs on %d keys are started after %v", *limitRuns, *limitKeys, time.Since(began))
	for n := 0; ; n++ {
		if x.rng.IntN(3) == 0 {
			x.CrashAt(x.rng.IntN(1+*limitRuns/10), x.rng.IntN(2) == 0)
		}
		next, ok := x.Settle()
		switch {
		case x.Crashed():
			x.reopen()
		case !ok:
			t.Logf("all ended after %v, %d crashes, %v of virtual time", time.Since(began), x.crashes, x.Clock.Now().Sub(hosttest.Epoch))
			x.judge(perKey, all)
			return
		default:
			x.Clock.Set(next)
		}
	}
}

func (x *limited) reopen() {
	x.crashes++
	x.Reopen()
}

// startAll starts the runs in batches, which are repeated after a crash.
func (x *limited) startAll() {
	order := x.rng.Perm(*limitRuns)
	for len(order) > 0 {
		part := order[:min(len(order), 200)]
		if x.rng.IntN(4) == 0 {
			x.CrashAt(x.rng.IntN(100), x.rng.IntN(2) == 0)
		}
		var wg sync.WaitGroup
		for i := range part {
			wg.Go(func() {
				n := part[i]
				_, err := x.StartRaw(ctx, "print", fmt.Appendf(nil, `{"customer":%d}`, n%*limitKeys), host.WithRunID(fmt.Sprint("r", n)))
				if err != nil && !x.Crashed() {
					x.t.Error(err)
				}
			})
		}
		wg.Wait()
		if x.Crashed() {
			x.reopen()
			continue
		}
		order = order[len(part):]
	}
}

// judge checks the history of all runs.
func (x *limited) judge(perKey, all int) {
	list, err := collect(x.Runs(ctx, host.Query{}))
	do(x.t, err)
	want(x.t, len(list), *limitRuns)
	type event struct {
		at    time.Time
		begin bool
		key   int
	}
	var events []event
	waits := map[int][]time.Duration{}
	for _, r := range list {
		var n int
		_, err := fmt.Sscanf(r.ID, "r%d", &n)
		do(x.t, err)
		if r.Status != host.Completed {
			x.t.Fatalf("%+v", r)
		}
		key := n % *limitKeys
		events = append(events, event{r.Started, true, key}, event{r.Ended, false, key})
		waits[key] = append(waits[key], r.Started.Sub(r.Created))
	}
	slices.SortFunc(events, func(a, b event) int {
		if c := a.at.Compare(b.at); c != 0 || a.begin == b.begin {
			return c
		}
		if b.begin {
			return -1
		}
		return 1
	})
	live, of := 0, map[int]int{}
	begun := map[int][]time.Time{}
	for _, e := range events {
		if !e.begin {
			live, of[e.key] = live-1, of[e.key]-1
			continue
		}
		live, of[e.key] = live+1, of[e.key]+1
		begun[e.key] = append(begun[e.key], e.at)
		if n := len(begun[e.key]) - 4*perKey - 1; n >= 0 && e.at.Sub(begun[e.key][n]) < 5*time.Minute {
			x.t.Fatalf("key %d: more than %d runs have begun within %v", e.key, 4*perKey, e.at.Sub(begun[e.key][n]))
		}
		if live > all || of[e.key] > perKey {
			x.t.Fatalf("at %v %d runs go on, %d of key %d", e.at, live, of[e.key], e.key)
		}
	}
	mean, slowest := time.Duration(0), time.Duration(0)
	for _, list := range waits {
		var sum time.Duration
		for _, d := range list {
			sum += d
		}
		of := sum / time.Duration(len(list))
		mean += of / time.Duration(len(waits))
		slowest = max(slowest, of)
	}
	x.t.Logf("a key waits for %v on average, the slowest for %v", mean, slowest)
	if slowest > 2*mean {
		x.t.Errorf("the slowest key waits for %v, the mean is %v", slowest, mean)
	}
	info, err := x.WorkflowLimits().Get(ctx, "print")
	do(x.t, err)
	if info.Holding != 0 || info.Waiting != 0 {
		x.t.Errorf("%+v", info)
	}
}
