package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const mib = 1 << 20

// forSlow returns an admission for sixteen long-computing guests, which may keep 40 MiB together.
func forSlow() *Admission {
	a := New(16, 160*mib, 160*mib)
	a.longLimit, a.quiet = 16, quietSlices
	return a
}

// Long-computing guests keep at most a quarter of the memory, so that woken guests can enter. A guest that becomes
// slow beyond that gives up its instance if it can. A guest that has waited, or is large, is not slow.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := forSlow()
		var slow []*Place
		for range 4 {
			p := asksFor(a, 1)
			if err := p.Slice(t.Context(), 10*mib, true); err != nil {
				t.Fatal(err)
			}
			slow = append(slow, p)
		}
		fifth := asksFor(a, 1)
		if err := fifth.Slice(t.Context(), 10*mib, true); !errors.Is(err, ErrSlow) {
			t.Fatal("one beyond the quarter:", err)
		}
		if err := slow[0].Slice(t.Context(), 12*mib, true); err != nil {
			t.Fatal("one that is slow already:", err)
		}
		fifth.Leave()
		again := asksFor(a, LargeBytes)
		if err := again.Slice(t.Context(), LargeBytes, true); err != nil {
			t.Fatal("one that has come again:", err)
		}
		sixth := asksFor(a, 1)
		if err := sixth.Slice(t.Context(), 10*mib, false); err != nil {
			t.Fatal("one that cannot leave:", err)
		}
		if want := int64(42 * mib); a.slow != want || a.bodies.long[group{}] != 10*mib {
			t.Fatalf("slow guests hold %d bytes, not %d, and bodies %v", a.slow, want, a.bodies)
		}
		sixth.Leave()
		slow[0].Park(12 * mib)
		slow[1].Rest()
		if want := int64(20 * mib); a.slow != want {
			t.Fatalf("slow guests hold %d bytes, not %d", a.slow, want)
		}
		seventh := asksFor(a, 1)
		if err := seventh.Slice(t.Context(), 10*mib, true); err != nil {
			t.Fatal("one for which others have made room:", err)
		}
		for _, p := range append(slow, again, seventh) {
			p.Leave()
		}
		if a.slow != 0 || a.held != 0 || len(a.bodies.long) != 0 {
			t.Fatalf("nobody is in, and they hold %d bytes, slow ones %d, bodies %v", a.held, a.slow, a.bodies)
		}
		alone := asksFor(a, 1)
		if err := alone.Slice(t.Context(), LargeBytes-1, true); err != nil {
			t.Fatal("one that is alone:", err)
		}
	})
}

// A guest that becomes slow stays, even beside many slow guests of another group, as long as its group has less than
// its part and half of the share is left. A group that was there earlier must give up what exceeds its part.
func TestSlowOfFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := forSlow()
		var places []*Place
		for _, c := range []struct {
			workflow string
			mib      int64
			want     error
		}{{"many", 10, nil}, {"many", 10, nil}, {"many", 10, nil}, {"many", 10, nil}, {"many", 1, ErrSlow}, {"few", 15, nil}, {"few", 5, nil},
			{"few", 1, ErrSlow}, {"third", 10, ErrSlow}} {
			p := a.NewPlace(1).Of(0, c.workflow, "")
			if err := p.Enter(t.Context(), Woken, nil); err != nil {
				t.Fatal(err)
			}
			if err := p.Slice(t.Context(), c.mib*mib, true); !errors.Is(err, c.want) {
				t.Errorf("%d MiB of %q: %v, want %v", c.mib, c.workflow, err, c.want)
			} else if err != nil {
				p.Leave()
				continue
			}
			places = append(places, p)
		}
		for i, want := range []error{ErrSlow, ErrSlow, nil, nil, nil, nil} { // 60 MiB of 40, of which "many" has 40
			p := places[i]
			if err := p.Slice(t.Context(), 0, true); !errors.Is(err, want) {
				t.Errorf("guest %d at its next slice: %v, want %v", i, err, want)
			} else if err != nil {
				p.Leave()
			}
		}
		for _, p := range places {
			p.Leave()
		}
		if len(a.slowOf) != 0 || len(a.slowIn) != 0 || a.slow != 0 {
			t.Error("nobody is in, and slow are", a.slowOf, a.slowIn)
		}
	})
}

