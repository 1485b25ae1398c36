package pebblestore

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/store"
)

// positionOf returns the position in an error about a damaged log.
func positionOf(t *testing.T, err error) string {
	t.Helper()
	m := regexp.MustCompile(`--accept-loss-after (\S+) `).FindStringSubmatch(fmt.Sprint(err))
	if !errors.Is(err, store.ErrCorrupt) || m == nil {
		t.Fatalf("%v, want store.ErrCorrupt with a position", err)
	}
	return m[1]
}

// commitRuns creates runs r0, r1, … with large logs, one commit each.
func commitRuns(t *testing.T, s *Store, sizes ...int) {
	t.Helper()
	commitNamed(t, s, "r", sizes...)
}

func commitNamed(t *testing.T, s *Store, name string, sizes ...int) {
	t.Helper()
	for i, n := range sizes {
		k := store.RunKey{ID: fmt.Sprint(name, i)}
		c := store.RunCommit{Run: k, Create: true, Append: []store.Entry{{Kind: store.KindStarted, Input: []byte(strings.Repeat("x", n))}},
			State: store.RunState{Run: k, Workflow: "w", Status: store.Completed, WakeUnixMs: store.NoWake, Length: 1, CreatedUnixMs: 1,
				EndedUnixMs: 2}}
		if err := acquire(t, s, k.Partition()).Commit(t.Context(), []store.RunCommit{c}); err != nil {
			t.Fatal(err)
		}
	}
}

// cutLog cuts a damaged log. It checks that a dry run and a wrong position change nothing, that the damaged files are
// kept, and that the store then has exactly the first commits. It returns their number and the loss.
func cutLog(t *testing.T, dir string, runs int) (left int, l *Loss) {
	t.Helper()
	_, err := Check(t.Context(), dir, CheckOptions{})
	position := positionOf(t, err)
	before, files := fileHashes(t, dir), map[string][]byte{}
	for _, wrong := range []string{"", position + "0", "0" + position, strings.Replace(position, ":", ":1", 1)} {
		if _, err := AcceptLoss(dir, wrong, true); !errors.Is(err, ErrNoLoss) {
			t.Fatalf("at %q, where it is not damaged: %v", wrong, err)
		}
	}
	dry, err := AcceptLoss(dir, position, false)
	if err != nil || dry.Kept != "" {
		t.Fatal(dry, err)
	}
	for _, name := range append([]string{dry.File}, dry.Later...) {
		files[name], err = os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
	}
	if after := fileHashes(t, dir); after != before {
		t.Fatalf("files were changed:\n%s\nbefore:\n%s", after, before)
	}
	if written := int64(len(bytes.TrimRight(files[dry.File], "\x00"))) - dry.Offset; len(dry.Later) == 0 && dry.Bytes != written {
		t.Errorf("%d bytes are said to be lost, and %d were written", dry.Bytes, written)
	}
	l, err = AcceptLoss(dir, position, true)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if b, err := os.ReadFile(filepath.Join(l.Kept, name)); err != nil || string(b) != string(want) {
			t.Errorf("%s was not kept as it was: %v", name, err)
		}
	}
	if r, err := Check(t.Context(), dir, CheckOptions{}); err != nil || r.Left() > 0 {
		t.Fatalf("after the cut: %+v %v", r, err)
	}
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range runs {
		_, entries, err := s.Run(t.Context(), store.RunKey{ID: fmt.Sprint("r", i)})
		switch {
		case err == nil && len(entries) == 1 && left == i:
			left++
		case err == nil:
			t.Errorf("run %d is there with %d entries, and run %d is not", i, len(entries), left)
		case !errors.Is(err, store.ErrNotFound):
			t.Error(err)
		}
	}
	for _, r := range l.Runs { // nothing is named that is not lost
		var n int
		if _, err := fmt.Sscanf(r.Run, "r%d", &n); err != nil || n < left {
			t.Errorf("%q is named as lost, and runs up to %d are there", r.Run, left)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := AcceptLoss(dir, position, true); !errors.Is(err, ErrNoLoss) {
		t.Errorf("a second time: %v", err)
	}
	return left, l
}

// TestAcceptLoss flips a random bit of random logs and cuts them there: what was committed before the damage is kept,
// nothing else is, and most of the loss is reported by name.
func TestAcceptLoss(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 2))
	lost, named := 0, 0
	for range 12 {
		sizes := make([]int, 5+rnd.IntN(30))
		for i := range sizes {
			sizes[i] = 1 << rnd.IntN(16)
		}
		dir := filepath.Join(t.TempDir(), "store")
		s, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		commitRuns(t, s, sizes...)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		log := lastFile(t, dir, "*.log")
		b, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		at := rnd.IntN(max(len(b)-2*sizes[len(sizes)-1]-2000, 1))
		flip(t, log, at, 1<<rnd.IntN(8))
		if _, err := Check(t.Context(), dir, CheckOptions{}); err == nil || !strings.Contains(err.Error(), "--accept-loss-after") {
			continue // in padding, or in data that need not be durable: see TestDamagedLogRandom
		}
		left, l := cutLog(t, dir, len(sizes))
		lost, named = lost+len(sizes)-left, named+len(l.Runs)
	}
	if t.Logf("%d runs were lost, %d named", lost, named); lost == 0 || named < lost/2 {
		t.Error("too few")
	}
}

