package guest

import (
	"slices"
	"testing"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// A snapshot can be used with a longer journal, but not with one that is shorter, of another attempt, or changed.
func TestPassed(t *testing.T) {
	started := journal.Started{RunID: "r", Incarnation: "i", Module: "m", Version: 1, Seed: []byte{1}}
	entries := []store.Entry{{Seq: 1, Kind: store.KindStarted, UnixMs: 5}, {Seq: 2, Kind: store.KindSleep, Handle: 1, UnixMs: 6},
		{Seq: 3, Kind: store.KindTimer, Handle: 1, UnixMs: 7, Data: []byte("a")}, {Seq: 4, Kind: store.KindWithdraw, Handle: 2, Code: 1, UnixMs: 8}}
	p := newPassed(&started)
	p.See(entries[:2])
	p.See(entries[:2])
	p.See(entries)
	for name, change := range map[string]func(s *journal.Started, list *[]store.Entry){
		"":                 func(*journal.Started, *[]store.Entry) {},
		"longer":           func(_ *journal.Started, l *[]store.Entry) { *l = append(*l, store.Entry{Seq: 5}) },
		"shorter":          func(_ *journal.Started, l *[]store.Entry) { *l = (*l)[:3] },
		"another kind":     func(_ *journal.Started, l *[]store.Entry) { (*l)[2].Kind = store.KindSignal },
		"another handle":   func(_ *journal.Started, l *[]store.Entry) { (*l)[1].Handle = 2 },
		"another time":     func(_ *journal.Started, l *[]store.Entry) { (*l)[2].UnixMs = 8 },
		"another signal":   func(_ *journal.Started, l *[]store.Entry) { (*l)[2].Data = []byte("b") },
		"another seq":      func(_ *journal.Started, l *[]store.Entry) { (*l)[3].Seq = 5 },
		"another answer":   func(_ *journal.Started, l *[]store.Entry) { (*l)[3].Code = 0 },
		"another run":      func(s *journal.Started, _ *[]store.Entry) { s.RunID = "q" },
		"the id again":     func(s *journal.Started, _ *[]store.Entry) { s.Incarnation = "j" },
		"the next one":     func(s *journal.Started, _ *[]store.Entry) { s.Iteration = 1 },
		"a retry":          func(s *journal.Started, _ *[]store.Entry) { s.RunAttempt = 1 },
		"another version":  func(s *journal.Started, _ *[]store.Entry) { s.Version = 2 },
		"another module":   func(s *journal.Started, _ *[]store.Entry) { s.Module = "n" },
		"other randomness": func(s *journal.Started, _ *[]store.Entry) { s.Seed = []byte{2} },
	} {
		s, list := started, slices.Clone(entries)
		change(&s, &list)
		if got, want := p.Begins(&s, list), name == "" || name == "longer"; got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
