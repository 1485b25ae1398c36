package store

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestPositions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(what string) Position {
			return Position{rapid.OneOf(rapid.Int64(), rapid.Int64Range(-2, 2)).Draw(t, what),
				rapid.StringMatching(`[A-Za-z0-9._:~-]{1,5}`).Draw(t, what+" id")}
		}
		a, b := draw("a"), draw("b")
		if got, err := ParsePosition(a.String()); err != nil || got != a {
			t.Fatal(got, err)
		}
		list := WorkflowTable(3, 5, "w")
		ka, kb := AppendPosition(bytes.Clone(list), a), AppendPosition(bytes.Clone(list), b)
		if bytes.Compare(ka, kb) != a.Compare(b) {
			t.Fatalf("keys %x and %x are not in the order of %v and %v", ka, kb, a, b)
		}
		if got, err := ParseListKey(ka[len(list):]); err != nil || got != a {
			t.Fatal(got, err)
		}
		q := Query{After: &b}
		if q.Beyond(a) != (a.Compare(b) < 0) {
			t.Fatal("newest first")
		}
		q.Oldest = true
		if q.Beyond(a) != (a.Compare(b) > 0) || !(&Query{}).Beyond(a) {
			t.Fatal("oldest first")
		}
		busy := BusyRun{Status: Running, Listed: Waiting, Version: uint32(a.UnixMs), Workflow: b.ID}
		if got, err := DecodeBusy(AppendBusy(nil, &busy)); err != nil || got != busy {
			t.Fatal(got, err)
		}
		var n, twice Tally
		n.Add(Sleeping, a.UnixMs)
		n.Add(Failed, 7)
		counted := Counted{n, a.UnixMs}
		if got, err := DecodeCounted(AppendCounted(nil, &counted)); err != nil || got != counted {
			t.Fatal(got, err)
		}
		twice.Sum(&n)
		twice.Sum(&n)
		if twice.Total() != 2*n.Total() || n.Of([]Status{Failed, Stuck}) != 7 || n.Of(nil) != n.Total() || n.Live() != a.UnixMs {
			t.Fatal(n, twice)
		}
		n.Add(200, 1) // what no release knows is not counted
		ns, workflow, version, err := ParseCountKey(CountKey(1, 9, b.ID, busy.Version))
		if err != nil || ns != 9 || workflow != b.ID || version != busy.Version {
			t.Fatal(ns, workflow, version, err)
		}
		if ns, err := ParseBusyKey(AppendPosition(BusyTable(7, 8), a)); err != nil || ns != 8 {
			t.Fatal(ns, err)
		}
	})
	for _, text := range []string{"", "7", "x.r", ".r", "9223372036854775808.r"} {
		if at, err := ParsePosition(text); err == nil {
			t.Errorf("%q is %v", text, at)
		}
	}
	_, err := ParseListKey(make([]byte, 8))
	_, _, _, err2 := ParseCountKey(make([]byte, 15))
	_, err3 := ParseBusyKey(make([]byte, 19))
	_, err4 := DecodeCounted(AppendCommand(nil, &Command{Data: []byte("x")}))
	for _, err := range []error{err, err2, err3} {
		if !errors.Is(err, ErrCorrupt) {
			t.Error(err)
		}
	}
	if err4 == nil {
		t.Error("a command was taken for counts")
	}
	if a, b := (Attribute{Key: "a", Value: "b"}), (Attribute{Key: "ab"}); bytes.Equal(AttributeTable(0, 0, a), AttributeTable(0, 0, b)) {
		t.Error("two attributes share their keys")
	}
	if PageLimit(-1) != DefaultPage || PageLimit(0) != DefaultPage || PageLimit(7) != 7 || PageLimit(1<<30) != MaxPage {
		t.Error("limits of pages")
	}
}

