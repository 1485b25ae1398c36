package backup

import (
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

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/pebblestore"
)

// tables makes the store write tables, and returns their names in a backup.
func (w *world) tables() (first *Made, names []string) {
	w.Helper()
	w.commit(3)
	w.do(w.s.Close())
	var err error
	w.s, err = pebblestore.Open(filepath.Join(w.data, "store"), pebblestore.Options{})
	w.do(err)
	first = w.backup()
	for _, f := range first.Manifest.Files {
		if isTable(f.Name) {
			names = append(names, f.Name)
		}
	}
	if len(names) == 0 {
		w.Fatal("the store has no table")
	}
	return first, names
}

// The newest backup is the last one that Create made, not a folder that someone renamed or copied.
func TestRenamedBackupIsNotTheNewest(t *testing.T) {
	w := newWorld(t)
	w.commit(1)
	first := w.backup()
	kept := filepath.Join(w.place, "zz-before-the-upgrade")
	w.do(os.Rename(first.Dir, kept))
	if _, err := Latest(w.place); !errors.Is(err, ErrNotBackup) || !strings.Contains(err.Error(), "renamed") {
		t.Errorf("of a place with a renamed backup only: %v", err)
	}
	w.commit(1)
	second := w.backup()
	if newest, err := Latest(w.place); err != nil || newest != second.Dir {
		t.Errorf("the newest is %s, %v, want %s", newest, err, second.Dir)
	}
	if dir, m, err := Restore(t.Context(), w.place, filepath.Join(t.TempDir(), "a"), false); err != nil || dir != second.Dir ||
		!m.Time.Equal(second.Manifest.Time) {
		t.Errorf("restored %s, %v", dir, err)
	}
	if dir, _, err := Restore(t.Context(), kept, filepath.Join(t.TempDir(), "b"), false); err != nil || dir != kept {
		t.Errorf("restored %s, %v", dir, err)
	}
}

// flip changes a byte of a file without changing its size.
func (w *world) flip(path string) {
	w.Helper()
	b, err := os.ReadFile(path)
	w.do(err)
	b[len(b)/2] ^= 1
	w.do(os.WriteFile(path, b, 0o600))
}

// Damage to a table of a backup that does not change its size is found when it is the table's turn to be read; the
// table is sent again.
func TestDamagedTableIsFoundInTurn(t *testing.T) {
	w := newWorld(t)
	first, names := w.tables()
	for _, name := range names {
		w.flip(filepath.Join(first.Dir, storeFolder, name))
	}
	for i := range checkedInTurn + 1 {
		made := w.backup()
		wrong, err := Check(t.Context(), made.Dir)
		w.do(err)
		if len(wrong) == 0 {
			if i > 0 || len(made.Notes) != len(names) || !strings.Contains(made.Notes[0], "damaged") || made.NewFiles != made.Files {
				t.Errorf("backup %d: %d of %d files are new, and it says %q", i, made.NewFiles, made.Files, made.Notes)
			}
			return
		}
	}
	t.Errorf("%d backups took the damaged tables over", checkedInTurn+1)
}

