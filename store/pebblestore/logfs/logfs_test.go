package logfs

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

const size = 3 * zeroBytes

func newFS(t *testing.T, under vfs.FS) *FS {
	t.Helper()
	if err := under.MkdirAll("db", 0o755); err != nil {
		t.Fatal(err)
	}
	return New(under, "db", size)
}

func write(t *testing.T, f vfs.File, err error, n int) {
	t.Helper()
	if err == nil {
		_, err = f.Write(bytes.Repeat([]byte{1}, n))
	}
	if err == nil {
		err = f.SyncData()
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if e := f.Close(); err != nil || e != nil {
		t.Fatal(err, e)
	}
	return b
}

// After a log with few writes, no file is prepared. After a log with more writes, the next one is prepared, and an
// unused prepared file is removed.
func TestPrepared(t *testing.T) {
	under := vfs.NewMem()
	fs := newFS(t, under)
	f, err := fs.Create("db/1.log", category)
	write(t, f, err, prepareAfterBytes-1)
	fs.preparing.Wait()
	if _, err := under.Stat("db/prepared"); err == nil {
		t.Error("a little log has another one prepared")
	}
	f, err = fs.Create("db/2.log", category)
	write(t, f, err, prepareAfterBytes)
	fs.preparing.Wait()
	f, err = fs.Create("db/3.log", category)
	write(t, f, err, prepareAfterBytes)
	if b := content(t, under, "db/3.log"); len(b) != size || bytes.Count(b, []byte{1}) != prepareAfterBytes || b[0] != 1 {
		t.Errorf("a prepared log has %d bytes, not %d, or its content elsewhere", len(b), size)
	}
	fs.preparing.Wait()
	f, err = fs.ReuseForWrite("db/2.log", "db/4.log", category) // a small one
	write(t, f, err, prepareAfterBytes)
	if _, err := under.Stat("db/2.log"); err == nil {
		t.Error("the small log is there beside the one that took its place")
	}
	fs.preparing.Wait()
	f, err = fs.ReuseForWrite("db/3.log", "db/5.log", category) // one that does not grow
	write(t, f, err, 1)
	for _, name := range []string{"db/4.log", "db/5.log"} {
		if b := content(t, under, name); len(b) != size {
			t.Errorf("%s has %d bytes", name, len(b))
		}
	}
	f, err = fs.Create("db/table", "other")
	write(t, f, err, 2*prepareAfterBytes)
	if b := content(t, under, "db/table"); len(b) != 2*prepareAfterBytes {
		t.Errorf("a file that is no log has %d bytes", len(b))
	}
	if _, err := under.Stat("db/prepared"); err != nil {
		t.Error("nobody wanted it, and it is gone: ", err)
	}
	if err := fs.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := under.Stat("db/prepared"); err == nil {
		t.Error("the prepared file is there when the file system is closed")
	}
}

// A prepared file that a killed process left is not used: it may be incomplete.
func TestLeftBehind(t *testing.T) {
	under := vfs.NewMem()
	fs := newFS(t, under)
	f, err := under.Create("db/prepared", category)
	write(t, f, err, 10)
	f, err = fs.Create("db/1.log", category)
	write(t, f, err, 1)
	if b := content(t, under, "db/1.log"); len(b) != 1 {
		t.Errorf("the log has %d bytes", len(b))
	}
	if err := fs.Clean(); err != nil {
		t.Error(err)
	}
	if err := fs.Clean(); err != nil {
		t.Errorf("with nothing to remove: %v", err)
	}
	if _, err := under.Stat("db/prepared"); err == nil {
		t.Error("it is still there")
	}
}

// On a full disk, logs grow as they would without this package.
func TestCannotPrepare(t *testing.T) {
	under := vfs.NewMem()
	var full atomic.Bool
	fs := newFS(t, errorfs.Wrap(under, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && op.Path == "db/prepared" && op.Kind == errorfs.OpFileWrite {
			return io.ErrShortWrite
		}
		return nil
	})))
	full.Store(true)
	for _, name := range []string{"db/1.log", "db/2.log"} {
		f, err := fs.Create(name, category)
		write(t, f, err, prepareAfterBytes)
		fs.preparing.Wait()
		if b := content(t, under, name); len(b) != prepareAfterBytes {
			t.Errorf("%s has %d bytes", name, len(b))
		}
		if _, err := under.Stat("db/prepared"); err == nil {
			t.Error("half of a file is left")
		}
	}
	full.Store(false)
	f, err := fs.Create("db/3.log", category)
	write(t, f, err, prepareAfterBytes)
	fs.preparing.Wait()
	f, err = fs.Create("db/4.log", category)
	write(t, f, err, 1)
	if b := content(t, under, "db/4.log"); len(b) != size {
		t.Errorf("it was not tried again: %d bytes", len(b))
	}
}