func TestQueryMatches(t *testing.T) {
	at := func(ms int64) *int64 { return &ms }
	st := RunState{Run: RunKey{ID: "r"}, Workflow: "w", Status: Failed, CreatedUnixMs: 5, WakeUnixMs: 9,
		Attributes: []Attribute{{"a", "1"}, {"b", "2"}}}
	for i, c := range []struct {
		q    Query
		want bool
	}{
		{Query{}, true}, {Query{Namespace: 1}, false}, {Query{Workflow: "w", Statuses: []Status{Stuck, Failed}}, true},
		{Query{Workflow: "v"}, false}, {Query{Statuses: []Status{Stuck}}, false}, {Query{CreatedFrom: at(5)}, true},
		{Query{CreatedFrom: at(6)}, false}, {Query{CreatedBefore: at(6)}, true}, {Query{CreatedBefore: at(5)}, false},
		{Query{Attributes: []Attribute{{"b", "2"}}}, true}, {Query{Attributes: []Attribute{{"b", "2"}, {"a", "2"}}}, false},
		{Query{Ranges: []Range{{"b", TypeInt, 2, 2}, {"a", TypeInt, 0, 5}}}, true}, {Query{Ranges: []Range{{"b", TypeInt, 3, 9}}}, false},
		{Query{Ranges: []Range{{"b", TypeTime, 0, 9}}}, false}, {Query{Ranges: []Range{{"c", TypeInt, 0, 9}}}, false},
	} {
		if c.q.Matches(&st) != c.want {
			t.Error(i, c.q)
		}
	}
	timers := TimerQuery{UntilMs: 9}
	if timers.Matches(&st) {
		t.Error("a failed run has a timer")
	}
	st.Status = Waiting
	if !timers.Matches(&st) {
		t.Error("a run that waits has no timer")
	}
	st.WakeUnixMs = 10
	if timers.Matches(&st) {
		t.Error("a timer that is too late")
	}
	st.Deleted = true
	if (&Query{}).Matches(&st) {
		t.Error("a deleted run")
	}
}

// lister is a list of n runs, two on a page.
type lister int

func (n lister) List(_ context.Context, q Query) (p Page, err error) {
	first := int64(0)
	if q.After != nil {
		first = q.After.UnixMs
	}
	if first == 4 {
		return p, ErrFailed
	}
	for i := first; i < min(first+2, int64(n)); i++ {
		p.Runs = append(p.Runs, RunState{CreatedUnixMs: i})
	}
	if first+2 < int64(n) {
		p.Next = &Position{UnixMs: first + 2}
	}
	return p, nil
}

func TestRuns(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx         context.Context
		runs, limit int
		want        int
		err         error
	}{{t.Context(), 4, 0, 4, nil}, {t.Context(), 3, 0, 3, nil}, {t.Context(), 0, 0, 0, nil}, {t.Context(), 4, 3, 3, nil},
		{t.Context(), 9, 2, 2, nil}, {t.Context(), 9, 4, 4, nil}, {t.Context(), 9, 0, 4, ErrFailed}, {ended, 9, 0, 0, context.Canceled}} {
		n := 0
		var failed error
		for st, err := range Runs(c.ctx, lister(c.runs), Query{}, c.limit) {
			failed = err
			if err == nil {
				if st.CreatedUnixMs != int64(n) {
					t.Errorf("%+v: run %d is %d", c, n, st.CreatedUnixMs)
				}
				n++
			}
		}
		if n != c.want || !errors.Is(failed, c.err) {
			t.Errorf("%+v: %d runs, %v", c, n, failed)
		}
	}
	for range Runs(t.Context(), lister(4), Query{}, 0) {
		break
	}
}

// A list of statuses from a user may be as long as a request: each status is processed once.
func TestDistinct(t *testing.T) {
	long := append(slices.Repeat([]Status{Running}, 1000), slices.Repeat([]Status{Failed, Running, 200, 200}, 1000)...)
	if got := Distinct(long); !slices.Equal(got, []Status{Running, Failed, 200}) {
		t.Error(got)
	}
	if got := Distinct(nil); len(got) != 0 {
		t.Error(got)
	}
}
