package pebblestore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/store"
)

// written makes a store with values of the given sizes, each durable before the next: in a log and, if flushed, in
// tables.
func written(t *testing.T, flush bool, sizes ...int) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "store")
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range sizes {
		key := store.GlobalKey(0, 'Z', fmt.Append(nil, i))
		if err := s.db.Set(key, bytes.Repeat([]byte{byte(i), 7, 9}, n/3), pebble.Sync); err != nil {
			t.Fatal(err)
		}
		if flush {
			if err := s.db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// lastFile returns the file matching a pattern that sorts last.
func lastFile(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) == 0 {
		t.Fatal(pattern, err)
	}
	return found[len(found)-1]
}

// flip changes a bit of a file.
func flip(t *testing.T, path string, at int, bit byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= bit
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// refused opens a store for writing and for reading. Both must fail with a sentence that names a file, and change
// nothing.
func refused(t *testing.T, dir, names string) {
	t.Helper()
	before := fileHashes(t, dir)
	for _, readOnly := range []bool{false, true} {
		s, err := Open(dir, Options{ReadOnly: readOnly})
		if err == nil {
			_ = s.Close()
		}
		if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(fmt.Sprint(err), names) {
			t.Fatalf("%v, want ErrCorrupt that names %s", err, names)
		}
	}
	if after := fileHashes(t, dir); after != before {
		t.Errorf("files were changed:\n%s\nbefore:\n%s", after, before)
	}
}

// TestDamagedLog flips a bit of the durable part of the log. Pebble would take the rest for the remains of a power
// cut and open the store without it.
func TestDamagedLog(t *testing.T) {
	small := bytes.Repeat([]byte("\x01"), 40)
	sizes := []int{}
	for range small {
		sizes = append(sizes, 300)
	}
	large := append([]int{3 << 20}, sizes...)
	between := append(append([]int{}, sizes...), 200<<10, 9, 9)
	for name, c := range map[string]struct {
		sizes []int
		at    []int // bytes of the log
	}{
		"small":   {sizes, []int{0, 4, 6, 7, 12, 3000, 3100, 8000}},
		"large":   {large, []int{100, 1 << 20, 3 << 20, 3<<20 + 8000}},
		"between": {between, []int{100, 5000, 100 << 10, 200 << 10}},
	} {
		for _, at := range c.at {
			t.Run(fmt.Sprint(name, " ", at), func(t *testing.T) {
				dir := written(t, false, c.sizes...)
				flip(t, lastFile(t, dir, "*.log"), at, 1)
				refused(t, dir, ".log is damaged at byte")
			})
		}
	}
}

// TestDamagedLogRandom flips a bit anywhere before the last commit of random logs: opening each is refused.
func TestDamagedLogRandom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 40 {
		sizes := make([]int, 2+rnd.IntN(60))
		for i := range sizes {
			sizes[i] = 1 << rnd.IntN(18)
		}
		dir := written(t, false, sizes...)
		log := lastFile(t, dir, "*.log")
		b, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		last := sizes[len(sizes)-1] + 100
		last += (last/(32<<10) + 1) * 40 // headers, and the ends of blocks
		end := len(bytes.TrimRight(b, "\x00")) - last
		if end <= 0 { // the log has the last commit only
			continue
		}
		at := rnd.IntN(end)
		flip(t, log, at, 1<<rnd.IntN(8))
		if s, err := Open(dir, Options{ReadOnly: true}); err == nil {
			_ = s.Close()
			t.Errorf("opened with byte %d of %d changed, sizes %d", at, end, sizes)
		} else if !errors.Is(err, store.ErrCorrupt) {
			t.Error(err)
		}
	}
}

// TestEndOfLog opens what a power cut may leave: the last commit in part, or not at all.
func TestEndOfLog(t *testing.T) {
	for _, size := range []int{100, 40 << 10} {
		dir := written(t, false, 300, 300, size)
		log := lastFile(t, dir, "*.log")
		b, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 12, 50, size} { // number of missing bytes at the end, which includes the mark of an orderly end
			if err := os.WriteFile(log, append(b[:len(b)-n:len(b)-n], make([]byte, n)...), 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := Open(dir, Options{ReadOnly: true})
			if err != nil {
				t.Fatalf("without the last %d bytes: %v", n, err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestDamagedManifest flips a bit of the list of tables before its last record. Pebble would not read the rest of the
// list, and would remove those tables.
func TestDamagedManifest(t *testing.T) {
	for _, at := range []int{4, 20, 60, 100} {
		dir := written(t, true, 300, 300, 300)
		flip(t, lastFile(t, dir, "MANIFEST-*"), at, 1)
		refused(t, dir, "MANIFEST-")
	}
}

// TestLostMarker removes the empty file that names the list of tables: Pebble would start with an empty database and
// remove the tables.
func TestLostMarker(t *testing.T) {
	for _, flush := range []bool{false, true} {
		dir := written(t, flush, 300, 300)
		if err := os.Remove(lastFile(t, dir, "marker.manifest.*")); err != nil {
			t.Fatal(err)
		}
		refused(t, dir, "marker.manifest")
	}
}

// TestEmptiedManifest damages the last record of the list of tables, as a power cut may, after the first table was
// added. The table's data is in no log any more, and the store would start empty.
func TestEmptiedManifest(t *testing.T) {
	dir := written(t, false, 300)
	s, err := Open(dir, Options{}) // makes a table of the log
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path := lastFile(t, dir, "MANIFEST-*")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	flip(t, path, int(info.Size())-5, 1)
	refused(t, dir, "MANIFEST-")
}

// TestDamagedTable damages files whose damage Pebble itself detects: its error becomes one line that says what to do.
func TestDamagedTable(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"000*.sst":                os.Remove,
		"000*.sst ":               func(path string) error { return os.Truncate(path, 20) },
		"000*.sst  ":              func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("x", 959)), 0o600) },
		"MANIFEST-*":              os.Remove,
		"MANIFEST-* ":             func(path string) error { return os.Truncate(path, 0) },
		"marker.format-version.*": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			dir := written(t, true, 300, 300)
			path := lastFile(t, dir, strings.TrimSpace(name))
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := damage(path); err != nil {
				t.Fatal(err)
			}
			if now, err := os.Stat(path); err == nil && now.Size() > 900 { // as large as it was
				if err := os.Truncate(path, info.Size()); err != nil {
					t.Fatal(err)
				}
			}
			_, checked := Check(t.Context(), dir, CheckOptions{})
			_, opened := Open(dir, Options{ReadOnly: true})
			for _, err := range []error{checked, opened} {
				if text := fmt.Sprint(err); !errors.Is(err, store.ErrCorrupt) || strings.Contains(text, "\n") ||
					!strings.Contains(text, "restore a backup") || strings.Count(text, store.ErrCorrupt.Error()) > 1 {
					t.Errorf("%v, want one line that says what to do", err)
				}
			}
		})
	}
}