// scarce is a file system with a given number of free bytes.
type scarce struct {
	vfs.FS
	free uint64
}

func (s scarce) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: s.free, TotalBytes: 1 << 40, UsedBytes: 1<<40 - s.free}, nil
}

// On a disk that is nearly full, no file is prepared: the space is left for data.
func TestScarce(t *testing.T) {
	for free, want := range map[uint64]bool{spareFree*size - 1: false, spareFree * size: true} {
		under := vfs.NewMem()
		fs := newFS(t, scarce{under, free})
		f, err := fs.Create("db/1.log", category)
		write(t, f, err, prepareAfterBytes)
		fs.preparing.Wait()
		if _, err := under.Stat("db/prepared"); (err == nil) != want {
			t.Errorf("with %d bytes free: prepared is %v", free, err == nil)
		}
	}
}

// If completions of asynchronous syncs are noticed late, a thread performs the next ones, and more of them each time.
func TestNoticedLate(t *testing.T) {
	l := &logFile{}
	for _, c := range []struct {
		took time.Duration
		want int
	}{{lateSync - 1, 0}, {lateSync, leastByThread}, {lateSync, 2 * leastByThread}, {time.Hour, 4 * leastByThread}} {
		if l.noticed(c.took); l.byThread != c.want {
			t.Errorf("after %v, %d by a thread, want %d", c.took, l.byThread, c.want)
		}
	}
	for range 20 {
		l.noticed(lateSync)
	}
	if l.byThread != mostByThread {
		t.Errorf("%d by a thread, want %d at most", l.byThread, mostByThread)
	}
	l.byThread = 0
	if l.noticed(0); l.backOff != 0 {
		t.Error("one that was noticed in time changes nothing")
	}
}

// A file that is being prepared when the database is closed is removed.
func TestStopped(t *testing.T) {
	under := vfs.NewMem()
	var fs *FS
	fs = newFS(t, errorfs.Wrap(under, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Path == "db/prepared" && op.Kind == errorfs.OpFileWrite {
			fs.mu.Lock()
			fs.closed = true
			fs.mu.Unlock()
		}
		return nil
	})))
	f, err := fs.Create("db/1.log", category)
	write(t, f, err, prepareAfterBytes)
	if err := fs.Stop(); err != nil || fs.spare != none {
		t.Errorf("stopped: %v, the prepared file is at %d", err, fs.spare)
	}
	if _, err := under.Stat("db/prepared"); err == nil {
		t.Error("half of a file is left")
	}
}

// If the kernel cannot sync asynchronously, the log is synced in the usual way.
func TestUnusable(t *testing.T) {
	var s syncer
	defer s.close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = r.Close(), w.Close() }()
	if done, err := s.dataSync(w.Fd()); done || err != nil {
		t.Errorf("a pipe was synced: %v, %v", done, err)
	}
}

// A log that is read while it is written ends at its durable offset, whether its file is new or was prepared; a
// closed log is read unchanged.
func TestReadOfALiveLog(t *testing.T) {
	dir := t.TempDir()
	f := New(vfs.Default, dir, 1<<20)
	name := filepath.Join(dir, "log")
	log, err := f.Create(name, category)
	if err != nil {
		t.Fatal(err)
	}
	content := func() string {
		t.Helper()
		r, err := f.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, c := range []struct{ write, durable string }{{"one", ""}, {"", "one"}, {"two", "one"}, {"three", "one"}, {"", "onetwothree"}} {
		if c.write != "" {
			_, err = log.Write([]byte(c.write))
		} else {
			err = log.Sync()
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := content(); got != c.durable {
			t.Errorf("after %q: %q, want %q", c.write, got, c.durable)
		}
	}
	if _, err := log.Write([]byte("four")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(log.Close(), f.Stop()); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if got := content(); got != "onetwothreefour" {
		t.Errorf("of a closed log: %q", got)
	}
}
