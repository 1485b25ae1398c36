package admission

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// waitingBodies starts n bodies of a group that wait for a server as soon as they have begun, and returns those that
// have begun. The others start in the background.
func waitingBodies(t *testing.T, a *Admission, namespace uint32, workflow string, bytes int64, n int) (begun []*Place) {
	t.Helper()
	for range n {
		p := a.NewPlace(bytes).Of(namespace, workflow, "")
		go func() {
			if p.EnterBody(t.Context()) == nil {
				p.StepOut(0)
			}
		}()
		if synctest.Wait(); p.at == returning {
			begun = append(begun, p)
		}
	}
	return begun
}

// Many bodies wait for servers, and hold no more than their share: guests and bodies of other groups begin, fewer of
// each later group. A waiting body begins when another one has ended.
func TestBodiesThatHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(16, 160*mib, 100*mib)
		flood := waitingBodies(t, a, 1, "flood", mib, 400)
		if len(flood) != 45 { // three quarters of three quarters of 80 MiB
			t.Errorf("%d have begun", len(flood))
		}
		flood[0].Leave()
		synctest.Wait()
		if now, waiting := a.bodies.of[group{1, "flood"}], a.bodies.waiting.size(); now != 45*mib || waiting != 354 {
			t.Errorf("after the end of one, bodies hold %d bytes, and %d wait", now, waiting)
		}
		if other := waitingBodies(t, a, 1, "other", mib, 20); len(other) != 11 {
			t.Errorf("%d of another workflow have begun", len(other))
		}
		if other := waitingBodies(t, a, 2, "w", mib, 40); len(other) != 13 {
			t.Errorf("%d of another namespace have begun", len(other))
		}
		for namespace := range uint32(20) {
			if n := len(waitingBodies(t, a, 10+namespace, "w", mib, 1)); n != 1 {
				t.Errorf("none of namespace %d has begun", 10+namespace)
			}
		}
		woken := enter(t, a, mib)
		large := enter(t, a, 4*LargeBytes)
		if _, waiting, held := a.Usage(); held > 160*mib || waiting != 354+9+27 {
			t.Errorf("%d bytes are held, %d wait", held, waiting)
		}
		woken.Leave()
		large.Leave()
	})
}

// Bodies that have grown beyond their share do not keep out guests or first bodies of other groups, and do not cause
// evictions.
func TestBodiesThatGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(16, 160*mib, 100*mib)
		parked := enter(t, a, mib)
		parked.Park(mib)
		for _, p := range waitingBodies(t, a, 1, "flood", mib, 45) {
			if err := p.Enter(t.Context(), Resuming, nil); err != nil {
				t.Fatal(err)
			}
			p.StepOut(20 * mib)
		}
		if isEvicted(parked) || !parked.TryEnter() {
			t.Error("another one has to give its instance up")
		}
		if len(waitingBodies(t, a, 1, "other", mib, 1)) != 1 || len(waitingBodies(t, a, 2, "w", mib, 2)) != 1 {
			t.Error("the first bodies of others have not begun")
		}
		large := enter(t, a, 4*LargeBytes)
		if err := parked.Slice(t.Context(), 10*mib, true); err != nil {
			t.Error(err)
		}
		small := enter(t, a, mib)
		for _, p := range []*Place{large, small, parked} {
			p.Leave()
		}
		if a.large != 0 || a.held != a.ofBodies || a.held < 45*20*mib {
			t.Errorf("%d bytes are held, %d of large guests, %d of bodies", a.held, a.large, a.ofBodies)
		}
	})
}

// A body larger than its group's share begins if it is the only one, or the first one of its group; the next one
// begins after it.
func TestBodyBeyondItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(16, 160*mib, 0)
		only := waitingBodies(t, a, 1, "large", 64*mib, 2)
		if len(only) != 1 || a.bodies.waiting.size() != 1 || a.large != 0 {
			t.Fatal(len(only), a.bodies.waiting.size(), a.large)
		}
		first := waitingBodies(t, a, 2, "large", 64*mib, 1)
		if len(first) != 1 || len(waitingBodies(t, a, 3, "large", 64*mib, 1)) != 0 {
			t.Fatal("the first ones of namespaces hold", a.bodies.of)
		}
		only[0].Leave()
		first[0].Leave()
		if synctest.Wait(); a.bodies.of[group{1, "large"}] != 64*mib || a.bodies.of[group{3, "large"}] != 64*mib {
			t.Error("those that waited have not begun:", a.bodies.of)
		}
	})
}

