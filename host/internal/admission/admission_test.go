package admission

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// enter lets a guest in, and fails the test if it has to wait.
func enter(t *testing.T, a *Admission, bytes int64) *Place {
	t.Helper()
	p := a.NewPlace(bytes)
	if err := p.Enter(t.Context(), Woken, nil); err != nil {
		t.Fatal(err)
	}
	return p
}

// wait calls Enter in a goroutine, and returns the channel with its result.
func wait(ctx context.Context, p *Place, c Class, quit <-chan struct{}) <-chan error {
	done := make(chan error, 1)
	go func() { done <- p.Enter(ctx, c, quit) }()
	synctest.Wait()
	return done
}

// over reports whether a wait has ended, and fails the test if it ended with an error.
func over(t *testing.T, done <-chan error) bool {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
		return true
	default:
		return false
	}
}

func isEvicted(p *Place) bool {
	select {
	case <-p.Evicted():
		return true
	default:
		return false
	}
}

// empty checks that all counts are zero.
func empty(t *testing.T, a *Admission) {
	t.Helper()
	if a.free != a.total || a.held != 0 || a.leaving != 0 || a.parkedBytes != 0 || a.parked.Len() != 0 || instancesOf(a) != 0 {
		t.Errorf("%d of %d places are free, %d bytes held, %d leaving, %d parked", a.free, a.total, a.held, a.leaving, a.parkedBytes)
	}
}

// TestOrder has guests of all classes wait, and lets them in one by one.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(1, 100, 100)
		first := enter(t, a, 1)
		var mu sync.Mutex
		var order []string
		for i := range 3 {
			for _, c := range []Class{Starting, Woken, Resuming} {
				name, p := fmt.Sprintf("%d%d", c, i), a.NewPlace(1)
				entered := func() {
					mu.Lock()
					order = append(order, name)
					mu.Unlock()
					p.Leave()
				}
				if i == 1 { // blocking and not
					go func() {
						if err := p.Enter(t.Context(), c, nil); err != nil {
							t.Error(err)
						}
						entered()
					}()
				} else {
					a.Ask(&Request{Place: p, Class: c, Begin: func() { go entered() }, Refuse: func() { t.Error("refused") }})
				}
				synctest.Wait()
			}
		}
		first.Leave()
		synctest.Wait()
		if want := []string{"00", "01", "02", "10", "11", "12", "20", "21", "22"}; !slices.Equal(order, want) {
			t.Errorf("got %q, want %q", order, want)
		}
		empty(t, a)
	})
}

// TestClassesStandInLine has a guest wait for memory: a small guest of a later class does not pass it, a guest of an
// earlier class does.
func TestClassesStandInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(9, 100, 100)
		in := enter(t, a, 60)
		large := wait(t.Context(), a.NewPlace(50), Woken, nil)
		late := wait(t.Context(), a.NewPlace(1), Starting, nil)
		behind := wait(t.Context(), a.NewPlace(1), Woken, nil)
		early := wait(t.Context(), a.NewPlace(1), Resuming, nil)
		if over(t, large) || over(t, late) || over(t, behind) || !over(t, early) {
			t.Error("the wrong ones are inside")
		}
		in.Leave()
		if !over(t, large) || !over(t, late) || !over(t, behind) {
			t.Error("somebody waits, for whom there is room")
		}
	})
}

func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(2, 100, 100)
		p, q := enter(t, a, 10), enter(t, a, 10)
		third := wait(t.Context(), a.NewPlace(10), Woken, nil)
		if over(t, third) || instancesOf(a) != 2 {
			t.Fatal("three are inside, by number two may be")
		}
		p.Leave()
		if !over(t, third) {
			t.Fatal("there is room")
		}
		q.Leave()

		a = New(9, 100, 100)
		p = enter(t, a, 60)
		fits := enter(t, a, 40) // exactly
		waits := wait(t.Context(), a.NewPlace(1), Woken, nil)
		if over(t, waits) {
			t.Fatal("they hold more than the limit")
		}
		fits.Park(39)
		if fits.Bytes() != 39 || p.Bytes() != 60 {
			t.Error("what counts is not what was measured")
		}
		if !over(t, waits) || isEvicted(fits) {
			t.Fatal("there is room since less was measured than was expected")
		}
	})
}

// TestLargerThanTheLimit lets in a guest larger than the limit when no other guest is inside, and evicts parked
// guests for it.
func TestLargerThanTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(3, 100, 100)
		p, q := enter(t, a, 10), enter(t, a, 10)
		p.Park(10)
		huge := a.NewPlace(1000)
		waits := wait(t.Context(), huge, Woken, nil)
		if over(t, waits) || !isEvicted(p) {
			t.Fatal("it is not alone, and who is parked is in its way")
		}
		q.Leave()
		if !over(t, waits) {
			t.Fatal("it waits for ever")
		}
		small := wait(t.Context(), a.NewPlace(1), Resuming, nil)
		if over(t, small) {
			t.Error("there is room beside it")
		}
		huge.Leave()
		if !over(t, small) {
			t.Error("there is room")
		}
	})
}

