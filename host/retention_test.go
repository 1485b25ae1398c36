package host_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

const day = 24 * time.Hour

// TestRetention sets how long runs are kept, previews the deletions, and performs them.
func TestRetention(t *testing.T) {
	l := newLab(t)
	for i := range 5 { // one a day; each ends at once
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
		swept, err := l.Retentions().Sweep(ctx, dry)
		do(t, err)
		if swept.Deleted != deleted || len(swept.Runs) != deleted || swept.Failed != 0 {
			t.Fatalf("%+v, want %d", swept, deleted)
		}
		return swept
	}
	sweep(false, 0)
	do(t, l.Retentions().Set(ctx, host.Retention{Workflow: "until", Completed: 3 * day}))
	do(t, l.Retentions().Set(ctx, host.Retention{Keep: 1}))
	l.Reopen()
	list, err := l.Retentions().List(ctx)
	do(t, err)
	if len(list) != 2 || list[0] != (host.Retention{Keep: 1}) || list[1] != (host.Retention{Workflow: "until", Completed: 3 * day}) {
		t.Fatalf("%+v", list)
	}
	if swept := sweep(true, 3); swept.Runs[0].Workflow != "until" || !swept.Runs[0].Status.Terminal() {
		t.Fatalf("%+v", swept.Runs[0])
	}
	is("r0 r1 r2 r3 r4 ended live")
	l.CrashAt(0, true) // in the middle of the sweep
	_, err = l.Retentions().Sweep(ctx, false)
	if !l.Crashed() {
		t.Fatal("it did not crash", err)
	}
	l.Reopen()
	_, err = l.Retentions().Sweep(ctx, false)
	do(t, err)
	is("r3 r4 ended live")
	if _, err := l.Start(ctx, "until", 0, host.WithRunID("r0")); !errors.Is(err, host.ErrConflict) {
		t.Fatal("the id of a deleted run is free at once", err)
	}
	do(t, l.Retentions().Set(ctx, host.Retention{Workflow: "until", Keep: 1}))
	sweep(false, 2)
	is("ended live")
	do(t, l.Retentions().Delete(ctx, "until")) // the retention of all other workflows applies to it
	if err := l.Retentions().Delete(ctx, "until"); !errors.Is(err, host.ErrNotFound) {
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

// TestRetentionByStatus keeps a number of runs per status, across restarts: many completed runs do not displace a
// terminated one.
func TestRetentionByStatus(t *testing.T) {
	l := newLab(t)
	for i := range 3 {
		id := fmt.Sprint("t", i)
		l.begin("until", 300*day.Milliseconds(), host.WithRunID(id))
		l.Settle()
		do(t, l.Terminate(ctx, id))
		l.Advance(time.Second)
	}
	for i := range 5 {
		l.begin("until", 0, host.WithRunID(fmt.Sprint("c", i)))
		l.Advance(time.Second)
	}
	want := host.Retention{Workflow: "until", KeepCompleted: 2, KeepFailed: 3, KeepCancelled: 4, KeepTerminated: 2}
	do(t, l.Retentions().Set(ctx, want))
	l.Reopen()
	list, err := l.Retentions().List(ctx)
	do(t, err)
	if len(list) != 1 || list[0] != want {
		t.Fatalf("%+v", list)
	}
	dry, err := l.Retentions().Sweep(ctx, true)
	do(t, err)
	if dry.Deleted != 4 {
		t.Fatalf("%+v", dry)
	}
	l.CrashAt(0, true) // in the middle of the sweep
	_, err = l.Retentions().Sweep(ctx, false)
	if !l.Crashed() {
		t.Fatal("it did not crash", err)
	}
	l.Reopen()
	_, err = l.Retentions().Sweep(ctx, false)
	do(t, err)
	var ids []string
	for r, err := range l.Runs(ctx, host.Query{Order: host.OldestFirst}) {
		do(t, err)
		ids = append(ids, r.ID)
	}
	if got := strings.Join(ids, " "); got != "t1 t2 c3 c4" {
		t.Fatal(got)
	}
}

func TestRetentionIsRefused(t *testing.T) {
	l := newLab(t)
	for _, r := range []host.Retention{{}, {Workflow: "until"}, {Completed: time.Second}, {Failed: -time.Hour}, {Keep: -1},
		{Keep: host.MaxRetentionKeep + 1}, {KeepCompleted: -1}, {KeepFailed: host.MaxRetentionKeep + 1}, {KeepCancelled: -1},
		{KeepTerminated: -1}, {Workflow: "\n", Keep: 1}} {
		if err := l.Retentions().Set(ctx, r); !errors.Is(err, host.ErrInvalid) {
			t.Errorf("%+v: %v", r, err)
		}
	}
	none, err := l.Namespace(ctx, "nobody")
	do(t, err)
	_, err2 := none.Retentions().List(ctx)
	_, err3 := none.Retentions().Sweep(ctx, true)
	for _, err := range []error{none.Retentions().Set(ctx, host.Retention{Keep: 1}), none.Retentions().Delete(ctx, "a"), err2, err3} {
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

// TestRetentionByDefault deletes runs by Config.Retention if no other retention applies.
func TestRetentionByDefault(t *testing.T) {
	l := newLab(t, hosttest.WithConfig(func(c *host.Config) { c.Retention = host.Retention{Completed: day} }))
	l.begin("until", 0, host.WithRunID("r"))
	l.Settle()
	for i, want := range []int{0, 1, 0} {
		swept, err := l.Retentions().Sweep(ctx, false)
		do(t, err)
		if swept.Deleted != want {
			t.Fatalf("sweep %d: %+v", i, swept)
		}
		l.Advance(day)
	}
}