// A body runs in the guest's own instance if there is memory for it, and counts until its end. A large guest counts
// as one before and after the body.
func TestBodyInPlace(t *testing.T) {
	a := New(16, 160*mib, 0)
	large := asksFor(a, 2*LargeBytes)
	for range 2 {
		if !large.BeginBody() || a.large != 0 || a.ofBodies != 2*LargeBytes || a.held != 2*LargeBytes {
			t.Fatalf("large ones hold %d bytes, bodies %d, all %d", a.large, a.ofBodies, a.held)
		}
		large.EndBody()
		large.EndBody()
		if a.large != 2*LargeBytes || a.ofBodies != 0 || a.bodies.held != 0 || len(a.bodies.of) != 0 {
			t.Fatalf("large ones hold %d bytes, bodies %d", a.large, a.ofBodies)
		}
	}
	large.BeginBody()
	large.Leave()
	if a.held != 0 || a.ofBodies != 0 || a.bodies.held != 0 {
		t.Error(a.held, a.ofBodies, a.bodies.held)
	}
}

// While bodies hold their share, one large guest at a time continues beside them, whatever its size; slow guests keep
// less memory; and large guests keep no body out.
func TestBesideBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := forSlow()
		large := asksFor(a, 2*LargeBytes)
		if len(waitingBodies(t, a, 1, "w", 60*mib, 1)) != 1 {
			t.Fatal("a large guest keeps a body out")
		}
		second := asksFor(a, 2*LargeBytes)
		if second.at != outside {
			t.Error("there is a second large guest")
		}
		for i := range 3 {
			err := enter(t, a, mib).Slice(t.Context(), 12*mib, true)
			if slow := i == 2; errors.Is(err, ErrSlow) != slow {
				t.Errorf("slow guest %d stays: %v", i, err)
			}
		}
		large.Leave()
		if second.at != inside {
			t.Error("the second large guest waits for nobody")
		}
		b := New(16, 128*mib, 0)
		waitingBodies(t, b, 1, "w", 64*mib, 1)
		if p := asksFor(b, 70*mib); p.at != inside {
			t.Error("the only guest beside bodies does not come in")
		}
	})
}

// A body that holds less than expected lets others begin. A body that was given up no longer counts, even if it has
// begun and waits for a place.
func TestBodyGivesRoomBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(1, 160*mib, 0)
		waitingBodies(t, a, 1, "w", 40*mib, 2)
		if a.bodies.held != 40*mib {
			t.Fatal(a.bodies.held)
		}
		if small := a.NewPlace(mib).Of(1, "w", ""); small.BeginBody() || a.bodies.waiting.size() != 1 {
			t.Error("one begins in an instance before those that wait")
		}
		b := New(1, 160*mib, 0)
		p := b.NewPlace(40*mib).Of(1, "w", "")
		if err := p.EnterBody(t.Context()); err != nil {
			t.Fatal(err)
		}
		waitingBodies(t, b, 1, "w", 40*mib, 1)
		p.StepOut(mib)
		if synctest.Wait(); b.bodies.held != 41*mib {
			t.Errorf("bodies hold %d bytes", b.bodies.held)
		}
		woken := enter(t, b, mib) // it has the place
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.NewPlace(mib).Of(2, "w", "").EnterBody(ctx) }()
		if synctest.Wait(); b.bodies.held != 42*mib {
			t.Errorf("bodies hold %d bytes", b.bodies.held)
		}
		cancel()
		if err := <-done; err == nil || b.bodies.held != 41*mib {
			t.Errorf("%v, bodies hold %d bytes", err, b.bodies.held)
		}
		woken.Leave()
	})
}

