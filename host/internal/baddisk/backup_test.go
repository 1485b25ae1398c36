package baddisk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store/backup"
	"github.com/wfhost/wfhost/store/pebblestore"
)

// TestBackupOfAFailingDisk has operations of a real disk fail during a backup, with a preallocated log. The backup is
// complete or absent, and the disk has the runs.
func TestBackupOfAFailingDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	cache := t.TempDir()
	total := backupAt(t, cache, &faults{at: -1, healed: true})
	t.Logf("%d operations", total)
	if total < 5 {
		t.Fatal("the backup does too little")
	}
	for at := *first; at < total; at += *stride {
		backupAt(t, cache, &faults{at: at, healed: true})
	}
}

// backupAt makes a backup while one operation of the disk fails. It returns the number of operations.
func backupAt(t *testing.T, cache string, f *faults) (n int) {
	t.Helper()
	dir := t.TempDir()
	data, place := filepath.Join(dir, "store"), filepath.Join(dir, "place")
	m, k := newMachine(t, cache), newKnown()
	m.faults = f
	err := m.open(data, pebblestore.Options{Around: func(fs vfs.FS) vfs.FS { return errorfs.Wrap(fs, f) }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.UploadAll(t.Context(), "", guest(t), host.AllowStep("*")); err != nil {
		t.Fatal(err)
	}
	if err := k.workload(m, "run-"); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	f.healed = false
	f.mu.Unlock()
	within(t, "the backup", f, func() { _, err = m.Backup(t.Context(), place, host.BackupOptions{BytesPerSecond: -1}) })
	n = f.heal()
	clean(t, f, err)
	if _, made := backup.Latest(place); (made == nil) != (err == nil) {
		t.Fatalf("%v: the backup says %v, and the place %v", f, err, made)
	}
	_, startErr := m.Start(t.Context(), "iterate", 1, host.WithRunID("after"))
	clean(t, f, startErr)
	if startErr == nil {
		k.Started["after"] = true
	}
	clean(t, f, m.close())
	// A failed store keeps its lock until its process ends.
	copied := filepath.Join(dir, "copy")
	if err := os.CopyFS(copied, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	report, checkErr := pebblestore.Check(t.Context(), copied, pebblestore.CheckOptions{})
	if checkErr != nil || len(report.Problems) > 0 {
		t.Fatalf("%v: %v %+v", f, checkErr, report)
	}
	again := newMachine(t, cache)
	again.clock.Set(m.clock.Now())
	if err := again.open(copied, pebblestore.Options{}); err != nil {
		t.Fatal(err)
	}
	k.check(again)
	if err := errors.Join(again.advance(time.Minute), again.close()); err != nil {
		t.Fatal(fmt.Errorf("%v: %w", f, err))
	}
	if err := os.RemoveAll(dir); err != nil { // all of them together may exceed the disk
		t.Fatal(err)
	}
	return n
}
