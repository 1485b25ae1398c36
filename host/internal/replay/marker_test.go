package replay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// ruled returns the journal of a run with the given rules.
func ruled(t testing.TB, rules int) *tail {
	x := &tail{j: &journal.Journal{}, now: 1000}
	x.add(t, journal.Started{RunID: "r", Workflow: "w", Seed: make([]byte, 32), Rules: rules}.Entry([]byte("in")))
	x.add(t, store.Entry{Kind: store.KindActivated})
	return x
}

// TestMarkerAskedAgain reads markers repeatedly, live and replayed. The answer is always the first one, whatever
// version the code knows by then, and only the first read appends an entry.
func TestMarkerAskedAgain(t *testing.T) {
	x := ruled(t, journal.RulesNewest)
	ask := func(m *Machine, newest int64) {
		t.Helper()
		for range 3 {
			must(t, 2)(m.Version("tax", newest))
		}
		must(t, 1)(m.Sleep("tax", 5)) // markers have names of their own
		must(t, abi.DuplicateName.Neg())(m.Sleep("tax", 5))
		must(t, 1)(m.Version("sleep", 1))
		must(t, 2)(m.Sleep("sleep", 5))
		must(t, 2)(m.Version("tax", newest))
		must(t, 2)(m.Version("tax", -1))
	}
	ask(x.machine(), 2)
	n := x.j.Len()
	if n != 2+5 {
		t.Errorf("%d entries", n)
	}
	m := x.machine()
	ask(m, 7)
	f := m.Freeze() // between two waits, as after one
	must(t, 2)(f.Thaw(x.machine().cfg).Version("tax", 9))
	if err := x.machine(func(c *Config) { c.Mode = Check }).LeftOver(); err == nil || x.j.Len() != n {
		t.Error(err, x.j.Len())
	}
}

// TestMarkerInOlderJournal reads a marker where an older journal continues without it: the answer is 0, also after
// the journal's end.
func TestMarkerInOlderJournal(t *testing.T) {
	for _, rules := range []int{0, journal.RulesNewest} {
		x := ruled(t, rules)
		must(t, 1)(x.machine().Sleep("a", 5))
		for range 3 { // live, then replayed
			m := x.machine()
			must(t, 0)(m.Version("late", 3))
			must(t, 1)(m.Sleep("a", 5))
			must(t, 0)(m.Version("late", 3))
			must(t, 3)(m.Version("new", 3))
			must(t, 3)(m.Version("new", 4))
			must(t, 0)(m.Version("late", 4))
		}
	}
}

// TestMarkerRecordedLater reads a marker at an earlier place than the code that made the journal: the recorded
// version counts from its entry on.
func TestMarkerRecordedLater(t *testing.T) {
	x := ruled(t, journal.RulesNewest)
	m := x.machine()
	must(t, 1)(m.Sleep("a", 5))
	must(t, 1)(m.Version("tax", 1))
	must(t, 2)(m.Sleep("b", 5))
	m = x.machine()
	must(t, 0)(m.Version("tax", 1))
	must(t, 1)(m.Sleep("a", 5))
	must(t, 1)(m.Version("tax", 1))
	must(t, 2)(m.Sleep("b", 5))
	must(t, 1)(m.Version("tax", 1))
}

// TestMarkerUnderOlderRules replays a second read that older rules refused, and answers the next one correctly.
func TestMarkerUnderOlderRules(t *testing.T) {
	x := ruled(t, journal.RulesSize)
	must(t, 1)(x.machine().Version("tax", 1))
	refusal := `{"code":"DUPLICATE_NAME","message":"used twice"}`
	x.add(t, store.Entry{Kind: store.KindMarker, Name: "tax", Refused: int32(abi.DuplicateName), Data: []byte(refusal)})
	for range 2 { // live, then replayed
		m := x.machine()
		must(t, 1)(m.Version("tax", 1))
		must(t, abi.DuplicateName.Neg())(m.Version("tax", 1))
		if string(m.Last()) != refusal {
			t.Errorf("%s", m.Last())
		}
		must(t, 1)(m.Version("tax", 2))
		must(t, 1)(m.Sleep("tax", 5))
		must(t, 1)(m.Version("tax", 2))
	}
	if n := x.j.Len(); n != 2+5 {
		t.Errorf("%d entries", n)
	}
	x = ruled(t, journal.RulesSize) // code that reads twice where the journal has one read, and then continues without
	m := x.machine()
	must(t, 1)(m.Version("tax", 1))
	must(t, 1)(m.Sleep("a", 5))
	m = x.machine()
	must(t, 1)(m.Version("tax", 1))
	must(t, 0)(m.Version("tax", 1))
	must(t, 1)(m.Sleep("a", 5))
	must(t, 1)(m.Version("tax", 1))
}

// TestBadMarkers refuses invalid ids and versions each time. Where an older journal continues, they get 0, and are
// not remembered.
func TestBadMarkers(t *testing.T) {
	for id, n := range map[string]int64{"": 1, strings.Repeat("n", abi.MaxNameBytes+1): 1, "a\xff": 1, "host/x": 1, "x": -1, "y": 1 << 31} {
		x := ruled(t, journal.RulesNewest)
		must(t, 1)(x.machine().Sleep("a", 5))
		for range 2 { // live, then replayed
			m := x.machine()
			must(t, 0)(m.Version(id, n))
			must(t, 1)(m.Sleep("a", 5))
			for range 2 {
				must(t, abi.InvalidArgument.Neg())(m.Version(id, n))
			}
			must(t, 1)(m.Version("x", 1))
			must(t, 1)(m.Version(strings.Repeat("n", abi.MaxNameBytes), 1))
			must(t, 1)(m.Version("a\ufffd", 1))
		}
	}
}

// TestMarkersAreBounded reads very many markers in a journal that has none.
func TestMarkersAreBounded(t *testing.T) {
	for _, rules := range []int{journal.RulesSize, journal.RulesNewest} {
		x := ruled(t, rules)
		must(t, 1)(x.machine().Sleep("a", 5))
		m := x.machine()
		for i := range abi.MaxUnrecordedMarkers {
			must(t, 0)(m.Version(fmt.Sprint("m", i), 1))
		}
		want := abi.Limit.Neg()
		if rules < journal.RulesMarkers {
			want = 0
		}
		must(t, want)(m.Version("one more", 1))
		must(t, 0)(m.Version("m7", 1))
		must(t, 1)(m.Sleep("a", 5))
		must(t, 0)(m.Version("m7", 1))
		if n := len(m.markers.answers); n > abi.MaxUnrecordedMarkers || m.Freeze().Bytes() < int64(n*textBytes) {
			t.Errorf("%d markers are remembered, and count as %d bytes", n, m.Freeze().Bytes())
		}
	}
}
