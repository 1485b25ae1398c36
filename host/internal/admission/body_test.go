package admission

import (
	"context"
	"testing"
	"testing/synctest"
)

// Bodies of one workflow that compute for long hold at most an eighth of the memory, plus one body. Further bodies of
// the workflow begin one by one as others end. Bodies of another workflow do not wait for them.
func TestBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(64, 160*mib, 0)
		a.longLimit, a.quiet = 64, quietSlices
		begin := func(workflow string) (*Place, chan error) {
			p, done := a.NewPlace(8*mib).Of(0, workflow, ""), make(chan error, 1)
			go func() { done <- p.EnterBody(t.Context()) }()
			synctest.Wait()
			return p, done
		}
		var going []*Place
		for range 3 {
			p, done := begin("long")
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if err := p.Slice(t.Context(), 8*mib, false); err != nil {
				t.Fatal(err)
			}
			going = append(going, p)
		}
		inPlace := a.NewPlace(8*mib).Of(0, "long", "")
		if err := inPlace.Enter(t.Context(), Woken, nil); err != nil || inPlace.BeginBody() || inPlace.begun {
			t.Error("a body may begin in an instance", err)
		}
		inPlace.Leave()
		var waiting []chan error
		for range 10 {
			_, done := begin("long")
			waiting = append(waiting, done)
		}
		begun := func() (n int) {
			synctest.Wait()
			for _, done := range waiting {
				n += len(done)
			}
			return n
		}
		if n := begun(); n != 0 {
			t.Errorf("%d begin while others have their share", n)
		}
		other, done := begin("other")
		if err := <-done; err != nil {
			t.Error("one of another workflow waits", err)
		}
		other.EndBody()
		if !other.BeginBody() {
			t.Error("one of another workflow may not begin in its instance")
		}
		other.Leave()
		for i, p := range going[:2] {
			if p.Leave(); begun() != i+1 {
				t.Errorf("after the end of %d, %d have begun", i+1, begun())
			}
		}
		going[2].StepOut(0)
		if begun() != 3 {
			t.Error("one that waits for a server is in the way")
		}
		ctx, cancel := context.WithCancel(t.Context())
		p := a.NewPlace(8*mib).Of(0, "long", "")
		cancel()
		if err := p.EnterBody(ctx); err == nil || p.body || a.bodies.long[p.group] != 24*mib {
			t.Errorf("one that nobody waits for any more: %v, and bodies hold %v", err, a.bodies)
		}
	})
}
