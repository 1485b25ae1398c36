package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/wfhost/wfhost/store"
)

func members(n int) (list []store.Member) {
	for i := range n {
		list = append(list, store.Member{Name: fmt.Sprint("host-", i), Weight: 4})
	}
	return list
}

func counts(owners [store.Partitions]string) map[string]int {
	n := map[string]int{}
	for _, o := range owners {
		n[o]++
	}
	return n
}

// TestOwnersMoveLittle removes each member of clusters: only its own partitions move, and shares are about even.
func TestOwnersMoveLittle(t *testing.T) {
	for n := 1; n <= 16; n++ {
		all := members(n)
		before := Owners(all)
		for name, c := range counts(before) {
			if fair := store.Partitions / n; c > 3*fair {
				t.Errorf("of %d members, %q has %d partitions", n, name, c)
			}
		}
		for i := range all {
			left := append(append([]store.Member{}, all[:i]...), all[i+1:]...)
			for p, o := range Owners(left) {
				switch {
				case n == 1 && o != "", n > 1 && o == "":
					t.Fatalf("partition %d is of %q", p, o)
				case before[p] != all[i].Name && o != before[p]:
					t.Errorf("partition %d has moved from %q to %q, when %q left", p, before[p], o, all[i].Name)
				}
			}
		}
	}
}

// TestOwnersFollowWeights gives a member three times the weight of the others, and lets another one drain.
func TestOwnersFollowWeights(t *testing.T) {
	list := members(4)
	list[0].Weight, list[1].Draining, list[2].Weight = 12, true, -1
	n := counts(Owners(list))
	if n["host-0"] < 30 || n["host-1"] != 0 || n["host-2"] == 0 || n["host-2"] >= n["host-3"] {
		t.Fatal(n)
	}
}

// TestPlans runs members that come, go, drain and are late, over one store in virtual time: each partition has one owner, it is taken
// at once if it is free, and in the end all have what they should.
func TestPlans(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := world{planners: map[string]*Planner{}, now: time.Unix(0, 0)}
		for range 120 {
			w.change(r)
			w.now = w.now.Add(time.Second)
			for range len(w.view.Members) {
				if len(w.view.Members) > 0 && r.IntN(8) > 0 { // some beats are late
					w.beat(t, w.view.Members[r.IntN(len(w.view.Members))].Name)
				}
			}
		}
		for range 40 {
			w.now = w.now.Add(time.Second)
			for _, m := range w.view.Members {
				w.beat(t, m.Name)
			}
		}
		if want := Owners(w.view.Members); w.view.Owners != want && want[0] != "" { // else all of them drain
			t.Fatalf("seed %d: in the end\n%v own\n%v, want\n%v", seed, w.view.Members, w.view.Owners, want)
		}
	}
}

// held returns the partitions that a member owns.
func held(v *store.View, name string) (list []store.PartitionID) {
	for p, owner := range v.Owners {
		if owner == name {
			list = append(list, store.PartitionID(p))
		}
	}
	return list
}

// TestHoldings compares what a member holds with the view: it drops what others own, and takes again what it has lost.
func TestHoldings(t *testing.T) {
	v := store.View{Members: members(1)}
	for p := range v.Owners {
		v.Owners[p] = "host-0"
	}
	v.Owners[3], v.Owners[4] = "another", "another"
	plan := NewPlanner("host-0", time.Second).Plan(time.Unix(100, 0), &v, append(held(&v, "host-0")[1:], 4))
	if !slices.Equal(plan.Drop, []store.PartitionID{4}) || !slices.Equal(plan.Take, []store.PartitionID{0}) || plan.Give != nil {
		t.Errorf("%+v", plan)
	}
}

// TestNothingIsGivenToASilentMember: a member that has said nothing for two beats may be dead.
func TestNothingIsGivenToASilentMember(t *testing.T) {
	v := store.View{Members: members(2), NowUnixMs: 1_000_000}
	for p := range v.Owners {
		v.Owners[p] = "host-0"
	}
	pl, now := NewPlanner("host-0", 5*time.Second), time.Unix(100, 0)
	gives := func(after time.Duration, beatUnixMs int64) int {
		v.Members[1].BeatUnixMs = beatUnixMs
		return len(pl.Plan(now.Add(after), &v, held(&v, "host-0")).Give)
	}
	gives(0, 999_000)
	if n := gives(20*time.Second, 997_999); n != 0 {
		t.Errorf("%d partitions are given to a silent member", n)
	}
	if n := gives(20*time.Second, 998_000); n != givesPerSecond {
		t.Errorf("%d partitions are given to one that has just said something", n)
	}
}

