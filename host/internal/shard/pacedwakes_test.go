package shard

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// ration lets each namespace wake the given number of runs.
type ration map[uint32]int

func (r ration) Wake(ns uint32, _, _ int64) bool {
	if r[ns] == 0 {
		return false
	}
	r[ns]--
	return true
}

func (r ration) NextWake(ns uint32, _ int64) int64 { return 1000 * int64(ns) }

func (r ration) May(uint32, int64) bool { return true }

func (r ration) Wrote(uint32, int, int64) {}

func of(ns store.NamespaceID, id string) TimerKey {
	return TimerKey{store.WakeRun, store.RunKey{Namespace: ns, ID: id}}
}

// TestPaced holds back runs of a namespace at its limit: the run that was due first continues first, and runs of
// other namespaces go before it.
func TestPaced(t *testing.T) {
	r := ration{1: 1, 2: 99}
	s := newWakeTimers(1, r)
	for i := range 4 {
		s.Put(of(1, fmt.Sprint("a", i)), int64(i))
	}
	s.Put(of(2, "b"), 9)
	s.Put(of(3, "c"), 9)
	s.Put(TimerKey{Kind: store.WakeSchedule, Run: store.RunKey{Namespace: 1, ID: "s"}}, 9) // is no wake of a run
	pop := func() (ids []string) {
		for k, _, ok := s.Pop(10); ok; k, _, ok = s.Pop(10) {
			ids = append(ids, k.Run.ID)
		}
		return ids
	}
	want := func(got []string, ids ...string) {
		t.Helper()
		if !slices.Equal(got, ids) {
			t.Errorf("woken: %q, want %q", got, ids)
		}
	}
	want(pop(), "a0", "b", "s")
	if at, ok := s.Next(); at != 1000 || !ok || s.Len() != 4 {
		t.Errorf("next at %d, %v, of %d", at, ok, s.Len())
	}
	if due, ok := s.Due(of(1, "a2")); due != 2 || !ok {
		t.Errorf("a2 is due at %d, %v", due, ok)
	}
	s.Put(of(1, "a9"), 1) // behind a1, which was due at the same time
	s.Remove(of(1, "a2"))
	want(pop())
	r[1], r[3] = 2, 1
	want(pop(), "a1", "c", "a9")
	if at, ok := s.Next(); at != 1000 || !ok {
		t.Errorf("next at %d, %v", at, ok)
	}
	s.Again(0, of(1, "a3")) // something has gone wrong with it
	if at, ok := s.Next(); at != againMs || !ok || s.Len() != 1 {
		t.Errorf("next at %d, %v, of %d", at, ok, s.Len())
	}
	if k, _, ok := s.Pop(againMs); !ok || k != of(1, "a3") {
		t.Errorf("tried again: %v, %v", k, ok)
	}
	if _, ok := s.Next(); ok {
		t.Error("something is left")
	}
}

// TestPacedAgain changes the wake of a run that waits for its namespace.
func TestPacedAgain(t *testing.T) {
	r := ration{}
	s := newWakeTimers(1, r)
	s.Put(of(1, "a"), 1)
	s.Pop(5)
	s.Put(of(1, "a"), 7)
	if due, _ := s.Due(of(1, "a")); due != 7 || s.Len() != 1 {
		t.Errorf("it is due at %d, of %d", due, s.Len())
	}
	if at, ok := s.Next(); at != 7 || !ok {
		t.Errorf("next at %d, %v", at, ok)
	}
}

// TestTurnsOfANamespaceThatDrains wakes the only waiting run of a namespace, and then adds another one.
func TestTurnsOfANamespaceThatDrains(t *testing.T) {
	var p pacedWakes
	r := ration{1: 100, 2: 100}
	p.put(of(1, "a"), 1)
	for i := range 20 {
		p.put(of(2, "b"+strings.Repeat("x", i)), 1)
	}
	var order string
	for range 10 {
		k, _, ok := p.pop(5, r)
		if !ok {
			t.Fatal("none")
		}
		order += k.Run.ID[:1]
		if k.Run.ID == "a" {
			p.put(of(1, "a"), 1)
		}
	}
	if strings.Count(order, "b") < 5 {
		t.Error(order)
	}
}