// TestAloneEvicts lets a guest in at once, since no guest computes, and evicts parked guests to get its memory.
func TestAloneEvicts(t *testing.T) {
	a := New(3, 100, 100)
	var parked []*Place
	for range 3 {
		p := enter(t, a, 30)
		p.Park(30)
		parked = append(parked, p)
	}
	enter(t, a, 50)
	if !isEvicted(parked[0]) || !isEvicted(parked[1]) || isEvicted(parked[2]) {
		t.Error("140 bytes are held, the limit is 100: two of 30 have to go")
	}
}

// TestEviction evicts the guests that were parked first, when parked guests hold too much or their memory is needed,
// and no more than necessary.
func TestEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(10, 100, 50)
		var places []*Place
		for range 6 {
			p := enter(t, a, 10)
			places = append(places, p)
			p.Park(10)
		}
		if !isEvicted(places[0]) || slices.ContainsFunc(places[1:], isEvicted) {
			t.Fatal("the six hold 60 bytes, the limit is 50: the first one has to go")
		}
		in := enter(t, a, 35) // 95, including the evicted one that has not left yet
		waits := wait(t.Context(), a.NewPlace(10), Woken, nil)
		if over(t, waits) || slices.ContainsFunc(places[1:], isEvicted) {
			t.Fatal("it has room when the one that was evicted has left: nobody else has to go")
		}
		next := wait(t.Context(), a.NewPlace(10), Woken, nil) // 105 without the first one
		if over(t, next) || !isEvicted(places[1]) || slices.ContainsFunc(places[2:], isEvicted) {
			t.Fatal("for the second one, one has to go")
		}
		places[1].Leave()
		if !over(t, waits) || over(t, next) || slices.ContainsFunc(places[2:], isEvicted) {
			t.Fatal("one has room now, and the next one's is still to come")
		}
		places[0].Leave()
		if !over(t, next) {
			t.Fatal("there is room")
		}
		in.Leave()
		a.EvictAll()
		for i, p := range places[2:] {
			if !isEvicted(p) {
				t.Error("not evicted:", i+2)
			}
			p.Leave()
		}
	})
}

// TestMemoryWithoutAPlace evicts no guest on behalf of a guest that waits for a place: memory would not help it.
func TestMemoryWithoutAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(1, 100, 100)
		p := enter(t, a, 50)
		p.Park(50)
		q := enter(t, a, 50)
		waits := wait(t.Context(), a.NewPlace(50), Woken, nil)
		if over(t, waits) || isEvicted(p) {
			t.Fatal("it waits for a place")
		}
		q.Leave()
		if !over(t, waits) {
			t.Error("there is room")
		}
	})
}

func TestTryEnter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(2, 100, 20)
		enter(t, a, 1)
		p := a.NewPlace(10)
		if p.TryEnter() {
			t.Error("it is outside")
		}
		p = enter(t, a, 10)
		if p.TryEnter() {
			t.Error("it is inside")
		}
		p.Park(10)
		p.Park(20) // is only for one that is inside
		if !p.TryEnter() || instancesOf(a) != 2 {
			t.Error("there is room")
		}
		p.Park(10)
		q := enter(t, a, 10)
		if p.TryEnter() {
			t.Error("there is no place")
		}
		resuming := wait(t.Context(), a.NewPlace(80), Resuming, nil) // it waits for a place, and then for memory
		q.Park(10)
		if over(t, resuming) {
			t.Fatal("101 bytes would be held")
		}
		if q.TryEnter() {
			t.Error("somebody waits who can go on, too")
		}
		if !isEvicted(p) || p.TryEnter() {
			t.Error("it was evicted")
		}
		p.Leave()
		if !over(t, resuming) || p.TryEnter() {
			t.Error("it has left")
		}
	})
}

// TestTryEnterBeforeOthers lets a parked guest in before a woken run that waits for memory.
func TestTryEnterBeforeOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(3, 100, 100)
		in := enter(t, a, 60)
		p := enter(t, a, 20)
		q := enter(t, a, 20)
		p.Park(20)
		q.Park(20)
		waits := wait(t.Context(), a.NewPlace(20), Woken, nil)
		if over(t, waits) || !isEvicted(p) || isEvicted(q) {
			t.Fatal("the one that was parked first has to go")
		}
		if !q.TryEnter() {
			t.Error("it can go on, and was not evicted")
		}
		q.Park(20)
		if err := p.Enter(t.Context(), Resuming, nil); err != nil { // it was evicted, but may continue as long as it has not left
			t.Fatal(err)
		}
		if over(t, waits) || !isEvicted(q) {
			t.Error("another one has to go instead")
		}
		q.Leave()
		if !over(t, waits) {
			t.Error("there is room")
		}
		in.Leave()
	})
}

