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

	"github.com/wfhost/wfhost/store"
)

func key(id string) store.RunKey { return store.RunKey{ID: id} }

const mb = 1 << 20

func nothing() error { return nil }

// Runs are read while there is room, and the others when there is room again.
func TestLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewJournals(10*mb, nil)
		var mu sync.Mutex // guards order: two runs may be let in at a time
		var order []string
		load := func(id string, bytes int64) {
			go func() {
				if err := b.Load(t.Context(), JournalGroup{}, key(id), bytes); err != nil {
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
		if len(order) != 3 || b.Bytes() != 10*mb {
			t.Fatal(order, b.Bytes())
		}
		first := key("a")
		b.first, b.passed = &first, time.Now() // one goes on over the budget already
		load("c", 2*mb)
		load("d", 2*mb)
		if len(order) != 3 {
			t.Fatal("read without room:", order)
		}
		b.Forget(key("b"))
		synctest.Wait()
		if len(order) != 5 || b.Bytes() != 10*mb || b.Peak() != 10*mb {
			t.Fatal(order, b.Bytes(), b.Peak())
		}
		load("a", 7*mb) // it is counted
		b.Forget(key("nobody"))
		if b.Bytes() != 11*mb {
			t.Error(b.Bytes())
		}
	})
}

// When journals exceed the budget, one guest at a time continues to its end. If that takes long, the others continue
// a piece now and then, more rarely the more all of them hold.
func TestGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewJournals(10*mb, nil)
		var mu sync.Mutex // of goes
		goes := map[string]time.Duration{}
		var pieces atomic.Int32 // of c
		gone := func() int {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return len(goes)
		}
		began := time.Now()
		for _, id := range []string{"a", "b", "c", "d"} {
			<-time.After(grantEvery) // each gives up its instance before the next one asks
			go func() {
				s := b.Share(JournalGroup{}, key(id), 0)
				if s.Grown(pieceBytes-1) || !s.Grown(growBytes) {
					t.Error("grown", growBytes)
				}
				for bytes := int64(6 * mb); bytes < 10*mb; bytes += mb {
					if err := grow(t.Context(), &s, bytes); err != nil {
						t.Error(err)
					}
					if id == "c" {
						pieces.Add(1)
					}
				}
				mu.Lock()
				defer mu.Unlock()
				goes[id] = time.Since(began)
			}()
			synctest.Wait()
		}
		if gone() != 2 { // a had room, and b is the first run over the budget
			t.Fatal(goes)
		}
		<-time.After(patience<<mostPatience - 4*grantEvery) // they hold three times what they should
		if gone() != 2 || pieces.Load() > 0 {
			t.Fatal(goes, pieces.Load())
		}
		<-time.After(6 * grantEvery)
		if gone() != 2 || pieces.Load() != 1 { // b is still there, so c continues a piece, and then waits behind d
			t.Fatal(goes, pieces.Load())
		}
		for _, id := range []string{"a", "b"} {
			b.Forget(key(id))
		}
		if gone() != 3 || goes["d"] == 0 { // d continues to its end in place of b
			t.Fatal(goes)
		}
		b.Forget(key("d"))
		if gone() != 4 || b.Bytes() != 9*mb {
			t.Fatal(goes, b.Bytes())
		}
	})
}

// grow waits as an activation does: when it is told to, it gives up its instance, and continues in another one.
func grow(ctx context.Context, s *JournalShare, bytes int64) error {
	err := s.Wait(ctx, bytes, nothing)
	if !errors.Is(err, ErrJournalsFull) {
		return err
	}
	begun := make(chan struct{})
	*s = s.b.Share(s.of, s.run, bytes)
	if s.AskToGrow(func() { close(begun) }, func() { close(begun) }) != nil {
		<-begun
	}
	return nil
}