// A large body at the head of its namespace waits until other bodies of the namespace have ended, and later ones
// cannot pass it forever.
func TestLargeBodyIsNotOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(16, 160*mib, 0)
		waitingBodies(t, a, 1, "small", 8*mib, 1)
		waitingBodies(t, a, 1, "large", 10*mib, 1)
		ctx, cancel := context.WithCancel(t.Context())
		second := a.NewPlace(45*mib).Of(1, "large", "")
		done := make(chan error, 1)
		go func() { done <- second.EnterBody(ctx) }()
		synctest.Wait()
		if later := waitingBodies(t, a, 1, "small", mib, 1); len(later) != 0 || second.begun {
			t.Error("a later one has begun before it", len(later), second.begun)
		}
		if len(waitingBodies(t, a, 2, "other", mib, 1)) != 1 {
			t.Error("one of another namespace waits")
		}
		cancel()
		if err := <-done; err == nil {
			t.Error("nobody waits for it any more, and it has begun")
		}
		if synctest.Wait(); a.bodies.waiting.size() != 0 {
			t.Error("the one behind it waits")
		}
	})
}

// TestBodiesByChance has bodies begin, grow, wait and end at random: the counts match what they hold, no body waits
// while there is room for it, and in the end nothing is left.
func TestBodiesByChance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := New(100, 1000, 0)
		var all []*Place
		waits := map[*Place]*waiter{}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			a.mu.Lock()
			var p *Place
			if len(all) > 0 {
				p = rapid.SampledFrom(all).Draw(t, "body")
			}
			switch what := rapid.IntRange(0, 9).Draw(t, "what"); {
			case p == nil || what < 5:
				p = a.NewPlace(rapid.Int64Range(1, 90).Draw(t, "bytes")).Of(uint32(rapid.IntRange(0, 2).Draw(t, "namespace")),
					rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "w"), "")
				all = append(all, p)
				if w := p.beginLocked(); w != nil {
					waits[p] = w
				}
			case !p.begun && waits[p] != nil && what == 5:
				a.bodies.withdraw(waits[p])
				waits[p] = nil
			case p.begun && p.at == outside && what < 8:
				a.enterLocked(p, Woken)
			case p.at == inside && what == 8:
				p.weighLocked(p.bytes + 40)
			case p.begun:
				waits[p] = nil
				a.goLocked(p)
				p.endBodyLocked()
			}
			checkBodies(t, a, all)
			a.mu.Unlock()
		}
		a.mu.Lock()
		for range all {
			for _, p := range all {
				a.goLocked(p)
				p.endBodyLocked()
			}
		}
		b := &a.bodies
		if a.held != 0 || b.held != 0 || b.beyond != 0 || len(b.of) != 0 || len(b.long) != 0 || len(b.waiting.groups) != 0 {
			t.Fatalf("something is left: %d, %+v", a.held, b)
		}
	})
}

func checkBodies(t *rapid.T, a *Admission, all []*Place) {
	b := &a.bodies
	var held, in, beyond int64
	of := map[group]int64{}
	for _, p := range all {
		if p.begun {
			held += p.bytes
			of[p.group] += p.bytes
			of[p.group.ofNamespace()] += p.bytes
		}
		if p.begun && p.at != outside {
			in += p.bytes
		}
		if p.first {
			beyond += p.bytes
		}
	}
	if held != b.held || beyond != b.beyond || in != a.ofBodies || len(of) != len(b.of) {
		t.Fatalf("held %d, beyond %d, inside %d, by groups %v; want %d, %d, %d, %v", b.held, b.beyond, a.ofBodies, b.of, held, beyond, in, of)
	}
	for g, bytes := range of {
		if b.of[g] != bytes {
			t.Fatalf("bodies of %v hold %d bytes, want %d", g, b.of[g], bytes)
		}
	}
	waiting := b.waiting.all()
	if b.waiting.Len() != 0 || len(waiting) > 0 && held == 0 {
		t.Fatalf("%d are not blocked, of %d that wait, while bodies hold %d", b.waiting.Len(), len(waiting), held)
	}
	full, first := map[uint32]bool{}, map[group]*waiter{}
	for _, w := range waiting {
		if f := first[w.place.group]; f == nil || w.turn < f.turn {
			first[w.place.group] = w
		}
	}
	for g, w := range first {
		full[g.namespace] = full[g.namespace] || b.verdict(w.place) == namespaceFull
	}
	for _, w := range first {
		if v := b.verdict(w.place); v == beginsFirst || v == begins && !full[w.place.group.namespace] {
			t.Fatalf("a body of %v may begin, and waits", w.place.group)
		}
	}
}
