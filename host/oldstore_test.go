package host_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/pebblestore"
)

// unpack extracts a compressed archive into a folder.
func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	f, err := os.Open(archive)
	do(t, err)
	defer func() { _ = f.Close() }() // it was read
	z, err := gzip.NewReader(f)
	do(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		do(t, err)
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.FileInfo().IsDir() {
			do(t, os.MkdirAll(path, 0o700))
			continue
		}
		b, err := io.ReadAll(r)
		do(t, err)
		do(t, os.WriteFile(path, b, 0o600))
	}
}

// old is a host over the store that testdata/store-190749f made. Its runs were started at hosttest.Epoch and have
// been at rest since two minutes later.
type old struct {
	*hosttest.Host
	t      *testing.T
	closed bool // the handler of the steps fails
}

// newOld opens a copy of that store some time after it was closed. Unlike the last host of that release, it has the
// handler "absent".
func newOld(t *testing.T, after time.Duration) *old {
	dir := t.TempDir()
	unpack(t, "testdata/store-190749f/store.tar.gz", dir)
	return openOld(t, dir, after)
}

// openOld opens the store in a data directory some time after the epoch.
func openOld(t *testing.T, dir string, after time.Duration) *old {
	o := &old{t: t}
	o.Host = hosttest.New(t, hosttest.WithStart(hosttest.Epoch.Add(after)), hosttest.WithStore(func() store.Store {
		s, err := pebblestore.Open(filepath.Join(dir, "store"), pebblestore.Options{})
		do(t, err)
		return s
	}), hosttest.WithHandlers(func(h *host.Host) {
		pay := func(context.Context, any) (any, error) {
			if o.closed {
				return nil, errors.New("the bank is closed")
			}
			return "paid", nil
		}
		host.HandleStep(h, "charge", pay)
		host.HandleStep(h, "absent", pay)
		host.HandleStep(h, "leave", pay)
	}))
	o.Settle()
	return o
}

// left lists the runs of the store as they were when it was closed.
func left(t *testing.T) string {
	dir := t.TempDir()
	unpack(t, "testdata/store-190749f/store.tar.gz", dir)
	s, err := pebblestore.Open(filepath.Join(dir, "store"), pebblestore.Options{})
	do(t, err)
	var list []string
	for st, err := range store.Runs(ctx, s, store.Query{}, 0) {
		do(t, err)
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s %s", st.Run.ID, st.Status, st.Reason)))
	}
	do(t, s.Close())
	slices.Sort(list)
	return strings.Join(list, "\n")
}

const asLeft = `asleep sleeping
cancelled cancelled
continued sleeping
delayed sleeping until its start
failed failed
kid sleeping
killed running
limited sleeping
listening waiting signal_wait go
overdue sleeping
parent waiting child kid
paused paused
retrying waiting retry of step pay
told completed
unhandled waiting handler missing: host/absent`

// is checks the status of a run.
func (o *old) is(id string, status host.Status) host.Run {
	o.t.Helper()
	r, err := o.Get(ctx, id)
	do(o.t, err)
	if r.Status != status {
		o.t.Errorf("run %s is %s %q after %v, want %s", id, r.Status, r.Reason, o.Clock.Now().Sub(hosttest.Epoch), status)
	}
	return r
}

// ended checks when and with which result a run completed, and that its journal replays to the same end.
func (o *old) ended(id, result string, after time.Duration) {
	o.t.Helper()
	if r := o.is(id, host.Completed); r.Status != host.Completed {
		return
	} else if got := r.Ended.Sub(hosttest.Epoch); got != after {
		o.t.Errorf("run %s has ended after %v, want %v", id, got, after)
	}
	b, err := o.ResultRaw(ctx, id)
	do(o.t, err)
	if string(b) != result {
		o.t.Errorf("run %s has given %s, want %s", id, b, result)
	}
	do(o.t, o.Replay(ctx, id))
}

// to advances the clock to a time after the store was closed.
func (o *old) to(after time.Duration) {
	o.t.Helper()
	o.Advance(hosttest.Epoch.Add(after).Sub(o.Clock.Now()))
}

// TestStoreRaised reports the progress of upgrading an old store, and nothing when the store is opened again.
func TestStoreRaised(t *testing.T) {
	dir := t.TempDir()
	unpack(t, "testdata/store-190749f/store.tar.gz", dir)
	for _, want := range []int{host.NumPartitions + 1, 0} {
		var heard []int
		h, err := host.Open(ctx, host.Config{Dir: dir, Interpreter: true, Events: host.Events{StoreRaised: func(done, total int) {
			heard = append(heard, done)
			if total != host.NumPartitions || done != len(heard)-1 {
				t.Errorf("%d of %d, and before it %v", done, total, heard)
			}
		}}})
		do(t, err)
		do(t, h.Close())
		if len(heard) != want {
			t.Errorf("it was called %d times, want %d", len(heard), want)
		}
	}
}