// TestLeave leaves twice, wherever a guest stands.
func TestLeave(t *testing.T) {
	for name, stand := range map[string]func(p *Place){
		"outside": func(p *Place) { p.Leave() },
		"inside":  func(*Place) {},
		"parked":  func(p *Place) { p.Park(7) },
		"evicted": func(p *Place) { p.Park(70) },
		"evicted, and it knows": func(p *Place) {
			p.Park(70)
			<-p.Evicted()
		},
		"inside again": func(p *Place) { p.Park(7); p.TryEnter() },
		"in after an eviction": func(p *Place) {
			p.Park(70)
			_ = p.Enter(context.Background(), Resuming, nil)
		},
		"parked after that": func(p *Place) {
			p.Park(70)
			_ = p.Enter(context.Background(), Resuming, nil)
			p.Park(5)
		},
	} {
		a := New(2, 100, 50)
		p := enter(t, a, 10)
		stand(p)
		for range 2 {
			p.Leave()
			empty(t, a)
			if isEvicted(p) {
				t.Errorf("%s: it is outside, and has to give something up", name)
			}
		}
	}
}

// TestGivesUp ends a wait by its context or by quit, and lets in the guests behind it.
func TestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("cause")
		a := New(3, 100, 100)
		in := enter(t, a, 60)
		for _, c := range []Class{Resuming, Woken, Starting} {
			ctx, cancel := context.WithCancelCause(t.Context())
			quit := make(chan struct{})
			large := wait(ctx, a.NewPlace(50), c, quit)
			small := a.NewPlace(1)
			behind := wait(t.Context(), small, Starting, nil)
			if over(t, behind) {
				t.Fatal("it stands behind")
			}
			want := cause
			if c == Woken {
				close(quit)
				want = ErrStopped
			} else {
				cancel(cause)
			}
			synctest.Wait()
			if err := <-large; !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
			if !over(t, behind) {
				t.Error("there is room, and nobody stands before it")
			}
			small.Leave()
			cancel(nil)
		}
		in.Leave()
		empty(t, a)
	})
}

// TestGivesUpAtTheSameTime ends a wait at the moment when the guest is let in: either way, the counts stay right.
func TestGivesUpAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("cause")
		var entered, stopped, cancelled int
		for i := range 500 {
			a := New(1, 100, 100)
			in := enter(t, a, 10)
			ctx, cancel := context.WithCancelCause(t.Context())
			quit := make(chan struct{})
			p := a.NewPlace(10)
			done := wait(ctx, p, Woken, quit)
			in.Leave() // lets it in; its goroutine does not run yet, so it sees both
			if i%2 == 0 {
				cancel(cause)
			} else {
				close(quit)
			}
			switch err := <-done; {
			case err == nil:
				entered++
				if instancesOf(a) != 1 {
					t.Fatal("it is inside, and does not count")
				}
				p.Leave()
			case errors.Is(err, cause):
				cancelled++
			case errors.Is(err, ErrStopped):
				stopped++
			default:
				t.Fatal(err)
			}
			cancel(nil)
			empty(t, a)
		}
		if entered == 0 || stopped == 0 || cancelled == 0 {
			t.Logf("not all cases were seen: %d %d %d", entered, stopped, cancelled)
		}
	})
}

// TestRequests calls one of Begin and Refuse exactly once, however often any method is called.
func TestRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(1, 100, 100)
		var begun, refused atomic.Int32
		ask := func(bytes int64, c Class) *Request {
			q := &Request{Place: a.NewPlace(bytes), Class: c,
				Begin: func() { begun.Add(1) }, Refuse: func() { refused.Add(1) }}
			a.Ask(q)
			return q
		}
		check := func(what string, wantBegun, wantRefused int32) {
			t.Helper()
			if begun.Load() != wantBegun || refused.Load() != wantRefused {
				t.Errorf("%s: %d have begun, %d are refused; want %d and %d", what, begun.Load(), refused.Load(), wantBegun, wantRefused)
			}
		}
		q := ask(10, Woken)
		check("at once", 1, 0)
		q.Withdraw()
		a.RefuseAll()
		check("it has begun", 1, 0)
		waits := ask(10, Woken)
		waits.Withdraw()
		waits.Withdraw()
		a.RefuseAll()
		check("withdrawn", 1, 1)
		blocks := wait(t.Context(), a.NewPlace(1), Starting, nil)
		ask(10, Starting)
		ask(10, Resuming)
		a.RefuseAll()
		a.RefuseAll()
		check("all", 1, 3)
		if over(t, blocks) {
			t.Error("there is no room")
		}
		last := ask(10, Woken)
		q.Place.Leave()
		check("there is room", 2, 3)
		last.Withdraw()
		last.Place.Leave()
		check("in the end", 2, 3)
		if !over(t, blocks) {
			t.Error("there is room")
		}
	})
}