// A namespace gets its part of the share, however many workflows it has. Workflows of other namespaces keep theirs,
// and the first guest of a namespace stays.
func TestSlowOfManyWorkflows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := forSlow()
		var many, few []*Place
		slow := func(namespace uint32, workflow string, bytes int64, want error) *Place {
			p := a.NewPlace(1).Of(namespace, workflow, "")
			if err := p.Enter(t.Context(), Woken, nil); err != nil {
				t.Fatal(err)
			}
			if err := p.Slice(t.Context(), bytes, true); !errors.Is(err, want) {
				t.Errorf("%d bytes of %q: %v, want %v", bytes, workflow, err, want)
			}
			return p
		}
		for i := range 10 { // of 40 MiB
			many = append(many, slow(9, fmt.Sprint("many", i), 4*mib, nil))
		}
		few = append(few, slow(1, "few", 8*mib, nil))
		slow(9, "many10", 4*mib, ErrSlow).Leave()
		few = append(few, slow(1, "few", 4*mib, nil), slow(1, "another", 4*mib, nil))
		slow(1, "few", 8*mib, ErrSlow).Leave()
		honest := slow(9, "honest", mib, nil) // its group has less than its part of the namespace's
		if err := honest.Slice(t.Context(), 0, true); err != nil {
			t.Error("one of a group that holds little:", err)
		}
		honest.Leave()
		stay := 0
		for _, p := range many { // 56 MiB of 40
			err := p.Slice(t.Context(), 0, true)
			switch {
			case err == nil:
				stay++
			case !errors.Is(err, ErrSlow):
				t.Error(err)
			default:
				p.Leave()
			}
		}
		if stay != 6 || a.slow != 40*mib {
			t.Errorf("%d of the many stay, and slow guests hold %d bytes", stay, a.slow)
		}
		for _, p := range few {
			if err := p.Slice(t.Context(), 0, true); err != nil {
				t.Error("one of few:", err)
			}
		}
		for _, p := range append(many, few...) {
			p.Leave()
		}
		if len(a.slowIn) != 0 {
			t.Error("nobody is in, and slow are", a.slowIn)
		}
	})
}

// Runs that compute for six milliseconds per wake continue beside workflows whose guests compute for ten seconds: a
// second turn counts little. Their waits do not grow, and they keep their instances.
func TestShortGuestsBesideLongOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			honest = 50
			period = time.Second
			long   = time.Minute
		)
		ctx, cancel := context.WithCancel(t.Context())
		a := New(16, 160*mib, 0)
		a.longLimit = 2
		var all sync.WaitGroup
		sleep := func(d time.Duration) {
			select {
			case <-time.After(d):
			case <-ctx.Done():
			}
		}
		compute := func(p *Place, slices int) error {
			for range slices {
				sleep(5 * time.Millisecond)
				if err := p.Slice(ctx, 0, true); err != nil {
					return err
				}
			}
			return nil
		}
		for i := range 48 {
			all.Go(func() {
				for bytes := int64(mib); ctx.Err() == nil; {
					p := a.NewPlace(bytes).Of(9, fmt.Sprint("computes", i%6), "")
					if p.Enter(ctx, Woken, nil) != nil {
						return
					}
					bytes = mib
					if errors.Is(compute(p, 2000), ErrSlow) {
						bytes = LargeBytes
					}
					p.Leave()
				}
			})
		}
		sleep(time.Second)
		var done, gaveUp atomic.Int32
		for i := range honest {
			all.Go(func() {
				sleep(period * time.Duration(i) / honest)
				for ctx.Err() == nil {
					began := time.Now()
					for bytes := int64(mib); ; bytes = LargeBytes {
						p := a.NewPlace(bytes).Of(1, "wakes", "")
						if p.Enter(ctx, Woken, nil) != nil {
							return
						}
						err := compute(p, 1)
						if err == nil {
							sleep(2 * time.Millisecond)
						}
						p.Leave()
						if err == nil || ctx.Err() != nil {
							break
						}
						gaveUp.Add(1)
					}
					done.Add(1)
					sleep(period - time.Since(began)%period)
				}
			})
		}
		sleep(long)
		cancel()
		all.Wait()
		if n, want := done.Load(), int32(honest*(long/period)); n < want-honest || gaveUp.Load() > 0 {
			t.Errorf("%d wakes of %d were done, %d gave their instances up", n, want, gaveUp.Load())
		}
	})
}

// Bodies that make short waits repeatedly do not prevent others from waking.
func TestResumingLetsOthersWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		a := New(16, 1<<40, 0)
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				p := a.NewPlace(1<<20).Of(9, fmt.Sprint("sleeps", i%4), "")
				err := p.EnterBody(ctx)
				for err == nil && ctx.Err() == nil {
					<-time.NewTimer(3900 * time.Microsecond).C
					p.StepOut(0)
					<-time.NewTimer(time.Millisecond).C
					err = p.Enter(ctx, Resuming, nil)
				}
			})
		}
		<-time.NewTimer(time.Second).C
		began := time.Now()
		patience, end := context.WithTimeout(ctx, time.Minute)
		defer end()
		err := a.NewPlace(1<<20).Of(1, "wakes", "").Enter(patience, Woken, nil)
		if late := time.Since(began); err != nil || late > 50*time.Millisecond {
			t.Errorf("it woke after %v: %v", late, err)
		}
		cancel()
		all.Wait()
	})
}
