package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/pebblestore"
)

// onDisk opens a host over a data directory at a time after the epoch. The host runs until stop is called or the test
// ends.
func onDisk(t *testing.T, dir string, after time.Duration) (h *host.Host, stop func()) {
	t.Helper()
	h, err := host.Open(ctx, host.Config{Dir: dir, Interpreter: true, Drain: -1, Clock: clock.NewFake(hosttest.Epoch.Add(after))})
	do(t, err)
	run, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- h.Run(run) }()
	closed := false
	stop = func() {
		if closed {
			return
		}
		closed = true
		cancel()
		do(t, <-done)
		do(t, h.Close())
	}
	t.Cleanup(stop)
	return h, stop
}

// sound verifies data, and returns the report.
func sound(t *testing.T, path string) *host.VerifyReport {
	t.Helper()
	r, err := host.Verify(ctx, path, host.Config{Interpreter: true}, host.VerifyOptions{})
	do(t, err)
	if !r.Sound() {
		t.Fatalf("%s: %+v", path, r.Problems)
	}
	return r
}

// TestBackupOfARunningHost makes backups while runs are started. Each backup is valid, has all runs that were
// acknowledged before it began, and its runs continue on another host.
func TestBackupOfARunningHost(t *testing.T) {
	data, place := t.TempDir(), filepath.Join(t.TempDir(), "backups")
	h, stop := onDisk(t, data, 0)
	_, err := h.Upload(ctx, "nap", napModule())
	do(t, err)
	const runs, backups = 60, 3
	started := make(chan int, runs)
	go func() {
		defer close(started)
		for i := range runs {
			if _, err := h.StartRaw(ctx, "nap", []byte("240h"), host.WithRunID(fmt.Sprint("r", i))); err != nil {
				t.Error(err)
			}
			started <- i
		}
	}()
	acknowledged := map[string]int{} // minimum number of runs in each backup
	for range backups {
		n := 0
		for range runs / backups / 2 {
			n = <-started + 1
		}
		made, err := h.Backup(ctx, place, host.BackupOptions{BytesPerSecond: -1})
		do(t, err)
		acknowledged[made.Dir] = n
	}
	for range started {
	}
	last, err := h.Backup(ctx, place, host.BackupOptions{})
	do(t, err)
	acknowledged[last.Dir] = runs
	if _, err := host.Verify(ctx, data, host.Config{}, host.VerifyOptions{}); !errors.Is(err, host.ErrLocked) {
		t.Errorf("verifying what a host has open: %v", err)
	}
	stop()
	for dir, least := range acknowledged {
		if r := sound(t, dir); r.Runs < int64(least) || r.Replayed != r.Runs || r.Backup != dir {
			t.Errorf("%d runs were acknowledged, the report is %+v", least, r)
		}
	}
	offline, err := host.BackupDir(ctx, host.Config{Dir: data, Clock: clock.NewFake(hosttest.Epoch.Add(time.Hour))}, place, host.BackupOptions{})
	do(t, err)
	if r := sound(t, place); r.Runs != runs || r.Backup != offline.Dir {
		t.Errorf("of the newest: %+v", r)
	}
	to := filepath.Join(t.TempDir(), "new")
	_, err = host.Restore(ctx, place, to, host.RestoreOptions{})
	do(t, err)
	sound(t, to)
	again, _ := onDisk(t, to, time.Hour)
	_, err = again.Wake(ctx, "r7", "")
	do(t, err)
	if r, err := again.Wait(ctx, "r7"); err != nil || r.Status != host.Completed {
		t.Errorf("the run goes on as %s, %v", r.Status, err)
	}
	var stream bytes.Buffer
	if err := again.WriteBackup(ctx, &stream, host.BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	_, err = host.RestoreFrom(ctx, &stream, other, host.RestoreOptions{})
	do(t, err)
	sound(t, other)
}

// TestCopyDoesNotAct restores a copy whose runs are overdue. It can be read, but no run acts, even when it is opened
// again. Until it is released, every change is refused with a sentence.
func TestCopyDoesNotAct(t *testing.T) {
	data, place := t.TempDir(), filepath.Join(t.TempDir(), "backups")
	h, stop := onDisk(t, data, 0)
	_, err := h.Upload(ctx, "nap", napModule())
	do(t, err)
	_, err = h.Upload(ctx, "spare", napModule())
	do(t, err)
	_, err = h.StartRaw(ctx, "nap", []byte("1h"), host.WithRunID("soon"))
	do(t, err)
	_, err = h.StartRaw(ctx, "nap", []byte("240h"), host.WithRunID("late"))
	do(t, err)
	_, err = h.StartRaw(ctx, "nap", []byte("1h"), host.WithRunID("ended"))
	do(t, err)
	do(t, h.Terminate(ctx, "ended"))
	do(t, h.Retentions().Set(ctx, host.Retention{Terminated: host.MinRetention}))
	_, err = h.Backup(ctx, place, host.BackupOptions{})
	do(t, err)
	stop()
	to := filepath.Join(t.TempDir(), "copy")
	_, err = host.Restore(ctx, place, to, host.RestoreOptions{AsCopy: true})
	do(t, err)
	for range 2 {
		c, stop := onDisk(t, to, 2*time.Hour)
		if !c.IsCopy() {
			t.Fatal("it is no copy")
		}
		for what, f := range map[string]func() error{
			"start":            func() error { _, err := c.StartRaw(ctx, "nap", []byte("1h")); return err },
			"upload":           func() error { _, err := c.Upload(ctx, "other", napModule()); return err },
			"cancel":           func() error { _, err := c.Cancel(ctx, "late"); return err },
			"wake":             func() error { _, err := c.Wake(ctx, "late", ""); return err },
			"signal":           func() error { return c.Signal(ctx, "late", "go", 1) },
			"delete":           func() error { return c.Delete(ctx, "late") },
			"sweep":            func() error { _, err := c.Retentions().Sweep(ctx, false); return err },
			"delete a version": func() error { return c.Workflows().DeleteVersion(ctx, "spare", 1) },
		} {
			if err := f(); !errors.Is(err, host.ErrCopy) || !strings.Contains(err.Error(), "wfhost copy release") {
				t.Errorf("%s: %v", what, err)
			}
		}
		if swept, err := c.Retentions().Sweep(ctx, true); err != nil || swept.Deleted != 1 || swept.Runs[0].ID != "ended" {
			t.Errorf("what a sweep would delete: %+v, %v", swept, err)
		}
		if _, _, err := c.WaitIdle(ctx); err != nil {
			t.Error(err)
		}
		for _, id := range []string{"soon", "late"} {
			if r, err := c.Get(ctx, id); err != nil || r.Status != host.Sleeping {
				t.Errorf("%s is %s, %v", id, r.Status, err)
			}
		}
		stop()
	}
	sound(t, to)
	c, stop := onDisk(t, to, 2*time.Hour)
	do(t, c.ReleaseCopy(ctx))
	do(t, c.ReleaseCopy(ctx))
	if r, err := c.Wait(ctx, "soon"); err != nil || r.Status != host.Completed {
		t.Errorf("%s, %v", r.Status, err)
	}
	_, err = c.Cancel(ctx, "late")
	do(t, err)
	stop()
	c, _ = onDisk(t, to, 2*time.Hour)
	if c.IsCopy() {
		t.Error("it is a copy again")
	}
}

// TestVerifyOldStore verifies the store of an old release: before and after a host upgrades it, and after a change to
// a journal that makes its module diverge.
func TestVerifyOldStore(t *testing.T) {
	dir := t.TempDir()
	unpack(t, "testdata/store-190749f/store.tar.gz", dir)
	r, err := host.Verify(ctx, dir, host.Config{}, host.VerifyOptions{})
	if err != nil || len(r.Problems) != 1 || r.Problems[0].Kind != "format" {
		t.Fatalf("%+v, %v", r, err)
	}
	h, err := host.Open(ctx, host.Config{Dir: dir, Clock: clock.NewFake(hosttest.Epoch.Add(30 * time.Minute)), Interpreter: true})
	do(t, err)
	do(t, h.Close())
	if r := sound(t, dir); r.Runs != 15 || r.Replayed != 15 || r.Modules == 0 {
		t.Errorf("%+v", r)
	}

	s, err := pebblestore.Open(filepath.Join(dir, "store"), pebblestore.Options{})
	do(t, err)
	st, err := s.State(ctx, store.RunKey{ID: "told"})
	do(t, err)
	other, err := s.State(ctx, store.RunKey{ID: "asleep"})
	do(t, err)
	p, err := s.Acquire(ctx, st.Run.Partition(), "test", 0)
	do(t, err)
	st.Module, st.Version = other.Module, other.Version
	do(t, p.Commit(ctx, []store.RunCommit{{Run: st.Run, Expect: st.Length, State: st}}))
	do(t, s.Close())
	r, err = host.Verify(ctx, dir, host.Config{Interpreter: true}, host.VerifyOptions{})
	do(t, err)
	if len(r.Problems) != 1 || r.Problems[0].Kind != "replay" || r.Problems[0].Run != "told" || r.Sound() {
		t.Errorf("%+v", r.Problems)
	}
	r, err = host.Verify(ctx, dir, host.Config{}, host.VerifyOptions{NoReplay: true})
	if err != nil || !r.Sound() || r.Replayed != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestVerifyRefuses(t *testing.T) {
	if _, err := host.Verify(ctx, t.TempDir(), host.Config{}, host.VerifyOptions{}); !errors.Is(err, host.ErrNotFound) {
		t.Error(err)
	}
	data, place := t.TempDir(), t.TempDir()
	h, stop := onDisk(t, data, 0)
	made, err := h.Backup(ctx, place, host.BackupOptions{})
	do(t, err)
	stop()
	if _, err := host.Verify(ctx, place, host.Config{}, host.VerifyOptions{Repair: true}); !errors.Is(err, host.ErrInvalid) {
		t.Error(err)
	}
	files, err := os.ReadDir(filepath.Join(made.Dir, "store"))
	do(t, err)
	do(t, os.Truncate(filepath.Join(made.Dir, "store", files[0].Name()), 1))
	if r, err := host.Verify(ctx, place, host.Config{}, host.VerifyOptions{}); err != nil || r.Sound() || r.Problems[0].Kind == "" {
		t.Errorf("%+v, %v", r, err)
	}
	cut := t.TempDir()
	do(t, os.Mkdir(filepath.Join(cut, "restore.partial"), 0o700))
	if _, err := host.Open(ctx, host.Config{Dir: cut}); err == nil || !strings.Contains(err.Error(), "was cut") {
		t.Error(err)
	}
	if _, _, err := host.UpgradeStore(t.TempDir()); !errors.Is(err, host.ErrNotFound) {
		t.Error(err)
	}
	if before, after, err := host.UpgradeStore(data); err != nil || before != after {
		t.Error(before, after, err)
	}
}