// A waiter leaves when its context ends, or when the run is needed by another caller.
func TestRoomLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewJournals(mb, nil)
		first, second := b.Share(JournalGroup{}, key("first"), 0), b.Share(JournalGroup{}, key("second"), 0)
		if err := first.Wait(t.Context(), 2*mb, nothing); err != nil { // nobody else goes on
			t.Fatal(err)
		}
		wanted := errors.New("wanted")
		if err := second.Wait(t.Context(), 2*mb, func() error { return wanted }); !errors.Is(err, wanted) {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := b.Load(ctx, JournalGroup{}, key("third"), mb); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if len(b.growing)+len(b.loading) > 0 || b.Bytes() != 4*mb {
			t.Error(len(b.growing), len(b.loading), b.Bytes())
		}
		if err := second.Wait(ctx, 9*mb, nothing); !errors.Is(err, context.DeadlineExceeded) || b.Bytes() != 4*mb {
			t.Error("counted for a run that is lost:", err, b.Bytes())
		}
		if s := b.Share(JournalGroup{}, key("read"), 2*mb); s.Grown(2*mb) || b.Bytes() != 6*mb {
			t.Error("a journal that was read is counted without waiting:", b.Bytes())
		}
		b.Forget(key("read"))
		w := &journalWaiter{run: key("fourth"), bytes: mb, goes: make(chan struct{})}
		close(w.goes)
		b.countLocked(w.run, mb)
		if b.leave(w); b.Bytes() != 4*mb {
			t.Error("what was counted for one that left is", b.Bytes()-4*mb)
		}
	})
}

func TestNil(t *testing.T) {
	var b *Journals
	s := b.Share(JournalGroup{}, key("a"), 1<<40)
	if b.Load(t.Context(), JournalGroup{}, key("a"), 1<<40) != nil || s.Grown(1<<50) || b.Bytes() != 0 {
		t.Error("a nil budget has no room")
	}
	b.Forget(key("a"))
}

// Journals of many small entries count the memory of their entries.
func TestSize(t *testing.T) {
	if got := JournalSize(1000, 0); got != 1000 {
		t.Errorf("%d bytes without entries", got)
	}
	if got := JournalSize(1000, 100_000); got < 40<<20 || got > 80<<20 {
		t.Errorf("%d bytes for 100,000 entries, which take some 50 MB", got)
	}
}

// A guest whose journal grows waits while the store is behind. It checks that state, and can be told to leave.
func TestBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var behind atomic.Bool
		behind.Store(true)
		b := NewJournals(10*mb, behind.Load)
		grow := func(id string, ctx context.Context, look func() error) chan error {
			s, done := b.Share(JournalGroup{}, key(id), mb), make(chan error, 1)
			go func() { done <- s.Wait(ctx, 2*mb, look) }()
			synctest.Wait()
			return done
		}
		first := key("passes")
		b.first, b.passed = &first, time.Now() // one goes on over the budget
		ctx, cancel := context.WithCancel(t.Context())
		var looks atomic.Int32
		waits := grow("waits", t.Context(), func() error { looks.Add(1); return nil })
		passes := grow("passes", t.Context(), nothing)
		away := grow("away", ctx, nothing)
		<-time.NewTimer(10 * grantEvery).C
		synctest.Wait()
		cancel()
		if err := <-away; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if len(waits)+len(passes) > 0 || looks.Load() < 5 {
			t.Error("went on", len(waits), len(passes), looks.Load())
		}
		behind.Store(false)
		<-time.NewTimer(2 * grantEvery).C
		synctest.Wait()
		if len(waits)+len(passes) != 2 {
			t.Error("does not go on", len(waits), len(passes))
		}
		if again := grow("again", t.Context(), nothing); len(again) != 1 {
			t.Error("waits for nothing")
		}
	})
}

// While others keep the store behind, waiting guests continue in turn, slowly.
func TestBehindForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewJournals(10*mb, func() bool { return true })
		var went atomic.Int32
		for _, id := range []string{"a", "b", "c"} {
			go func() {
				s := b.Share(JournalGroup{}, key(id), mb)
				if s.Wait(t.Context(), 2*mb, nothing) == nil {
					went.Add(1)
				}
			}()
		}
		for want := int32(0); want <= 3; want++ {
			synctest.Wait()
			if n := went.Load(); n != want {
				t.Fatalf("%d went on after %s, want %d", n, time.Duration(want)*(patience+grantEvery), want)
			}
			<-time.NewTimer(patience + grantEvery).C
		}
	})
}