// TestRipe gives partitions whose runs rest at once, others after five seconds, or not before they rest if the member is patient.
func TestRipe(t *testing.T) {
	now, rests := time.Unix(100, 0), map[store.PartitionID]bool{1: true}
	list := []Move{{1, "b"}, {2, "b"}}
	at := func(pl *Planner, after time.Duration, patient bool, want ...Move) {
		t.Helper()
		ripe, withheld := pl.Ripe(now.Add(after), list, patient, func(p store.PartitionID) bool { return rests[p] })
		if !slices.Equal(ripe, want) || withheld != (len(want) < len(list)) {
			t.Errorf("after %v: %v, withheld %v, want %v", after, ripe, withheld, want)
		}
	}
	pl := NewPlanner("a", time.Second)
	at(pl, 0, false, list[0])
	at(pl, 4*time.Second, false, list[0])
	at(pl, 5*time.Second, false, list...)
	at(pl, 6*time.Second, false, list[0])
	at(pl, 17*time.Second, false, list[0]) // it was not asked for long: the time begins again
	at(pl, 100*time.Second, true, list[0])
	at(pl, 106*time.Second, true, list[0])
	rests[2] = true
	at(pl, 107*time.Second, true, list...)
}

func TestSkew(t *testing.T) {
	for _, x := range []struct {
		now, took, store, want int64
		far                    bool
	}{
		{1000, 0, 1000, 0, false}, {1000, 100, 960, 0, false}, {1000, 100, 1040, 0, false}, {1000, 100, 1060, -110, false},
		{5000, 10, 1000, 3995, true}, {1000, 0, 3000, -2000, false}, {1000, 0, 3001, -2001, true}, {3001, 0, 1000, 2001, true},
	} {
		if got := Skew(x.now, x.took, x.store); got != x.want || Far(got) != x.far {
			t.Errorf("%+v: %d, far %v", x, got, Far(got))
		}
	}
}

type world struct {
	planners map[string]*Planner
	now      time.Time
	view     store.View
}

func (w *world) change(r *rand.Rand) {
	name := fmt.Sprint("host-", r.IntN(5))
	m := w.view.Member(name)
	switch {
	case r.IntN(4) > 0:
	case m == nil:
		w.view.Members = append(append([]store.Member{}, w.view.Members...), store.Member{Name: name, Weight: 1 + r.IntN(4)})
		w.planners[name] = NewPlanner(name, 5*time.Second)
	case r.IntN(2) == 0:
		list := append([]store.Member{}, w.view.Members...)
		for i := range list {
			if list[i].Name == name {
				list[i].Draining = !list[i].Draining
			}
		}
		w.view.Members = list
	default: // it dies
		var list []store.Member
		for _, o := range w.view.Members {
			if o.Name != name {
				list = append(list, o)
			}
		}
		w.view.Members = list
		for p, o := range w.view.Owners {
			if o == name {
				w.view.Owners[p] = ""
			}
		}
	}
}

func (w *world) beat(t *testing.T, name string) {
	t.Helper()
	plan := w.planners[name].Plan(w.now, &w.view, held(&w.view, name))
	draining := w.view.Member(name).Draining
	if len(plan.Give) > givesPerSecond && !draining {
		t.Fatalf("%s gives %d partitions at once", name, len(plan.Give))
	}
	for _, g := range plan.Give {
		if w.view.Owners[g.Partition] != name || g.To == name {
			t.Fatalf("%s gives %+v, owned by %q", name, g, w.view.Owners[g.Partition])
		}
		w.view.Owners[g.Partition] = ""
	}
	for _, p := range plan.Take {
		if w.view.Owners[p] != "" || draining {
			t.Fatalf("%s takes %d, owned by %q", name, p, w.view.Owners[p])
		}
		w.view.Owners[p] = name
	}
}

// TestNewcomerWaits adds a member to one that owns all: nothing moves for ten seconds, then four partitions a second.
func TestNewcomerWaits(t *testing.T) {
	v := store.View{Members: members(2)}
	pl, now := NewPlanner("host-0", 5*time.Second), time.Unix(100, 0)
	for p := range v.Owners {
		v.Owners[p] = "host-0"
	}
	moves := 0
	for s := range 40 {
		plan := pl.Plan(now.Add(time.Duration(s)*time.Second), &v, held(&v, "host-0"))
		if s < 10 && len(plan.Give) > 0 {
			t.Fatalf("%d partitions are given after %d s", len(plan.Give), s)
		}
		for _, g := range plan.Give {
			v.Owners[g.Partition] = g.To
		}
		moves += len(plan.Give)
	}
	if n := counts(v.Owners); moves == 0 || moves != n["host-1"] || v.Owners != Owners(v.Members) {
		t.Fatal(moves, n)
	}
	v.Members[0].Draining = true
	if plan := pl.Plan(now.Add(time.Hour), &v, held(&v, "host-0")); len(plan.Give) != store.Partitions-moves {
		t.Fatalf("a member that drains gives %d of %d partitions", len(plan.Give), store.Partitions-moves)
	}
	v.Members[1].Draining = true
	if plan := pl.Plan(now.Add(2*time.Hour), &v, held(&v, "host-0")); len(plan.Give)+len(plan.Take) != 0 {
		t.Fatalf("nobody can own anything: %+v", plan)
	}
}
