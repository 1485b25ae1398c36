package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/pebblestore"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// world is a store on disk with a place for backups.
type world struct {
	*testing.T
	s     *pebblestore.Store
	data  string
	place string
	made  int // backups
	runs  int
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, data: t.TempDir(), place: filepath.Join(t.TempDir(), "backups")}
	var err error
	w.s, err = pebblestore.Open(filepath.Join(w.data, "store"), pebblestore.Options{})
	w.do(err)
	t.Cleanup(func() { _ = w.s.Close() })
	return w
}

func (w *world) do(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// commit commits runs with journals of some bytes each.
func (w *world) commit(n int) {
	w.Helper()
	for range n {
		run := store.RunKey{ID: fmt.Sprint("r", w.runs)}
		w.runs++
		p, err := w.s.Acquire(w.Context(), run.Partition(), "test", 0)
		w.do(err)
		input := bytes.Repeat([]byte{byte(w.runs)}, 3000)
		w.do(p.Commit(w.Context(), []store.RunCommit{{Run: run, Create: true,
			State:  store.RunState{Run: run, Workflow: "w", Status: store.Sleeping, WakeUnixMs: 1000, Module: store.Digest{}},
			Append: []store.Entry{{Kind: store.KindStarted, Input: input}}}}))
	}
}

// send writes a checkpoint as Write does, each time with a later time of creation.
func (w *world) send(ctx context.Context, have []File, to io.Writer) error {
	dir, remove, err := w.s.Checkpoint()
	if err != nil {
		return err
	}
	w.made++
	_, err = Write(ctx, to, dir, Options{Time: noon.Add(time.Duration(w.made) * time.Second), Release: "test", Have: have})
	return errors.Join(err, remove())
}

func (w *world) backup() *Made {
	w.Helper()
	made, err := Create(w.Context(), w.place, CreateOptions{}, w.send)
	w.do(err)
	return made
}

// holds opens restored data and checks its runs.
func (w *world) holds(data string, runs int) *pebblestore.Store {
	w.Helper()
	s, err := pebblestore.Open(filepath.Join(data, "store"), pebblestore.Options{})
	w.do(err)
	w.Cleanup(func() { _ = s.Close() })
	for i := range runs {
		run := store.RunKey{ID: fmt.Sprint("r", i)}
		_, entries, err := s.Run(w.Context(), run)
		if err != nil || len(entries) != 1 || len(entries[0].Input) != 3000 || entries[0].Input[0] != byte(i+1) {
			w.Fatalf("run %d of the restored store: %d entries, %v", i, len(entries), err)
		}
	}
	if _, err := s.State(w.Context(), store.RunKey{ID: fmt.Sprint("r", runs)}); !errors.Is(err, store.ErrNotFound) {
		w.Errorf("a run that came after the backup: %v", err)
	}
	return s
}

// A backup has what was in the store when it began. The second one shares tables with the first, and each is complete
// by itself.
func TestBackupAndRestore(t *testing.T) {
	w := newWorld(t)
	w.commit(20)
	w.do(w.s.Close()) // and open, so that there are tables
	var err error
	w.s, err = pebblestore.Open(filepath.Join(w.data, "store"), pebblestore.Options{})
	w.do(err)
	first := w.backup()
	if first.NewFiles != first.Files || filepath.Base(first.Dir) != "20261122T120001.000Z" {
		t.Errorf("the first backup is %+v", first)
	}
	w.commit(5)
	second := w.backup()
	if second.NewFiles >= second.Files {
		t.Errorf("the second backup shares nothing: %+v", second)
	}
	shared := 0
	for _, f := range second.Manifest.Files {
		a, err := os.Stat(filepath.Join(first.Dir, "store", f.Name))
		if err != nil {
			continue
		}
		if b, err := os.Stat(filepath.Join(second.Dir, "store", f.Name)); err == nil && os.SameFile(a, b) {
			shared++
			if !isTable(f.Name) {
				t.Errorf("%s is shared", f.Name)
			}
		}
	}
	if shared != second.Files-second.NewFiles {
		t.Errorf("%d files are shared, %d were not sent", shared, second.Files-second.NewFiles)
	}
	if left, err := os.ReadDir(filepath.Join(w.data, "store", "checkpoints")); err != nil || len(left) > 0 {
		t.Errorf("checkpoints are left: %v %v", left, err)
	}
	for _, b := range []*Made{first, second} {
		if wrong, err := Check(t.Context(), b.Dir); err != nil || len(wrong) > 0 {
			t.Error(wrong, err)
		}
	}
	w.do(os.RemoveAll(first.Dir))
	to := filepath.Join(t.TempDir(), "new")
	_, _, err = Restore(t.Context(), w.place, to, false)
	w.do(err)
	w.holds(to, 25)
}

// A stream that was cut, at any position, gives no backup and leaves nothing that looks like one.
func TestCutBackup(t *testing.T) {
	w := newWorld(t)
	w.commit(3)
	var whole bytes.Buffer
	w.do(w.send(t.Context(), nil, &whole))
	manifest := bytes.LastIndex(whole.Bytes(), []byte("}"))
	for _, at := range []int{0, 1, 511, 512, 1000, 1024, whole.Len() / 2, manifest - 100, manifest} {
		_, err := Create(t.Context(), w.place, CreateOptions{}, func(_ context.Context, _ []File, to io.Writer) error {
			_, err := to.Write(whole.Bytes()[:at])
			return err
		})
		if !errors.Is(err, ErrNotBackup) {
			t.Errorf("cut at %d of %d: %v", at, whole.Len(), err)
		}
		to := filepath.Join(t.TempDir(), "new")
		if _, err := RestoreStream(t.Context(), bytes.NewReader(whole.Bytes()[:at]), to, false); !errors.Is(err, ErrNotBackup) {
			t.Errorf("restored from what was cut at %d: %v", at, err)
		}
		if list, _ := os.ReadDir(to); len(list) > 0 {
			t.Errorf("a restore that failed leaves %v", list)
		}
		if _, err := Latest(w.place); !errors.Is(err, ErrNotBackup) {
			t.Errorf("cut at %d: %v", at, err)
		}
	}
	broken := errors.New("the cable was pulled")
	if _, err := Create(t.Context(), w.place, CreateOptions{}, func(context.Context, []File, io.Writer) error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	w.do(os.MkdirAll(filepath.Join(w.place, partialName, "store"), 0o700)) // a process was killed
	w.backup()
	to := filepath.Join(t.TempDir(), "new")
	_, err := RestoreStream(t.Context(), &whole, to, false)
	w.do(err)
	w.holds(to, 3)
}

// A stream with a changed byte gives no backup, and neither does a stream that lacks a file.
func TestDamagedStream(t *testing.T) {
	w := newWorld(t)
	w.commit(3)
	var whole bytes.Buffer
	w.do(w.send(t.Context(), nil, &whole))
	for _, part := range []string{"pebble_version", strings.Repeat("\x02", 100)} { // in the options, and in a journal in the log
		at := bytes.Index(whole.Bytes(), []byte(part))
		if at < 0 {
			t.Fatalf("the stream does not hold %q", part)
		}
		bad := bytes.Clone(whole.Bytes())
		bad[at] ^= 1
		to := filepath.Join(t.TempDir(), "new")
		if _, err := RestoreStream(t.Context(), bytes.NewReader(bad), to, false); !errors.Is(err, ErrDamaged) {
			t.Errorf("a byte was changed: %v", err)
		}
	}
	w.do(w.s.Close())
	var err error
	w.s, err = pebblestore.Open(filepath.Join(w.data, "store"), pebblestore.Options{})
	w.do(err)
	have := w.backup().Manifest.Files
	whole.Reset()
	w.do(w.send(t.Context(), have, &whole))
	to := filepath.Join(t.TempDir(), "new")
	if _, err := RestoreStream(t.Context(), &whole, to, false); !errors.Is(err, ErrNotBackup) || !strings.Contains(err.Error(), "lacks") {
		t.Errorf("tables were left out: %v", err)
	}
}

// Restore and Check verify each byte of a backup.
func TestDamagedBackup(t *testing.T) {
	w := newWorld(t)
	w.commit(3)
	b := w.backup()
	for _, f := range b.Manifest.Files {
		if f.Size == 0 { // a mark, which is its name
			continue
		}
		path := filepath.Join(b.Dir, "store", f.Name)
		whole, err := os.ReadFile(path)
		w.do(err)
		for _, bad := range [][]byte{append([]byte{whole[0] ^ 1}, whole[1:]...), whole[:len(whole)-1], append(whole[:len(whole):len(whole)], 0)} {
			w.do(os.WriteFile(path, bad, 0o600))
			to := filepath.Join(t.TempDir(), "new")
			if _, _, err := Restore(t.Context(), b.Dir, to, false); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), f.Name) {
				t.Errorf("%s was damaged: %v", f.Name, err)
			}
			if wrong, err := Check(t.Context(), b.Dir); err != nil || len(wrong) != 1 {
				t.Errorf("%s was damaged: %v, %v", f.Name, wrong, err)
			}
		}
		w.do(os.Remove(path))
		if wrong, err := Check(t.Context(), b.Dir); err != nil || len(wrong) != 1 || !strings.Contains(wrong[0].Error(), "missing") {
			t.Errorf("%s is missing: %v, %v", f.Name, wrong, err)
		}
		w.do(os.WriteFile(path, whole, 0o600))
	}
	w.do(os.WriteFile(filepath.Join(b.Dir, "store", "more"), nil, 0o600))
	if wrong, err := Check(t.Context(), b.Dir); err != nil || len(wrong) != 1 || !strings.Contains(wrong[0].Error(), "more") {
		t.Errorf("a file more: %v, %v", wrong, err)
	}
}

