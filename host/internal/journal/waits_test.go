package journal

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/cost"
	"github.com/wfhost/wfhost/store"
)

// searched returns the deliveries that follow from an entry, found by searching all pending signals and open waits.
func searched(j *Journal) (list []store.Entry) {
	taken := map[store.Seq]bool{}
	var open []*Handle
	for i := range j.handles {
		if h := &j.handles[i]; h.Bound {
			taken[h.Signal] = true
		} else if h.Kind == store.KindSignalWait && h.Open() {
			open = append(open, h)
		}
	}
	for _, e := range j.Entries() {
		if e.Kind != store.KindSignalAccepted || taken[e.Seq] {
			continue
		}
		i := slices.IndexFunc(open, func(h *Handle) bool { return h.Name == e.Name })
		if i >= 0 {
			list = append(list, store.Entry{Kind: store.KindSignal, Handle: open[i].ID, Ref: e.Seq})
			open = slices.Delete(open, i, i+1)
		}
	}
	return list
}

// TestSignalsMeetWaits has signals arrive, waits open, time out and be withdrawn, and runs fail and be retried, in
// any order: the journal binds what a search through all pending signals and open waits finds.
func TestSignalsMeetWaits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := &Journal{}
		now := int64(1000)
		for _, e := range []store.Entry{(Started{RunID: "r", Workflow: "w"}).Entry(nil), {Kind: store.KindActivated}} {
			if _, err := j.Append(e, now); err != nil {
				t.Fatal(err)
			}
		}
		name := rapid.SampledFrom([]string{"a", "b", "c", abi.UpdatePrefix + "u"})
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.Int64Range(0, 3).Draw(t, "time")
			if err := j.FireDue(now); err != nil {
				t.Fatal(err)
			}
			e := store.Entry{Kind: store.KindSignalAccepted, Name: name.Draw(t, "name")}
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0, 1:
				e.Kind, e.Handle = store.KindSignalWait, int64(len(j.handles)+1)
				if rapid.Bool().Draw(t, "timed") {
					e.HasDue, e.DueUnixMs = true, now+rapid.Int64Range(1, 9).Draw(t, "due")
				}
			case 2:
				if len(j.handles) == 0 {
					continue
				}
				e = store.Entry{Kind: store.KindWithdraw, Handle: rapid.Int64Range(1, int64(len(j.handles))).Draw(t, "handle")}
			case 3:
				if _, err := j.Append(store.Entry{Kind: store.KindFailed, Data: []byte(`{}`)}, now); err != nil {
					t.Fatal(err)
				}
				var err error
				e, err = j.Retry()
				if err != nil {
					t.Fatal(err)
				}
			}
			agrees(t, j, e, now)
		}
	})
}

// agrees appends an entry, and compares what is bound by it with a search in a journal that was loaded up to that
// point.
func agrees(t *rapid.T, j *Journal, e store.Entry, now int64) {
	at := j.Len()
	if _, err := j.Append(e, now); err != nil {
		t.Fatal(err)
	}
	loaded := &Journal{}
	for _, x := range j.All()[:at+1] {
		if err := loaded.Load(x); err != nil {
			t.Fatal(err)
		}
	}
	want := searched(loaded)
	got := slices.Clone(j.All()[at+1:])
	for i := range got {
		got[i] = store.Entry{Kind: got[i].Kind, Handle: got[i].Handle, Ref: got[i].Ref}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("after %+v:\n%v was bound\n%v was found", e, got, want)
	}
	for _, h := range loaded.handles { // what is counted is what there is
		if w := loaded.waits.first(h.Name); h.Open() && h.Kind == store.KindSignalWait && (w == 0 || w > h.ID) {
			t.Fatalf("handle %d is open, the first of its name is %d", h.ID, w)
		}
	}
}

// waiting returns the journal of a run that waits for signals with other names, and has pending signals with yet
// another name.
func waiting(t testing.TB, waits, pending int) (j *Journal, send func(name string)) {
	t.Helper()
	j = begun(t)
	for i := range waits {
		must(t, j, store.Entry{Kind: store.KindSignalWait, Name: fmt.Sprint("w", i), Handle: int64(i + 1)})
	}
	j.Suspend(store.Suspension{Seq: store.Seq(j.Len()), Awaited: []int64{1}})
	send = func(name string) {
		if _, err := j.CheckSignal(name, "", nil); err != nil {
			t.Fatal(err)
		}
		must(t, j, store.Entry{Kind: store.KindSignalAccepted, Name: name})
		if j.Deliverable() {
			t.Fatal("the guest takes it")
		}
	}
	for range pending {
		send("other")
	}
	return j, send
}

func must(t testing.TB, j *Journal, e store.Entry) {
	t.Helper()
	if _, err := j.Append(e, 2000); err != nil {
		t.Fatal(err)
	}
}

// TestCosts measures the cost of each entry for a run that waits for many events.
func TestCosts(t *testing.T) {
	cost.Table(t, []cost.Case{
		{Call: "signal", Of: "open waits of other names and pending signals", Sizes: []int{10, 1000, 4800},
			Setup: func(t testing.TB, n int) func() {
				_, send := waiting(t, n, n)
				return func() { send("other") }
			}},
		{Call: "signal", Of: "pending signals of other names", Sizes: []int{10, 1000, 4800},
			Setup: func(t testing.TB, n int) func() {
				_, send := waiting(t, 10, 0)
				for i := range n {
					send(fmt.Sprint("n", i))
				}
				return func() { send("other") }
			}},
		{Call: "signal wait", Of: "open waits of its name", Sizes: []int{10, 1000, 9000},
			Setup: func(t testing.TB, n int) func() {
				j, _ := waiting(t, n, 0)
				return func() {
					must(t, j, store.Entry{Kind: store.KindSignalWait, Name: "more", Handle: int64(len(j.handles) + 1)})
				}
			}},
		{Call: "signal wait, and its signal", Of: "pending signals of its name", Sizes: []int{200, 1000, 4800},
			Setup: func(t testing.TB, n int) func() {
				j, _ := waiting(t, 10, n)
				return func() {
					must(t, j, store.Entry{Kind: store.KindSignalWait, Name: "other", Handle: int64(len(j.handles) + 1)})
				}
			}},
		{Call: "signal with a key", Of: "keys that are known", Sizes: []int{10, 1000, abi.MaxSignalKeys},
			Setup: func(t testing.TB, n int) func() {
				var k keys
				for i := range n {
					k.add(Key{Name: "s", Key: fmt.Sprint(i)})
				}
				return func() { k.add(Key{Name: "s", Key: fmt.Sprint(n - 1)}) }
			}},
	})
}