// TestBeside reads modest journals even while others fill the budget permanently, with a share per workflow. Waiting
// guests continue when one of these runs leaves memory.
func TestBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 48 * mb
		b := NewJournals(limit, nil)
		for i := range 2 {
			b.Share(JournalGroup{}, key(string(rune('A'+i))), 24*mb) // guests that take long
		}
		var read atomic.Int64
		load := func(of JournalGroup, id string, bytes int64) {
			go func() {
				if err := b.Load(t.Context(), of, key(id), bytes); err != nil {
					t.Error(err)
				}
				read.Add(1)
			}()
			synctest.Wait()
		}
		goes := key("A")
		b.first, b.passed = &goes, time.Now() // one goes on over the budget already
		honest, other := JournalGroup{Workflow: "honest"}, JournalGroup{Workflow: "other"}
		for i := range 20 {
			load(honest, "h"+string(rune('a'+i)), mb/2)
		}
		if n := read.Load(); n != 16 { // 8 MiB of them
			t.Fatalf("%d were read", n)
		}
		load(other, "o", mb/2)
		load(other, "large", mb+1)
		if n := read.Load(); n != 17 {
			t.Fatalf("%d were read", n)
		}
		b.Forget(key("ha"))
		b.Forget(key("hb"))
		b.Forget(key("o"))
		synctest.Wait()
		if n := read.Load(); n != 19 || b.beside.held != 8*mb || b.Bytes() != limit+8*mb {
			t.Fatalf("%d were read, %d beside, %d in all", n, b.beside.held, b.Bytes())
		}
		b.Forget(key("A")) // everybody has room
		synctest.Wait()
		if n := read.Load(); n != 22 {
			t.Fatalf("%d were read", n)
		}
		for i := range 20 {
			b.Forget(key("h" + string(rune('a'+i))))
		}
		b.Forget(key("B"))
		b.Forget(key("large"))
		if b.Bytes() != 0 || b.beside.held != 0 || len(b.beside.groups)+len(b.beside.runs) != 0 {
			t.Errorf("%d bytes are held by nobody, %+v", b.Bytes(), b.beside)
		}
	})
}

// TestBesideOfAll bounds the total beside the budget of all workflows.
func TestBesideOfAll(t *testing.T) {
	b := NewJournals(96*mb, nil)
	b.Share(JournalGroup{}, key("A"), 96*mb)
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for ; n < 100 && b.besideLocked(&journalWaiter{run: key(string(rune('a' + n))), group: JournalGroup{Namespace: store.NamespaceID(n)}, bytes: mb}); n++ {
	}
	if n != 32 {
		t.Errorf("%d MiB beside the budget, want 32", n)
	}
}

// A guest that waits for long gives up its instance, and is called when there is room. While many wait, no further
// run of their workflow begins, and far above the budget no new run at all.
func TestRoomTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewJournals(10*mb, nil)
		first := b.Share(JournalGroup{}, key("first"), 0)
		if err := first.Wait(t.Context(), 11*mb, nothing); err != nil {
			t.Fatal(err)
		}
		b.countOf(key("first"), 40*mb) // so that no other run continues a piece
		var begun []string
		begins := func(id string) func() { return func() { begun = append(begun, id) } }
		never := func() { t.Error("refused") }
		grows, honest := JournalGroup{Workflow: "grows"}, JournalGroup{Workflow: "honest"}
		var turns []*JournalWait
		for i := range maxGrowing {
			id := fmt.Sprint("grows-", i)
			s := b.Share(grows, key(id), 0)
			if !s.MayBegin(false) {
				t.Fatal(id, "may not begin")
			}
			go func() {
				at := time.Now()
				if err := s.Wait(t.Context(), smallBytes, nothing); !errors.Is(err, ErrJournalsFull) || time.Since(at) < keepFor {
					t.Error(id, err, time.Since(at))
				}
				again := b.Share(grows, key(id), smallBytes)
				turns = append(turns, again.AskToGrow(begins(id), never))
			}()
			<-time.After(2 * keepFor)
			synctest.Wait()
			if len(turns) != i+1 || turns[i] == nil {
				t.Fatal(id, "does not wait")
			}
		}
		b.countOf(key("first"), 10*mb)
		late, other := b.Share(grows, key("late"), 0), b.Share(honest, key("other"), 0)
		if late.MayBegin(true) || !late.MayBegin(false) || !other.MayBegin(true) {
			t.Fatal("a further one of those that grow may begin, or none of others, or none that wakes")
		}
		b.countOf(key("first"), 40*mb)
		if late.MayBegin(false) {
			t.Fatal("far over the budget, a further one of those that grow wakes")
		}
		held := late.AskToBegin(false, begins("late"), never)
		if other.MayBegin(true) || !other.MayBegin(false) {
			t.Fatal("far over the budget, a run begins, or one that has begun does not wake")
		}
		waits := other.AskToBegin(true, begins("other"), never)
		if held == nil || waits == nil || b.Waiting() != maxGrowing+2 {
			t.Fatal(held, waits, b.Waiting())
		}
		if len(begun) > 0 {
			t.Fatal(begun)
		}
		if !turns[0].Withdraw() || turns[0].Withdraw() { // there is one less that grows
			t.Fatal("withdrawn twice, or not at all")
		}
		<-time.After(2 * patience)
		synctest.Wait()
		if len(begun) != 1 || begun[0] != "late" || held.Withdraw() {
			t.Fatal(begun)
		}
		b.Forget(key("first"))
		<-time.After(patience)
		synctest.Wait()
		if len(begun) != maxGrowing+1 || b.Waiting() != 0 {
			t.Fatal(begun, b.Waiting())
		}
	})
}

