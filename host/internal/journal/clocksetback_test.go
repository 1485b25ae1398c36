package journal

import (
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// TestFrom checks the instant that a wait counts from, step by step, while the host's clock is set during the wait.
func TestFrom(t *testing.T) {
	const began, lag = 100_000, abi.MaxLagMs
	for name, c := range map[string]struct {
		behind int64      // of the entry that began the wait, at time began
		shows  [][3]int64 // the clock, the instant that the wait counts from, and when that may change
	}{
		"nothing":                    {0, [][3]int64{{began, began, 0}, {began + 5000, began, 0}}},
		"set back":                   {0, [][3]int64{{40_000, 40_000, began}, {90_000, 40_000, began}}},
		"set back, twice":            {0, [][3]int64{{40_000, 40_000, began}, {20_000, 20_000, began}, {30_000, 20_000, began}}},
		"behind":                     {0, [][3]int64{{40_000, 40_000, began}, {began, began, 0}, {began + 1, began, 0}}},
		"began behind":               {60_000, [][3]int64{{41_000, 40_000, began}, {99_999, 40_000, began}, {began, began, 0}}},
		"and set back":               {60_000, [][3]int64{{30_000, 30_000, 40_000}, {50_000, 40_000, began}, {began + 7, began, 0}}},
		"began behind, it was right": {60_000, [][3]int64{{50_000, 40_000, began}}},
		"less than guests may lag":   {lag, [][3]int64{{began, began - lag, 0}}},
	} {
		e := &store.Entry{UnixMs: began, BehindMs: c.behind}
		counts := e.HostMs()
		for _, s := range c.shows {
			var restore int64
			counts, restore = from(e, counts, s[0])
			if counts != s[1] || restore != s[2] {
				t.Errorf("%s: at %d it counts from %d until %d, want %d until %d", name, s[0], counts, restore, s[1], s[2])
			}
		}
	}
}

// TestClockWasSet sets the host's clock while two sleeps (one of them until an instant), a timeout and a retry are
// open: one entry moves them all, and a journal loaded from the store wakes at the same time.
func TestClockWasSet(t *testing.T) {
	j, err := Begin(&Started{RunID: "r", Workflow: "w", Rules: RulesNewest}, nil, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	add := func(e store.Entry) {
		t.Helper()
		if _, err := j.Append(e, 100_000); err != nil {
			t.Fatal(err)
		}
	}
	add(store.Entry{Kind: store.KindActivated})
	add(store.Entry{Kind: store.KindSleep, Name: "for", Handle: 1, DueUnixMs: 160_000, HasDue: true})
	add(store.Entry{Kind: store.KindSleep, Name: "until", Handle: 2, DueUnixMs: 150_000, HasDue: true, Code: SleepsUntil})
	add(store.Entry{Kind: store.KindSignalWait, Name: "s", Handle: 3, DueUnixMs: 170_000, HasDue: true})
	add(store.Entry{Kind: store.KindStep, Name: "try", Handle: 4, Target: "host/x"})
	add(store.Entry{Kind: store.KindAttemptStarted, Handle: 4, Attempt: 1})
	add(store.Entry{Kind: store.KindAttemptFailed, Handle: 4, Attempt: 1, DueUnixMs: 180_000, HasDue: true})
	at := func(now int64, entries int, dues ...int64) {
		t.Helper()
		before := j.Len()
		for range 3 { // once is enough
			if err := j.FireDue(now); err != nil {
				t.Fatal(err)
			}
		}
		read := &Journal{}
		for _, e := range j.All() {
			if err := read.Load(e); err != nil {
				t.Fatal(err)
			}
		}
		for _, x := range []*Journal{j, read} {
			for i, due := range dues {
				h := x.Handle(int64(i + 1))
				got := h.DueUnixMs
				if h.Step != nil {
					got = h.Step.RetryMs
				}
				if got != due {
					t.Errorf("at %d handle %d is due at %d, want %d", now, h.ID, got, due)
				}
			}
		}
		if j.Len()-before != entries {
			t.Errorf("at %d there are %d entries more, want %d", now, j.Len()-before, entries)
		}
	}
	at(100_500, 0, 160_000, 150_000, 170_000, 180_000)
	at(99_500, 0, 160_000, 150_000, 170_000, 180_000) // by less than guests may lag
	at(20_000, 1, 80_000, 150_000, 90_000, 100_000)
	at(25_000, 0, 80_000, 150_000, 90_000, 100_000)
	at(10_000, 1, 70_000, 150_000, 80_000, 90_000)
	at(100_000, 1, 160_000, 150_000, 170_000, 180_000) // it had been behind
}