// TestLookAtDamage inspects stores that would not open, and an open one, which may be in the middle of a commit.
func TestLookAtDamage(t *testing.T) {
	for pattern, damage := range map[string]func(path string) error{
		"*.log":             func(path string) error { flip(t, path, 100, 1); return nil },
		"MANIFEST-*":        func(path string) error { flip(t, path, 20, 1); return nil },
		"marker.manifest.*": os.Remove,
	} {
		dir := written(t, pattern != "*.log", 300, 300, 300, 300)
		if err := damage(lastFile(t, dir, pattern)); err != nil {
			t.Fatal(err)
		}
		if l, err := Inspect(dir); !errors.Is(err, store.ErrCorrupt) || !l.Exists {
			t.Errorf("%s: %+v, %v, want ErrCorrupt of a store that is there", pattern, l, err)
		}
	}
	dir := written(t, false, 300, 300, 300)
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if l, err := Inspect(dir); err != nil || !l.Open {
		t.Errorf("%+v, %v", l, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// between is a file system that calls a function after each read of a log.
type between struct {
	vfs.FS
	happens func()
}

type betweenFile struct {
	vfs.File
	happens func()
}

func (b between) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := b.FS.Open(name, opts...)
	if err != nil || filepath.Ext(name) != ".log" {
		return f, err
	}
	return betweenFile{f, b.happens}, nil
}

func (f betweenFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.happens()
	return n, err
}

// TestOpenWhileWritten opens a store that another process has open, and writes more to its log between the reads:
// that looks like a damaged log, but must not be reported as damage, since a restore of a backup would then lose good
// data.
func TestOpenWhileWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	set := func(n int) {
		if err := s.db.Set(store.GlobalKey(0, 'Z', []byte("between")), make([]byte, n), pebble.Sync); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 { // so that the log reuses an older file
		set(200 << 10)
		if err := s.db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	set(100)
	if _, err := Open(dir, Options{FS: between{vfs.Default, func() { set(1000) }}}); !errors.Is(err, store.ErrLocked) {
		t.Errorf("%v, want ErrLocked", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestFilesOfOthers opens a store in a folder with foreign files that resemble a store's.
func TestFilesOfOthers(t *testing.T) {
	for _, name := range []string{"wfhost.log", "2026-11-27.log", "large.blob", "x.sst"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("begun\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(dir, Options{})
		if err != nil {
			t.Error(err)
			continue
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestForgedChunks has a power cut lose a page of a commit whose payload looks like the log. Otherwise anyone who may
// start a run could make the store unusable.
func TestForgedChunks(t *testing.T) {
	for _, synced := range []uint64{1 << 62, 6000, 12_000, 20_000} {
		dir := filepath.Join(t.TempDir(), "store")
		s, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		log := lastFile(t, dir, "*.log")
		number, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(log), ".log"))
		if err != nil {
			t.Fatal(err)
		}
		chunk := make([]byte, 19) // see package logfs
		chunk[6] = 9
		binary.LittleEndian.PutUint32(chunk[7:], uint32(number))
		binary.LittleEndian.PutUint64(chunk[11:], synced)
		sum := crc32.Checksum(chunk[6:], crc32.MakeTable(crc32.Castagnoli))
		binary.LittleEndian.PutUint32(chunk, (sum>>15|sum<<17)+0xa282ead8)
		for _, value := range [][]byte{{1}, bytes.Repeat(chunk, 1400)} {
			if err := s.db.Set(store.GlobalKey(0, 'Z', []byte("forged")), value, pebble.Sync); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		for at := 4096; at < 1400*len(chunk); at += 4096 {
			torn := bytes.Clone(b)
			clear(torn[at:min(at+4096, len(torn))])
			if err := os.WriteFile(log, torn, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := Open(dir, Options{ReadOnly: true})
			if err != nil {
				t.Fatalf("without the page at %d: %v", at, err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