// countOf counts a journal.
func (b *Journals) countOf(run store.RunKey, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.countLocked(run, bytes)
}

// All waiters are refused when the host drains.
func TestRefuseAll(t *testing.T) {
	b := NewJournals(mb, nil)
	first, second, third := b.Share(JournalGroup{}, key("first"), 0), b.Share(JournalGroup{}, key("second"), mb), b.Share(JournalGroup{}, key("third"), 0)
	if err := first.Wait(t.Context(), 2*mb, nothing); err != nil {
		t.Fatal(err)
	}
	refused := 0
	never := func() { t.Error("begun") }
	if second.AskToGrow(never, func() { refused++ }) == nil || third.AskToBegin(true, never, func() { refused++ }) == nil {
		t.Fatal("nobody waits")
	}
	b.RefuseAll()
	if refused != 2 || b.Waiting() != 0 {
		t.Error(refused, b.Waiting())
	}
	var none *Journals
	none.RefuseAll()
	s := none.Share(JournalGroup{}, key("any"), 0)
	if !s.MayBegin(true) || s.AskToGrow(never, never) != nil || s.AskToBegin(true, never, never) != nil || none.Waiting() != 0 {
		t.Error("without a budget somebody waits")
	}
}

// A guest whose run was lost, but that has not left yet, does not become the first run: it would never end.
func TestLostWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewJournals(mb, nil)
		first, lost := b.Share(JournalGroup{}, key("first"), 0), b.Share(JournalGroup{}, key("lost"), 0)
		if err := first.Wait(t.Context(), 40*mb, nothing); err != nil {
			t.Fatal(err)
		}
		ctx, halt := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() { left <- lost.Wait(ctx, mb, nothing) }()
		synctest.Wait()
		b.Forget(key("lost"))
		b.Forget(key("first"))
		if b.first != nil {
			t.Error("the lost run is the one that goes on")
		}
		halt()
		<-left
		third := b.Share(JournalGroup{}, key("third"), 0)
		if err := third.Wait(t.Context(), 2*mb, nothing); err != nil || b.first == nil || b.first.ID != "third" {
			t.Error(err, b.first)
		}
	})
}

// A run that has continued as new with a short journal is not counted with its previous journal, and is no longer the
// first run.
func TestContinuedAsNew(t *testing.T) {
	b := NewJournals(mb, nil)
	s := b.Share(JournalGroup{}, key("a"), 0)
	if err := s.Wait(t.Context(), 2*mb, nothing); err != nil || b.first == nil {
		t.Fatal(err, b.first)
	}
	b.Share(JournalGroup{}, key("a"), smallBytes/2)
	if b.Bytes() != 0 || b.first != nil {
		t.Error(b.Bytes(), b.first)
	}
}

// A long journal is read eventually, even if guests with priority keep waiting.
func TestLoadBehindGrowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewJournals(10*mb, nil)
		first := b.Share(JournalGroup{}, key("first"), 0)
		if err := first.Wait(t.Context(), 11*mb, nothing); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		for i := range 3 { // which grow again and again
			go func() {
				for bytes := int64(smallBytes); ctx.Err() == nil; bytes += pieceBytes {
					s := b.Share(JournalGroup{}, key(fmt.Sprint(i)), bytes)
					if err := grow(ctx, &s, bytes); err != nil && ctx.Err() == nil {
						t.Error(err)
					}
				}
			}()
		}
		<-time.After(grantEvery)
		read := make(chan error, 1)
		go func() { read <- b.Load(ctx, JournalGroup{}, key("long"), 2*mb) }()
		select {
		case err := <-read:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * loadPatience * patience):
			t.Error("it is not read")
		}
		stop()
		b.RefuseAll()
		synctest.Wait()
	})
}