// TestOldStore opens the store of an old release: each run continues where it was.
func TestOldStore(t *testing.T) {
	const opened = 30 * time.Minute
	want(t, left(t), asLeft)
	o := newOld(t, opened)

	o.ended("overdue", "10m", opened) // it came due while no host was running
	o.ended("unhandled", "", opened)  // its handler is here now
	o.ended("killed", "", opened)     // its host died during the attempt
	o.ended("told", `"before"`, 0)    // it had ended
	o.is("cancelled", host.Cancelled)
	o.is("failed", host.Failed)
	o.is("paused", host.Paused)
	o.is("listening", host.Waiting)
	o.is("retrying", host.Waiting)
	o.is("parent", host.Waiting)
	if r := o.is("asleep", host.Sleeping); r.Attributes["kind"] != "sleeper" ||
		!r.Wake.Equal(hosttest.Epoch.Add(48*time.Hour)) {
		t.Errorf("asleep is %+v", r)
	}
	if r := o.is("continued", host.Sleeping); r.Iteration != 1 {
		t.Errorf("continued is in iteration %d", r.Iteration)
	}

	do(t, o.Signal(ctx, "listening", "go", "after"))
	do(t, o.Retry(ctx, "failed", 0))
	o.Settle()
	o.ended("listening", `"after"`, opened)
	o.ended("failed", "", opened)

	o.closed = true
	o.to(90 * time.Minute) // the second attempt of "retrying" fails, too
	o.is("retrying", host.Waiting)
	o.closed = false
	o.Crash()
	o.to(2*time.Hour - time.Minute)
	o.is("paused", host.Paused) // though its timer is due
	_, err := o.Unpause(ctx, "paused")
	do(t, err)
	o.Settle()
	o.ended("paused", "1h", 2*time.Hour-time.Minute)

	for _, c := range []struct {
		id, result string
		after      time.Duration
	}{{"retrying", "", 2 * time.Hour}, {"delayed", "1h", 25 * time.Hour}, {"continued", "36h", 36 * time.Hour},
		{"asleep", "48h", 48 * time.Hour}, {"parent", "72h", 72 * time.Hour}} {
		o.to(c.after - time.Second)
		if r, err := o.Get(ctx, c.id); err != nil || r.Status.Terminal() {
			t.Errorf("run %s is %s a second before its end: %v", c.id, r.Status, err)
		}
		o.to(c.after)
		o.ended(c.id, c.result, c.after)
	}
	o.ended("kid", "72h", 72*time.Hour)
	if r := o.is("limited", host.Failed); r.Ended.Sub(hosttest.Epoch) != 3*time.Hour {
		t.Errorf("limited has ended at %v", r.Ended)
	}
	want(t, o.states("asleep"), "asleep awake") // once before the store was closed, and once since
}

// states gives the output of a run.
func (o *old) states(id string) string {
	var list []string
	for c, err := range o.Output(ctx, id, "state", 0) {
		do(o.t, err)
		list = append(list, string(c.Data))
	}
	return strings.Join(list, " ")
}

// TestOldStoreGrows changes the store of an old release: a new version, runs of both versions, a deleted and a
// cancelled run. The result is opened once more.
func TestOldStoreGrows(t *testing.T) {
	o := newOld(t, 3*time.Minute)
	v, err := o.Upload(ctx, "nap", napModule())
	do(t, err)
	want(t, v.Number, 2)
	for n := range uint32(2) {
		_, err := o.StartRaw(ctx, "nap", []byte("5m"), host.WithRunID(fmt.Sprint("new", n+1)), host.WithVersion(n+1))
		do(t, err)
	}
	again, err := o.StartRaw(ctx, "nap", []byte("48h"), host.WithRunID("asleep"), host.WithVersion(1))
	do(t, err)
	want(t, again.Existed, true)
	do(t, o.Delete(ctx, "cancelled"))
	_, err = o.Cancel(ctx, "parent")
	do(t, err)
	o.Reopen()
	o.to(8 * time.Minute)
	o.ended("new1", "5m", 8*time.Minute)
	o.ended("new2", "", 8*time.Minute)
	o.is("kid", host.Cancelled)
	if _, err := o.Get(ctx, "cancelled"); !errors.Is(err, host.ErrNotFound) {
		t.Errorf("a deleted run: %v", err)
	}
}

// TestBackupOfOldStore backs up data in an earlier format: the backup keeps that format, so that the earlier release
// can restore it. This release upgrades it when it is opened, and not before.
func TestBackupOfOldStore(t *testing.T) {
	dir, place, to := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "data")
	unpack(t, "testdata/store-190749f/store.tar.gz", dir)
	_, err := host.BackupDir(t.Context(), host.Config{Dir: dir}, place, host.BackupOptions{})
	do(t, err)
	_, err = host.Restore(t.Context(), place, to, host.RestoreOptions{})
	do(t, err)
	was, err := host.InspectData(dir, 0)
	do(t, err)
	restored, err := host.InspectData(to, 0)
	do(t, err)
	if was.Format == 0 || was.Format >= host.StoreFormat || restored.Format != was.Format {
		t.Errorf("the store has format %d, and restored %d", was.Format, restored.Format)
	}
	o := openOld(t, to, time.Hour)
	do(t, o.Close())
	if now, err := host.InspectData(to, 0); err != nil || now.Format != host.StoreFormat {
		t.Errorf("it was opened, and has format %d, %v", now.Format, err)
	}
}
