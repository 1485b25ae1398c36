package pebblestore_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"go.uber.org/goleak"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/pebblestore"
	"github.com/wfhost/wfhost/store/pebblestore/logfs"
	"github.com/wfhost/wfhost/store/storetest"
)

func TestStore(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent()) // stores that failed in earlier tests leave goroutines
	storetest.Run(t, func(t *testing.T) storetest.Open {
		dir := t.TempDir()
		return func(t *testing.T) store.Store {
			s, err := pebblestore.Open(dir, pebblestore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
	}, "many namespaces") // which takes an fsync each: see TestManyNamespaces
}

func open(t *testing.T, fs vfs.FS) *pebblestore.Store {
	t.Helper()
	s, err := pebblestore.Open("db", pebblestore.Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func commit(p store.Partition, id string, n int) error {
	st := store.RunState{Run: store.RunKey{ID: id}, Workflow: "w", Status: store.Running, WakeUnixMs: store.NoWake, Length: store.Seq(n + 1)}
	return p.Commit(context.Background(), []store.RunCommit{{Run: st.Run, Create: n == 0, Expect: store.Seq(n), State: st,
		Append: []store.Entry{{Seq: store.Seq(n), Kind: store.KindSleep, Name: strings.Repeat("x", 300)}}}})
}

// TestNoSync makes nothing durable, but reads still return what was written.
func TestNoSync(t *testing.T) {
	var syncs atomic.Int64
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
			syncs.Add(1)
		}
		return nil
	}))
	for n := range 2 {
		s, err := pebblestore.Open("db", pebblestore.Options{FS: fs, NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		p, err := s.Acquire(t.Context(), store.RunKey{ID: "r"}.Partition(), "me", 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := commit(p, "r", n); err != nil {
			t.Fatal(err)
		}
		if got := count(t, s, "r"); got != n+1 {
			t.Errorf("%d entries", got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := syncs.Load(); n != 0 {
		t.Errorf("%d fsyncs", n)
	}
}

func count(t *testing.T, s store.Store, id string) int {
	t.Helper()
	n := 0
	for _, err := range s.Load(context.Background(), store.RunKey{ID: id}, 0, 0) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// TestPowerLoss cuts the power after every commit, with some of the unsynced data on the disk: acknowledged data is
// there, and the journal ends with a complete entry.
func TestPowerLoss(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := open(t, fs)
	p, err := s.Acquire(context.Background(), store.RunKey{ID: "r"}.Partition(), "test", 0)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 60 {
		if err := commit(p, "r", n); err != nil {
			t.Fatal(err)
		}
		clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: n * 100 / 60, RNG: rng})
		again := open(t, clone)
		if got := count(t, again, "r"); got != n+1 {
			t.Fatalf("%d entries after a crash, %d were acknowledged", got, n+1)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestPowerLossOfPreparedLogs does the same with preallocated logs: what follows the last commit in the file is read
// as its end.
func TestPowerLossOfPreparedLogs(t *testing.T) {
	under := vfs.NewCrashableMem()
	prepared := 0
	fs := logfs.New(errorfs.Wrap(under, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpReuseForWrite && op.Path == "db/prepared" {
			prepared++
		}
		return nil
	})), "db", 1<<20)
	s := open(t, fs)
	p, err := s.Acquire(t.Context(), store.RunKey{ID: "r"}.Partition(), "test", 0)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	const commits = 150
	for n := range commits {
		st := store.RunState{Run: store.RunKey{ID: "r"}, Workflow: "w", Status: store.Running, WakeUnixMs: store.NoWake, Length: store.Seq(n + 1)}
		if err := p.Commit(t.Context(), []store.RunCommit{{Run: st.Run, Create: n == 0, Expect: store.Seq(n), State: st,
			Append: []store.Entry{{Seq: store.Seq(n), Kind: store.KindSleep, Name: strings.Repeat("x", rng.IntN(30_000))}}}}); err != nil {
			t.Fatal(err)
		}
		clone := under.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: n * 100 / commits, RNG: rng})
		again := open(t, logfs.New(clone, "db", 1<<20))
		if got := count(t, again, "r"); got != n+1 {
			t.Fatalf("%d entries after a crash, %d were acknowledged", got, n+1)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Close(), fs.Stop()); err != nil {
		t.Fatal(err)
	}
	if prepared < 2 {
		t.Errorf("%d logs were prepared", prepared)
	}
}

// TestFailingDisk has the n-th write or sync, and all later ones, fail: the store reports that, refuses changes, and
// after a restart has what was acknowledged.
func TestFailingDisk(t *testing.T) {
	for n := range 40 {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			mem := vfs.NewMem()
			s := open(t, mem)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			var failing atomic.Bool
			var left atomic.Int64
			left.Store(int64(n))
			inj := errorfs.InjectorFunc(func(op errorfs.Op) error {
				if !failing.Load() || op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
					return nil
				}
				if left.Add(-1) < 0 {
					return errorfs.ErrInjected
				}
				return nil
			})
			told := make(chan error, 1)
			s, err := pebblestore.Open("db", pebblestore.Options{FS: errorfs.Wrap(mem, inj), OnFailure: func(err error) { told <- err }})
			if err != nil {
				t.Fatal(err)
			}
			p, err := s.Acquire(context.Background(), store.RunKey{ID: "r"}.Partition(), "test", 0)
			if err != nil {
				t.Fatal(err)
			}
			failing.Store(true)
			acknowledged := 0
			for err == nil && acknowledged < 100 {
				err = commit(p, "r", acknowledged)
				if err == nil {
					acknowledged++
				}
			}
			if err == nil {
				t.Fatal("the disk never failed")
			}
			if !errors.Is(err, store.ErrFailed) || !errors.Is(err, store.ErrUnknown) {
				t.Fatalf("error %v", err)
			}
			if err := commit(p, "other", 0); !errors.Is(err, store.ErrFailed) {
				t.Fatalf("a failed store accepted a write: %v", err)
			}
			if err := <-told; !errors.Is(err, store.ErrFailed) {
				t.Fatalf("the embedder was told %v", err)
			}
		})
	}
}

// TestFailingDiskBusy does the same with concurrent commits while the log changes files: Pebble would end the process
// on some of these errors.
func TestFailingDiskBusy(t *testing.T) {
	for n := range 60 {
		mem := vfs.NewCrashableMem()
		var failing atomic.Bool
		var left atomic.Int64
		left.Store(int64(n))
		told := make(chan error, 1)
		s, err := pebblestore.Open("db", pebblestore.Options{OnFailure: func(err error) { told <- err },
			FS: errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if failing.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && left.Add(-1) < 0 {
					return errorfs.ErrInjected
				}
				return nil
			}))})
		if err != nil {
			t.Fatal(err)
		}
		failing.Store(true)
		const runs = 8
		acknowledged := make([]int, runs)
		var committing sync.WaitGroup
		for i := range runs {
			id := "r" + strconv.Itoa(i)
			p, err := s.Acquire(t.Context(), store.RunKey{ID: id}.Partition(), "test", 0)
			if err != nil {
				continue // it has failed already
			}
			committing.Go(func() {
				for n := 0; n < 1000; n++ {
					st := store.RunState{Run: store.RunKey{ID: id}, Workflow: "w", Status: store.Running, WakeUnixMs: store.NoWake, Length: store.Seq(n + 1)}
					err := p.Commit(t.Context(), []store.RunCommit{{Run: st.Run, Create: n == 0, Expect: store.Seq(n), State: st,
						Append: []store.Entry{{Seq: store.Seq(n), Kind: store.KindSleep, Name: strings.Repeat("x", 30_000)}}}})
					if err != nil {
						if !errors.Is(err, store.ErrFailed) {
							t.Errorf("a commit: %v", err)
						}
						return
					}
					acknowledged[i]++
				}
				t.Error("the disk never failed")
			})
		}
		committing.Wait()
		if err := <-told; !errors.Is(err, store.ErrFailed) {
			t.Fatalf("the embedder was told %v", err)
		}
		failing.Store(false)
		again := open(t, mem.CrashClone(vfs.CrashCloneCfg{}))
		for i := range runs {
			if got := count(t, again, "r"+strconv.Itoa(i)); got < acknowledged[i] {
				t.Fatalf("%d entries after the failure, %d were acknowledged", got, acknowledged[i])
			}
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLocked(t *testing.T) {
	dir := t.TempDir()
	s, err := pebblestore.Open(dir, pebblestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pebblestore.Open(dir, pebblestore.Options{}); !errors.Is(err, store.ErrLocked) {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := pebblestore.Open("/dev/null/x", pebblestore.Options{}); err == nil {
		t.Fatal("opened a store where none can be")
	}
}
