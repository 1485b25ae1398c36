package room

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/store"
)

func key(id string) store.RunKey { return store.RunKey{ID: id} }

const mb = 1 << 20

func nothing() error { return nil }

// Runs are read while there is room, and others when there is again.
func TestLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(10 * mb)
		var mu sync.Mutex // of order: two may be let in at a time
		var order []string
		load := func(id string, bytes int64) {
			go func() {
				if err := b.Load(t.Context(), key(id), bytes); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, id)
			}()
			synctest.Wait()
		}
		load("a", 6*mb)
		load("small", smallBytes-1)
		load("b", 4*mb)
		if len(order) != 3 || b.Held() != 10*mb {
			t.Fatal(order, b.Held())
		}
		b.passes[key("a")], b.passed = struct{}{}, time.Now() // one goes on over the budget already
		load("c", 3*mb)
		load("d", mb)
		if len(order) != 3 {
			t.Fatal("read without room:", order)
		}
		b.Forget(key("b"))
		synctest.Wait()
		if len(order) != 5 || b.Held() != 10*mb || b.Peak() != 10*mb {
			t.Fatal(order, b.Held(), b.Peak())
		}
		load("a", 7*mb) // it is counted
		b.Forget(key("nobody"))
		if b.Held() != 11*mb {
			t.Error(b.Held())
		}
	})
}

// Of guests whose journals grow over the budget one goes on to its end, and then the next; one that takes long does not keep the
// others for ever.
func TestGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(10 * mb)
		var mu sync.Mutex // of goes
		goes := map[string]time.Duration{}
		gone := func() int {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return len(goes)
		}
		began := time.Now()
		for _, id := range []string{"a", "b", "c", "d"} {
			go func() {
				s := b.Share(key(id), 0)
				if s.Grown(growBytes-1) || !s.Grown(growBytes) {
					t.Error("grown", growBytes)
				}
				for bytes := int64(6 * mb); bytes < 10*mb; bytes += mb {
					if err := s.Wait(t.Context(), bytes, nothing); err != nil || s.Grown(bytes) {
						t.Error(err)
					}
				}
				mu.Lock()
				defer mu.Unlock()
				goes[id] = time.Since(began)
			}()
			synctest.Wait()
		}
		if gone() != 2 { // a had room, and b waits for nobody
			t.Fatal(goes)
		}
		<-time.After(patience - lookEvery)
		if gone() != 2 {
			t.Fatal(goes)
		}
		<-time.After(3 * lookEvery)
		if gone() != 3 {
			t.Fatal(goes)
		}
		for _, id := range []string{"a", "b", "c"} {
			b.Forget(key(id))
		}
		synctest.Wait()
		if gone() != 4 || b.Held() != 9*mb {
			t.Fatal(goes, b.Held())
		}
	})
}

// Who waits leaves when the caller ends, or the run is wanted by others.
func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(mb)
		first, second := b.Share(key("first"), 0), b.Share(key("second"), 0)
		if err := first.Wait(t.Context(), 2*mb, nothing); err != nil { // nobody else goes on
			t.Fatal(err)
		}
		wanted := errors.New("wanted")
		if err := second.Wait(t.Context(), 2*mb, func() error { return wanted }); !errors.Is(err, wanted) {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := b.Load(ctx, key("third"), mb); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if len(b.growing)+len(b.loading) > 0 || b.Held() != 4*mb {
			t.Error(len(b.growing), len(b.loading), b.Held())
		}
		if err := second.Wait(ctx, 9*mb, nothing); !errors.Is(err, context.DeadlineExceeded) || b.Held() != 4*mb {
			t.Error("counted for a run that is lost:", err, b.Held())
		}
		if s := b.Share(key("read"), 2*mb); s.Grown(2*mb) || b.Held() != 6*mb {
			t.Error("a journal that was read is counted without waiting:", b.Held())
		}
		b.Forget(key("read"))
		w := &waiter{run: key("fourth"), bytes: mb, goes: make(chan struct{})}
		close(w.goes)
		b.countLocked(w.run, mb)
		if b.leave(w); b.Held() != 4*mb {
			t.Error("what was counted for one that left is", b.Held()-4*mb)
		}
	})
}

func TestNil(t *testing.T) {
	var b *Budget
	s := b.Share(key("a"), 1<<40)
	if b.Load(t.Context(), key("a"), 1<<40) != nil || s.Grown(1<<50) || b.Held() != 0 {
		t.Error("a nil budget has no room")
	}
	b.Forget(key("a"))
}