// stuckTables is a file system on which, from some moment on, creating a table blocks until it is released.
type stuckTables struct {
	vfs.FS
	stuck   *atomic.Bool
	release chan struct{}
}

func (f stuckTables) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasSuffix(name, ".sst") && f.stuck.Load() {
		<-f.release
	}
	return f.FS.Create(name, c)
}

func (f stuckTables) Unwrap() vfs.FS { return f.FS }

// TestAcceptLossOfSeveralLogs damages the oldest of several logs that were not written to tables yet: the later ones
// are given up, too.
func TestAcceptLossOfSeveralLogs(t *testing.T) {
	live, dir, release := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "store"), make(chan struct{})
	open := sync.OnceFunc(func() { close(release) })
	defer open()
	stuck := &atomic.Bool{}
	s, err := Open(live, Options{Around: func(fs vfs.FS) vfs.FS { return stuckTables{fs, stuck, release} }})
	if err != nil {
		t.Fatal(err)
	}
	stuck.Store(true)
	sizes := slices.Repeat([]int{60 << 10}, 14) // a memtable has 256 KiB at first, and doubles each time
	commitRuns(t, s, sizes...)
	if err := os.CopyFS(dir, os.DirFS(live)); err != nil {
		t.Fatal(err)
	}
	open()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	logs, err := logsOf(dir)
	if err != nil || len(logs) < 2 {
		t.Fatal(logs, err)
	}
	flip(t, filepath.Join(dir, logs[0]), 100<<10, 4)
	left, l := cutLog(t, dir, len(sizes))
	if left == 0 || left > 3 || !slices.Equal(l.Later, logs[1:]) || len(l.Runs) < len(sizes)/2 {
		t.Errorf("%d runs are left, %+v", left, l)
	}
}

// TestAcceptLossIsForLogs refuses to cut anything if a table or the list of tables is damaged, or nothing is.
func TestAcceptLossIsForLogs(t *testing.T) {
	dir := written(t, true, 3000, 3000, 3000)
	if _, err := AcceptLoss(dir, lastFile(t, dir, "*.log")+":0", true); !errors.Is(err, ErrNoLoss) {
		t.Errorf("a sound store: %v", err)
	}
	list := lastFile(t, dir, "MANIFEST-*")
	flip(t, list, 30, 1)
	before := fileHashes(t, dir)
	if _, err := AcceptLoss(dir, filepath.Base(list)+":0", true); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("the list of tables: %v", err)
	}
	if after := fileHashes(t, dir); after != before {
		t.Errorf("files were changed:\n%s\nbefore:\n%s", after, before)
	}
}

// TestAcceptLossOfNeededLogs ignores a log whose data is in tables and that a killed process has not yet removed. A
// store with damage in such a log can be opened. If another log is damaged, that one is named and cut.
func TestAcceptLossOfNeededLogs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	begin := func(sizes ...int) (log string) {
		s, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		commitRuns(t, s, sizes...)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return lastFile(t, dir, "*.log")
	}
	old := begin(3000, 3000, 3000)
	b, err := os.ReadFile(old)
	if err != nil {
		t.Fatal(err)
	}
	left := func() { // as a killed process leaves it, with one flipped bit
		if err := os.WriteFile(old, b, 0o600); err != nil {
			t.Fatal(err)
		}
		flip(t, old, 1000, 1)
	}
	begin()
	left()
	if _, err := AcceptLoss(dir, filepath.Base(old)+":0", true); !errors.Is(err, ErrNoLoss) {
		t.Errorf("nothing is damaged that is needed: %v", err)
	}
	if r, err := Check(t.Context(), dir, CheckOptions{}); err != nil || r.Left() > 0 {
		t.Errorf("%+v %v", r, err)
	}
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if _, _, err := s.Run(t.Context(), store.RunKey{ID: fmt.Sprint("r", i)}); err != nil {
			t.Error(err)
		}
	}
	commitNamed(t, s, "s", 3000, 3000, 3000)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	needed := lastFile(t, dir, "*.log")
	flip(t, needed, 4000, 1)
	left()
	_, err = Open(dir, Options{})
	position := positionOf(t, err)
	if !strings.HasPrefix(position, filepath.Base(needed)+":") {
		t.Fatalf("%s is named, and %s is damaged", position, filepath.Base(needed))
	}
	if l, err := AcceptLoss(dir, position, true); err != nil || len(l.Later) != 0 || len(l.Runs) == 0 {
		t.Errorf("%+v %v", l, err)
	}
}
