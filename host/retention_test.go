package host_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/pebblestore"
)

const day = 24 * time.Hour

// TestRetention says how long runs are kept, looks at what that deletes, and deletes it.
func TestRetention(t *testing.T) {
	l := newLab(t)
	for i := range 5 { // one a day, each of which ends at once
		l.begin("until", 0, host.WithRunID(fmt.Sprint("r", i)))
		l.Advance(day)
	}
	l.begin("until", 30*day.Milliseconds(), host.WithRunID("live"))
	_, err := l.Start(ctx, "until", 30*day.Milliseconds(), host.WithRunID("ended"))
	do(t, err)
	l.Settle()
	do(t, l.Terminate(ctx, "ended"))
	is := func(want string) {
		t.Helper()
		var ids []string
		for r, err := range l.Runs(ctx, host.Query{Order: host.OldestFirst}) {
			do(t, err)
			ids = append(ids, r.ID)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	}
	sweep := func(dry bool, deleted int) host.Swept {
		t.Helper()
		swept, err := l.Sweep(ctx, dry)
		do(t, err)
		if swept.Deleted != deleted || len(swept.Runs) != deleted || swept.Failed != 0 {
			t.Fatalf("%+v, want %d", swept, deleted)
		}
		return swept
	}
	sweep(false, 0)
	do(t, l.SetRetention(ctx, host.Retention{Workflow: "until", Completed: 3 * day}))
	do(t, l.SetRetention(ctx, host.Retention{Keep: 1}))
	l.Reopen()
	list, err := l.Retentions(ctx)
	do(t, err)
	if len(list) != 2 || list[0] != (host.Retention{Keep: 1}) || list[1] != (host.Retention{Workflow: "until", Completed: 3 * day}) {
		t.Fatalf("%+v", list)
	}
	if swept := sweep(true, 3); swept.Runs[0].Workflow != "until" || !swept.Runs[0].Status.Terminal() {
		t.Fatalf("%+v", swept.Runs[0])
	}
	is("r0 r1 r2 r3 r4 ended live")
	l.CrashAt(0, true) // in the middle of the sweep
	_, err = l.Sweep(ctx, false)
	if !l.Crashed() {
		t.Fatal("it did not crash", err)
	}
	l.Reopen()
	_, err = l.Sweep(ctx, false)
	do(t, err)
	is("r3 r4 ended live")
	if _, err := l.Start(ctx, "until", 0, host.WithRunID("r0")); !errors.Is(err, host.ErrConflict) {
		t.Fatal("the id of a deleted run is free at once", err)
	}
	do(t, l.SetRetention(ctx, host.Retention{Workflow: "until", Keep: 1}))
	sweep(false, 2)
	is("ended live")
	do(t, l.DeleteRetention(ctx, "until")) // what holds for all others holds for it
	if err := l.DeleteRetention(ctx, "until"); !errors.Is(err, host.ErrNotFound) {
		t.Fatal(err)
	}
	sweep(false, 0)
	l.Advance(31 * day)
	if swept := sweep(false, 1); swept.Forgotten != 5 {
		t.Fatalf("%+v", swept)
	}
	is("live")
	if r := l.begin("until", 0, host.WithRunID("r0")); r != "r0" {
		t.Fatal(r)
	}
}

func TestRetentionIsRefused(t *testing.T) {
	l := newLab(t)
	for _, r := range []host.Retention{{}, {Workflow: "until"}, {Completed: time.Second}, {Failed: -time.Hour}, {Keep: -1},
		{Keep: host.MaxRetentionKeep + 1}, {Workflow: "\n", Keep: 1}} {
		if err := l.SetRetention(ctx, r); !errors.Is(err, host.ErrInvalid) {
			t.Errorf("%+v: %v", r, err)
		}
	}
	none, err := l.Namespace(ctx, "nobody")
	do(t, err)
	_, err2 := none.Retentions(ctx)
	_, err3 := none.Sweep(ctx, true)
	for _, err := range []error{none.SetRetention(ctx, host.Retention{Keep: 1}), none.DeleteRetention(ctx, "a"), err2, err3} {
		if !errors.Is(err, host.ErrNotFound) {
			t.Error(err)
		}
	}
	for _, r := range []host.Retention{{Workflow: "until", Keep: 1}, {Keep: -1}} {
		h, err := host.Open(ctx, host.Config{Dir: t.TempDir(), Retention: r})
		if err == nil {
			err = h.Close()
		}
		if !errors.Is(err, host.ErrInvalid) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// TestRetentionByDefault deletes by Config.Retention what no other retention is for.
func TestRetentionByDefault(t *testing.T) {
	l := newLab(t, hosttest.WithConfig(func(c *host.Config) { c.Retention = host.Retention{Completed: day} }))
	l.begin("until", 0, host.WithRunID("r"))
	l.Settle()
	for i, want := range []int{0, 1, 0} {
		swept, err := l.Sweep(ctx, false)
		do(t, err)
		if swept.Deleted != want {
			t.Fatalf("sweep %d: %+v", i, swept)
		}
		l.Advance(day)
	}
}

// contents is what a store holds, without what is only not yet removed from its files.
type contents struct{ keys, bytes, files int64 }

// measure compacts a store that is closed, and measures it.
func measure(t *testing.T, dir string) (c contents) {
	t.Helper()
	db, err := pebble.Open(dir, &pebble.Options{Logger: silent{}, FormatMajorVersion: pebble.FormatNewest})
	do(t, err)
	do(t, db.Compact(ctx, []byte{0}, []byte{255, 255, 255, 255, 255}, false))
	it, err := db.NewIter(nil)
	do(t, err)
	for ok := it.First(); ok; ok = it.Next() {
		c.keys, c.bytes = c.keys+1, c.bytes+int64(len(it.Key())+len(it.Value()))
	}
	do(t, errors.Join(it.Error(), it.Close(), db.Close()))
	files, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	do(t, err)
	for _, f := range files {
		info, err := os.Stat(f)
		do(t, err)
		c.files += info.Size()
	}
	return c
}

type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

// TestYear starts runs each day of a year, some of them with a large input, and keeps them for 30 days: the store is as large as
// after the days for which something is kept. WFHOST_YEAR_RUNS is the number of runs a day.
func TestYear(t *testing.T) {
	perDay, days := 4, 365
	if text := os.Getenv("WFHOST_YEAR_RUNS"); text != "" {
		n, err := strconv.Atoi(text)
		do(t, err)
		perDay = n
	}
	dir := t.TempDir()
	h := handmade(t, wasmgen.New(0).I32(0), hosttest.WithStore(func() store.Store {
		s, err := pebblestore.Open(dir, pebblestore.Options{NoSync: true})
		do(t, err)
		return s
	}), hosttest.WithConfig(func(c *host.Config) { c.Retention = host.Retention{Completed: 30 * day} }))
	at := map[int]contents{}
	for d := 1; d <= days; d++ {
		for i := range perDay {
			input := []byte("1")
			if i == 0 {
				input = fmt.Appendf(nil, `"%s %d"`, strings.Repeat("x", 300<<10), d)
			}
			_, err := h.StartRaw(ctx, "w", input, host.WithRunID(fmt.Sprintf("%d.%d", d, i)))
			do(t, err)
		}
		h.Settle()
		swept, err := h.Sweep(ctx, false)
		do(t, err)
		if d > 31 && swept.Deleted != perDay || swept.Failed > 0 {
			t.Fatalf("day %d: %+v", d, swept)
		}
		if d == 30 || d == 61 || d == days {
			h.Stop()
			at[d] = measure(t, dir)
			t.Logf("day %d: %+v", d, at[d])
			h.Reopen()
		}
		h.Clock.Advance(day)
	}
	month, steady, year := at[30], at[61], at[days]
	// Ids of later days are longer, and there are some keys for each partition.
	if float64(year.keys) > 1.01*float64(steady.keys) || float64(year.bytes) > 1.01*float64(steady.bytes) ||
		float64(year.files) > 1.1*float64(steady.files) {
		t.Errorf("it grows: %+v after 61 days, %+v after a year", steady, year)
	}
	if float64(year.bytes) > 1.1*float64(month.bytes) { // what is left of 30 days of deleted runs, and the 31st day
		t.Errorf("%+v after 30 days, %+v after a year", month, year)
	}
}