// If a table of the previous backup has another size, it is sent again.
func TestDamagedBackupIsNotReused(t *testing.T) {
	w := newWorld(t)
	w.commit(3)
	w.do(w.s.Close())
	var err error
	w.s, err = pebblestore.Open(filepath.Join(w.data, "store"), pebblestore.Options{})
	w.do(err)
	b := w.backup()
	for _, f := range b.Manifest.Files {
		if isTable(f.Name) {
			w.do(os.Truncate(filepath.Join(b.Dir, "store", f.Name), 1))
		}
	}
	next := w.backup()
	if wrong, err := Check(t.Context(), next.Dir); err != nil || len(wrong) > 0 || next.NewFiles != next.Files {
		t.Errorf("%+v, %v, %v", next, wrong, err)
	}
}

func TestRestoreRefuses(t *testing.T) {
	w := newWorld(t)
	w.commit(1)
	w.backup()
	full := t.TempDir()
	w.do(os.WriteFile(filepath.Join(full, "mine"), nil, 0o600))
	if _, _, err := Restore(t.Context(), w.place, full, false); err == nil || !strings.Contains(err.Error(), "not empty: it has mine") {
		t.Error(err)
	}
	if _, _, err := Restore(t.Context(), full, t.TempDir(), false); !errors.Is(err, ErrNotBackup) {
		t.Error(err)
	}
	cut := t.TempDir()
	w.do(os.Mkdir(filepath.Join(cut, RestoreName), 0o700))
	if err := Unfinished(cut); !errors.Is(err, store.ErrCorrupt) {
		t.Error(err)
	}
	if err := Unfinished(w.data); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "..", "a/b", `a\b`, "/etc"} {
		if err := checkName(bad); !errors.Is(err, ErrNotBackup) {
			t.Errorf("the name %q: %v", bad, err)
		}
	}
	lock, err := pebblestore.LockDir(w.place)
	w.do(err)
	if _, err := Create(t.Context(), w.place, CreateOptions{}, w.send); !errors.Is(err, store.ErrLocked) {
		t.Error(err)
	}
	w.do(lock.Close())
}

