package pebblestore

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

// fileHashes formats the hashes of the files in a directory.
func fileHashes(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %x\n", e.Name(), sha256.Sum256(text))
	}
	return b.String()
}

// TestNewerStoreIsLeftAlone opens stores of a newer release, with and without its format file: each is refused with a
// sentence, and no byte of its files changes.
func TestNewerStoreIsLeftAlone(t *testing.T) {
	for _, noted := range []string{fmt.Sprintln(store.FormatVersion + 1), "", "rubbish"} {
		dir := filepath.Join(t.TempDir(), "store")
		s, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		newer := binary.BigEndian.AppendUint16([]byte{store.FormatVersion + 1}, store.Partitions)
		if err := errors.Join(s.db.Set(formatKey, newer, pebble.Sync), s.Close()); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, formatName)
		err = os.WriteFile(path, []byte(noted), 0o600)
		if noted == "" {
			err = os.Remove(path)
		}
		if err != nil {
			t.Fatal(err)
		}
		before := fileHashes(t, dir)
		for range 2 {
			_, err = Open(dir, Options{})
			want := fmt.Sprintf("the store has format %d, this release knows formats up to %d", store.FormatVersion+1, store.FormatVersion)
			if !errors.Is(err, store.ErrVersion) || !strings.Contains(err.Error(), want) {
				t.Errorf("noted %q: %v", noted, err)
			}
		}
		if after := fileHashes(t, dir); after != before {
			t.Errorf("noted %q: the files were changed:\n%s\nbefore:\n%s", noted, after, before)
		}
	}
}

// A database of a newer Pebble is refused, too.
func TestNewerDatabaseIsLeftAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	marks, err := filepath.Glob(filepath.Join(dir, "marker.format-version.*"))
	if err != nil || len(marks) != 1 {
		t.Fatal(marks, err)
	}
	next := filepath.Join(dir, "marker.format-version.999998.999")
	if err := os.Rename(marks[0], next); err != nil {
		t.Fatal(err)
	}
	before := fileHashes(t, dir)
	if _, err := Open(dir, Options{}); !errors.Is(err, store.ErrVersion) {
		t.Error(err)
	}
	if after := fileHashes(t, dir); after != before {
		t.Errorf("the files were changed:\n%s\nbefore:\n%s", after, before)
	}
}

// An older database stays as it is until it is upgraded explicitly.
func TestDatabaseIsRaisedByUpgradeAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	const old = pebble.FormatColumnarBlocks
	db, err := pebble.Open(dir, &pebble.Options{FormatMajorVersion: old, Merger: concatenate})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if v := s.db.FormatMajorVersion(); v != old {
			t.Errorf("the database has format %d, want %d", v, old)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []int{int(old), int(databaseVersion)} {
		before, after, err := Upgrade(dir, Options{})
		if err != nil || before != want || after != int(databaseVersion) {
			t.Errorf("upgrade %d: from %d to %d, %v", i, before, after, err)
		}
	}
	s, err := Open(filepath.Join(t.TempDir(), "new"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if v := s.db.FormatMajorVersion(); v != databaseVersion {
		t.Errorf("a new database has format %d", v)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// A store that is open for reading changes nothing, and refuses changes.
func TestReadOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := newStepper(t, s)
	if err := errors.Join(w.commit(s), s.Close()); err != nil {
		t.Fatal(err)
	}
	before := fileHashes(t, dir)
	s, err = Open(dir, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if page, err := s.List(t.Context(), store.Query{}); err != nil || len(page.Runs) != perCommit {
		t.Errorf("%d runs, %v", len(page.Runs), err)
	}
	if _, err := s.Acquire(t.Context(), 0, "a", 0); !errors.Is(err, store.ErrReadOnly) {
		t.Error(err)
	}
	if err := s.MarkCopy(); !errors.Is(err, store.ErrReadOnly) {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if after := fileHashes(t, dir); after != before {
		t.Errorf("the files were changed:\n%s\nbefore:\n%s", after, before)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none"), Options{ReadOnly: true}); err == nil {
		t.Error("a store that is not there was opened")
	}
}

// TestCheckpointsOfABusyStore makes checkpoints while runs commit at full speed: each can be opened, is valid, and
// has what was acknowledged before it began.
func TestCheckpointsOfABusyStore(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "store"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := newStepper(t, s)
	w.module, err = s.Modules().Put(t.Context(), []byte("module"), store.ModuleInfo{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range w.live {
		r.state.Module = w.module
	}
	var steps atomic.Int64
	var wg sync.WaitGroup
	stop, progress := make(chan struct{}), make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := w.commit(s); err != nil {
				t.Error(err)
				return
			}
			steps.Add(perCommit)
			select {
			case progress <- struct{}{}:
			default:
			}
		}
	})
	rounds := 10
	if testing.Short() {
		rounds = 3 // each takes longer than the one before
	}
	for i := range rounds {
		for range 60 { // the log grows meanwhile
			<-progress
		}
		acknowledged := 2 * steps.Load()
		dir, remove, err := s.Checkpoint()
		if err != nil {
			t.Fatal(err)
		}
		r, err := Check(t.Context(), dir, CheckOptions{})
		if err != nil || len(r.Problems) > 0 || r.Entries < acknowledged {
			t.Fatalf("checkpoint %d: %+v, %v; %d entries were acknowledged", i, r, err, acknowledged)
		}
		if err := remove(); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
