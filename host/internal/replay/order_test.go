package replay

import (
	"testing"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// TestReadingBeforeARecordedNow reads the clock of a copy that has a Now entry of a later reading: the earlier
// readings append no entries.
func TestReadingBeforeARecordedNow(t *testing.T) {
	x := &tail{j: &journal.Journal{}, now: 1000}
	x.add(t, journal.Started{RunID: "r", Workflow: "w", Seed: make([]byte, 32), Copied: 2, Rules: journal.RulesNewest}.Entry([]byte("in")))
	x.add(t, store.Entry{Kind: store.KindActivated})
	x.now = 3000
	x.add(t, store.Entry{Kind: store.KindNow, Code: 1000})
	x.now = 3_600_000
	m := x.machine()
	for range 999 {
		m.Now()
	}
	if n := x.j.Len(); n != 3 {
		t.Errorf("after 999 readings the journal has %d entries, want 3", n)
	}
	if got := m.Now(); got != 3_600_000 || x.j.Len() != 4 {
		t.Errorf("reading 1000 gives %d, and the journal has %d entries", got, x.j.Len())
	}
}

// TestOlderDeliveryAfterSetBack takes a sleep that fired before another one which was taken first. In between, the
// clock was set back by a day. The monotonic clock does not jump forward, except in runs with older rules.
func TestOlderDeliveryAfterSetBack(t *testing.T) {
	const day = 86_400_000
	for rules, leaps := range map[int]bool{journal.RulesNewest: false, journal.RulesOrder - 1: true} {
		x := &tail{j: &journal.Journal{}, now: 10 * day}
		x.add(t, journal.Started{RunID: "r", Workflow: "w", Seed: make([]byte, 32), Rules: rules}.Entry([]byte("in")))
		x.add(t, store.Entry{Kind: store.KindActivated})
		m := x.machine()
		must(t, 1)(m.Sleep("a", 1000))
		must(t, 2)(m.Sleep("b", 6000))
		x.now += 6000
		for _, due := range []int64{x.now - 5000, x.now} {
			if err := x.j.FireDue(due); err != nil {
				t.Fatal(err)
			}
		}
		must(t, 2)(m.Await([]int64{2}))
		before := m.MonoNs()
		x.now -= day
		if d := m.MonoNs() - before; d != 0 {
			t.Fatal("set back", d)
		}
		must(t, 1)(m.Await([]int64{1}))
		if d := m.MonoNs() - before; d > 1e9 != leaps {
			t.Errorf("rules %d: the monotonic clock has moved by %d s", rules, d/1e9)
		}
	}
}