// A copy can be read and refuses each change. It acts after it is released.
func TestCopy(t *testing.T) {
	w := newWorld(t)
	w.commit(2)
	w.backup()
	to := filepath.Join(t.TempDir(), "new")
	_, _, err := Restore(t.Context(), w.place, to, true)
	w.do(err)
	s := w.holds(to, 2)
	if _, err := s.Acquire(t.Context(), 0, "test", 0); !errors.Is(err, store.ErrCopy) {
		t.Error(err)
	}
	if _, err := s.Modules().Put(t.Context(), []byte("x"), store.ModuleInfo{}); !errors.Is(err, store.ErrCopy) {
		t.Error(err)
	}
	w.do(s.ReleaseCopy())
	_, err = s.Acquire(t.Context(), 0, "test", 0)
	w.do(err)
	if s.IsCopy() {
		t.Error("it is a copy still")
	}
}

// A clock that stands still or was set back does not make an older backup the newest one.
func TestBackupsInTheOrderOfTheirNames(t *testing.T) {
	w := newWorld(t)
	w.commit(1)
	w.made = 100
	first := w.backup()
	for _, at := range []int{99, 0, 99} {
		w.made = at
		w.commit(1)
		next := w.backup()
		if newest, err := Latest(w.place); err != nil || newest != next.Dir || newest <= first.Dir {
			t.Errorf("%s was made after %s, the newest is %s, %v", next.Dir, first.Dir, newest, err)
		}
	}
}

func TestManifestOfNewerRelease(t *testing.T) {
	for text, want := range map[string]error{`{"version":2,"files":[{"name":"a"}]}`: store.ErrVersion,
		`{"version":1,"format":99,"files":[{"name":"a"}]}`: store.ErrVersion,
		`{"version":1,"files":[{"name":"../a"}]}`:          ErrNotBackup,
		`{"version":1,"files":[]}`:                         ErrNotBackup,
		`{`:                                                ErrNotBackup,
		`{"version":1,"format":1,"files":[{"name":"a"}]}`:  nil} {
		if _, err := decodeManifest(strings.NewReader(text)); !errors.Is(err, want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
