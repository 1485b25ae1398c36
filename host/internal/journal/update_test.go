package journal_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

const add = abi.UpdatePrefix + "add"

// TestSet takes an update, gives it back, takes it again and answers it once.
func TestSet(t *testing.T) {
	var s journal.Set
	s.Reply(&store.Entry{Seq: 1, Handle: 1})
	s.Bind(1, 1)
	s.Unbind(1)
	if _, ok := s.Update(add, "a"); ok || s.Bound(1) || s.PendingUpdates() != 0 {
		t.Error("an empty set has something")
	}
	s.Accept(&store.Entry{Seq: 1, Name: "add", Target: "a"})
	if _, ok := s.Update("add", "a"); ok || s.PendingUpdates() != 0 {
		t.Error("a signal is no update")
	}
	s.Accept(&store.Entry{Seq: 2, Name: add, Target: "a"})
	s.Accept(&store.Entry{Seq: 3, Name: abi.UpdatePrefix + "other", Target: "a"})
	s.Bind(2, 7)
	s.Unbind(7)
	s.Reply(&store.Entry{Seq: 4, Handle: 7}) // which brings nothing any more
	s.Bind(2, 8)
	s.Reply(&store.Entry{Seq: 5, Handle: 8})
	s.Reply(&store.Entry{Seq: 6, Handle: 8})
	if u, ok := s.Update(add, "a"); !ok || u != (journal.Update{Accepted: 2, Reply: 5}) || s.Bound(8) {
		t.Errorf("%+v %v", u, ok)
	}
	if u, ok := s.Update(abi.UpdatePrefix+"other", "a"); !ok || u != (journal.Update{Accepted: 3}) || s.PendingUpdates() != 1 {
		t.Errorf("%+v %v, %d pending", u, ok, s.PendingUpdates())
	}
}

// TestSetPending counts unanswered updates, for events in any order.
func TestSetPending(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s journal.Set
		accepted, taken, replied := map[store.Seq]bool{}, map[int64]store.Seq{}, map[store.Seq]bool{}
		handle := int64(0)
		for seq := store.Seq(1); seq < 60; seq++ {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				s.Accept(&store.Entry{Seq: seq, Name: add, Target: fmt.Sprint(seq)})
				accepted[seq] = true
			case 1:
				at := rapid.Custom(func(t *rapid.T) store.Seq { return store.Seq(rapid.IntRange(1, 60).Draw(t, "seq")) }).Draw(t, "at")
				handle++
				if s.Bind(at, handle); accepted[at] {
					taken[handle] = at
				}
			case 2:
				h := rapid.Int64Range(1, handle+1).Draw(t, "handle")
				s.Unbind(h)
				delete(taken, h)
			case 3:
				h := rapid.Int64Range(1, handle+1).Draw(t, "handle")
				at, ok := taken[h]
				if want := ok && !replied[at]; s.Bound(h) != want {
					t.Fatalf("handle %d: taken is %v", h, !want)
				}
				if s.Reply(&store.Entry{Seq: seq, Handle: h}); ok {
					replied[at] = true
				}
			}
			if got := s.PendingUpdates(); got != len(accepted)-len(replied) {
				t.Fatalf("%d pending of %d, %d are answered", got, len(accepted), len(replied))
			}
		}
		for at := range accepted {
			if u, ok := s.Update(add, fmt.Sprint(at)); !ok || u.Accepted != at || (u.Reply != 0) != replied[at] {
				t.Fatalf("%d: %+v %v", at, u, ok)
			}
		}
	})
}