// TestWithdrawn lets in the guests behind a refused request.
func TestWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, refuse := range []func(q *Request){(*Request).Withdraw, func(q *Request) { q.Place.a.RefuseAll() }} {
			a := New(3, 100, 100)
			enter(t, a, 60)
			q := &Request{Place: a.NewPlace(50), Class: Resuming, Begin: func() { t.Error("begun") }, Refuse: func() {}}
			a.Ask(q)
			behind := wait(t.Context(), a.NewPlace(40), Woken, nil)
			if over(t, behind) {
				t.Fatal("it stands behind")
			}
			refuse(q)
			if !over(t, behind) {
				t.Error("there is room, and nobody stands before it")
			}
		}
	})
}

// TestStress has many guests do everything concurrently, for the race detector; in the end all counts are zero.
func TestStress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places, limit, parkLimit = 4, 100, 60
		a := New(places, limit, parkLimit)
		var inside atomic.Int32
		var all sync.WaitGroup
		compute := func() {
			if n := inside.Add(1); n > places {
				t.Error(n, "are inside")
			}
			runtime.Gosched()
			inside.Add(-1)
		}
		for i := range 64 {
			all.Go(func() {
				for j := range 100 {
					k := i*31 + j*17
					p := a.NewPlace(int64(k%40 + 1))
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(k%5)*time.Millisecond)
					if p.Enter(ctx, Class(k%classes), nil) == nil {
						compute()
						p.Park(int64(k % 50))
						switch {
						case k%3 == 0 && p.TryEnter():
							compute()
						case k%7 == 0:
							select {
							case <-p.Evicted():
							case <-ctx.Done():
							}
						case p.Enter(ctx, Resuming, nil) == nil:
							compute()
						}
					}
					p.Leave()
					cancel()
					begun := make(chan bool, 2)
					q := &Request{Place: a.NewPlace(int64(k % 60)), Class: Class(k % classes),
						Begin: func() { begun <- true }, Refuse: func() { begun <- false }}
					a.Ask(q)
					switch k % 4 {
					case 0:
						a.RefuseAll()
					case 1:
						a.EvictAll()
					}
					if k%2 == 0 {
						q.Withdraw()
					}
					if <-begun {
						compute()
						q.Place.Leave()
					}
					if len(begun) > 0 {
						t.Error("a request has begun and was refused")
					}
				}
			})
		}
		all.Wait()
		empty(t, a)
	})
}

// TestRest has guests rest until they get an order: as many others come in as there are places, and no more, however
// many of these rest as well. A woken guest continues at once.
func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(2, 1000, 0)
		first := []*Place{enter(t, a, 1), enter(t, a, 1)}
		var began []*Place
		for range 4 {
			p := a.NewPlace(1)
			a.Ask(&Request{Place: p, Class: Woken, Begin: func() { began = append(began, p) }, Refuse: func() {}})
		}
		for _, p := range first {
			p.Rest()
		}
		if len(began) != 2 {
			t.Fatalf("%d came in while two rest", len(began))
		}
		for _, p := range began {
			p.Rest()
		}
		if len(began) != 2 || instancesOf(a) != 4 {
			t.Fatalf("%d came in, %d instances", len(began), instancesOf(a))
		}
		first[0].Wake()
		if first[0].Leave(); len(began) != 2 {
			t.Fatal("one came in for a guest that was woken beyond the places")
		}
		first[1].Leave()
		began[0].Leave()
		if len(began) != 3 {
			t.Fatalf("%d came in", len(began))
		}
	})
}

// TestRestingGuestsCount has guests come in and rest, one after the other. They still hold their instances, so no
// later guest counts as the only one.
func TestRestingGuestsCount(t *testing.T) {
	a := New(16, 10, 10)
	var began int
	for range 16 {
		p := a.NewPlace(8)
		a.Ask(&Request{Place: p, Class: Woken, Begin: func() { began++ }, Refuse: func() {}})
		p.Rest()
	}
	if began != 1 || a.held != 8 {
		t.Errorf("%d guests came in and hold %d bytes, the limit is 10", began, a.held)
	}
}