// Each table is read once in checkedInTurn backups, and each backup reads an eighth of the bytes.
func TestTurnOfChecks(t *testing.T) {
	dir := t.TempDir()
	m := &Manifest{Version: 1, Time: noon, Format: 1}
	if err := os.Mkdir(filepath.Join(dir, storeFolder), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 32 {
		sum := newSum()
		_, _ = sum.Write(make([]byte, 1000))
		f := File{Name: string(rune('a'+i%16)) + string(rune('a'+i/16)) + ".sst", Size: 1000, SHA256: sum.text()}
		if err := os.WriteFile(filepath.Join(dir, storeFolder, f.Name), make([]byte, 1000), 0o600); err != nil {
			t.Fatal(err)
		}
		m.Files = append(m.Files, f)
	}
	read := map[string]int{}
	for range checkedInTurn {
		_ = os.Remove(filepath.Join(dir, ManifestName))
		if err := writeManifest(dir, m); err != nil {
			t.Fatal(err)
		}
		have, notes, err := reusable(t.Context(), dir, 1<<30)
		if err != nil || len(notes) > 0 || len(have) != 32 {
			t.Fatal(len(have), notes, err)
		}
		n := 0
		for _, f := range have {
			if f.Unread == 0 {
				n++
				read[f.Name]++
			}
		}
		if n != 32/checkedInTurn {
			t.Errorf("%d of 32 tables were read", n)
		}
		m.Files = have
	}
	if len(read) != 32 {
		t.Errorf("%d backups have read %d of 32 tables", checkedInTurn, len(read))
	}
}

// A whole backup shares nothing.
func TestFullBackup(t *testing.T) {
	w := newWorld(t)
	w.tables()
	made, err := Create(t.Context(), w.place, CreateOptions{Full: true}, w.send)
	if err != nil || made.NewFiles != made.Files {
		t.Errorf("%+v, %v", made, err)
	}
}

// A newest backup with a manifest that cannot be read, or is of a newer release, does not prevent the next backups.
func TestUnreadableManifest(t *testing.T) {
	for _, text := range []string{"{", `{"version":2,"files":[{"name":"a"}]}`} {
		w := newWorld(t)
		first, _ := w.tables()
		w.do(os.WriteFile(filepath.Join(first.Dir, ManifestName), []byte(text), 0o600))
		made := w.backup()
		if len(made.Notes) != 1 || !strings.Contains(made.Notes[0], first.Dir) || made.NewFiles != made.Files {
			t.Errorf("the backup is %+v", made)
		}
		if newest, err := Latest(w.place); err != nil || newest != made.Dir {
			t.Errorf("the newest is %s, %v", newest, err)
		}
		if _, err := ReadManifest(first.Dir); err == nil || !strings.Contains(err.Error(), first.Dir) {
			t.Errorf("the error does not name the folder: %v", err)
		}
	}
}

// A table that is a link is refused by name. Earlier, it was left out, and the backup was incomplete.
func TestLinkInStore(t *testing.T) {
	w := newWorld(t)
	_, names := w.tables()
	w.do(w.s.Close())
	dir := filepath.Join(w.data, "store")
	elsewhere := filepath.Join(t.TempDir(), names[0])
	w.do(os.Rename(filepath.Join(dir, names[0]), elsewhere))
	w.do(os.Symlink(elsewhere, filepath.Join(dir, names[0])))
	w.do(os.Mkdir(filepath.Join(dir, "lost+found"), 0o700))
	_, err := Write(t.Context(), discard{}, dir, Options{Time: time.Now()})
	if err == nil || !strings.Contains(err.Error(), names[0]) || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("a table that is a link: %v", err)
	}
	w.do(os.Remove(filepath.Join(dir, names[0])))
	w.do(os.Rename(elsewhere, filepath.Join(dir, names[0])))
	m, err := Write(t.Context(), discard{}, dir, Options{Time: time.Now()})
	w.do(err)
	if !slices.ContainsFunc(m.Files, func(f File) bool { return f.Name == names[0] }) {
		t.Error("the table is not in the backup")
	}
	w.s, err = pebblestore.Open(dir, pebblestore.Options{})
	w.do(err)
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// The error of an interrupted restore mentions nothing else.
func TestUnfinishedSentence(t *testing.T) {
	cut := t.TempDir()
	if err := os.Mkdir(filepath.Join(cut, RestoreName), 0o700); err != nil {
		t.Fatal(err)
	}
	err := Unfinished(cut)
	if want := "a restore into " + cut + " was cut: delete what is in it, and restore again"; !errors.Is(err, store.ErrCorrupt) ||
		err.Error() != want {
		t.Errorf("%v", err)
	}
}

// If the sender cuts a stream, the error has the sender's reason.
func TestReasonOfCut(t *testing.T) {
	w := newWorld(t)
	cut := fmt.Errorf("the server has cut it: %w", io.ErrUnexpectedEOF)
	_, err := Create(t.Context(), w.place, CreateOptions{}, func(_ context.Context, _ []File, to io.Writer) error {
		_, err := to.Write(make([]byte, 100))
		return errors.Join(err, cut)
	})
	if !errors.Is(err, cut) {
		t.Errorf("the reason is lost: %v", err)
	}
}

// A store, the data of a host and a backup cannot be places for backups.
func TestNoPlace(t *testing.T) {
	w := newWorld(t)
	first := w.backup()
	for _, place := range []string{w.data, filepath.Join(w.data, storeFolder), first.Dir, filepath.Join(first.Dir, storeFolder)} {
		before, err := os.ReadDir(place)
		w.do(err)
		if _, err := Create(t.Context(), place, CreateOptions{}, w.send); !errors.Is(err, ErrPlace) || !strings.Contains(err.Error(), place) {
			t.Errorf("%s: %v", place, err)
		}
		if after, err := os.ReadDir(place); err != nil || len(after) != len(before) {
			t.Errorf("%s has %d entries, and had %d", place, len(after), len(before))
		}
	}
}

// An address or an empty text is not a place: no folder is created for it, since a backup that cannot be found again
// is useless.
func TestPlaceIsNoFolder(t *testing.T) {
	w := newWorld(t)
	t.Chdir(t.TempDir())
	for _, place := range []string{"", "s3://bucket/backups", "file:///backups"} {
		if _, err := Create(t.Context(), place, CreateOptions{}, w.send); !errors.Is(err, ErrPlace) ||
			!strings.Contains(err.Error(), fmt.Sprintf("%q", place)) {
			t.Errorf("%q: %v", place, err)
		}
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// For verification, a backup is linked beside itself, whatever file system the temporary files are on, and the link
// is removed.
func TestLinksBesideBackup(t *testing.T) {
	w := newWorld(t)
	first := w.backup()
	path, remove, err := Link(t.Context(), first.Dir)
	w.do(err)
	a, err := os.Stat(filepath.Join(path, formatName))
	w.do(err)
	b, err := os.Stat(filepath.Join(first.Dir, storeFolder, formatName))
	w.do(err)
	if filepath.Dir(path) != w.place || !os.SameFile(a, b) {
		t.Errorf("it is in %s, the same file: %v", path, os.SameFile(a, b))
	}
	if newest, err := Latest(w.place); err != nil || newest != first.Dir {
		t.Error(newest, err)
	}
	w.do(remove())
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestForeignPartial makes backups in a place where a foreign folder has the name of an interrupted backup: nothing
// in it is removed. An interrupted backup is removed.
func TestForeignPartial(t *testing.T) {
	w := newWorld(t)
	partial := filepath.Join(w.place, partialName)
	for _, foreign := range []string{"precious", "store/deep/precious", "."} {
		w.do(os.MkdirAll(w.place, 0o700))
		path := filepath.Join(partial, foreign)
		if foreign == "." { // a file of that name
			path = partial
		}
		w.do(os.MkdirAll(filepath.Dir(path), 0o700))
		w.do(os.WriteFile(path, nil, 0o600))
		_, err := Create(t.Context(), w.place, CreateOptions{}, w.send)
		if !errors.Is(err, ErrPlace) || !strings.Contains(err.Error(), partial) {
			t.Errorf("%s: %v, want ErrPlace that names the folder", foreign, err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
		w.do(os.RemoveAll(partial))
	}
	w.do(os.MkdirAll(filepath.Join(partial, storeFolder), 0o700))
	for _, name := range []string{"store/000001.sst", ManifestName, ManifestName + ".next"} {
		w.do(os.WriteFile(filepath.Join(partial, name), nil, 0o600))
	}
	w.backup()
	if _, err := os.Stat(partial); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
