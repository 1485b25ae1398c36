package pebblestore

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/pebblestore/logfs"
)

// TestStalls slows down disk operations: an operation that takes two seconds is logged by name, again each time its
// duration has doubled, and when it ends. The watchdog is idle while there are none.
func TestStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var said []string
		delay := map[string]time.Duration{}
		mem := vfs.NewMem()
		under := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			mu.Lock()
			d := delay[fmt.Sprint(op.Kind == errorfs.OpFileSyncData, " ", op.Path)]
			mu.Unlock()
			<-time.After(d)
			return nil
		}))
		w := &stallWatch{report: func(s stall) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, fmt.Sprint(s.Op, " ", s.Path, " ", s.For, " ", s.Over))
		}}
		fs := stallFS{under, w}
		expect := func(want string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if got := strings.Join(said, ", "); got != want {
				t.Errorf("reported: %s\nwant %s", got, want)
			}
			said = nil
		}
		a, err := fs.Create("a", "test")
		if err != nil {
			t.Fatal(err)
		}
		b, err := fs.Create("b", "test")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Hour)
		synctest.Wait()
		w.mu.Lock()
		armed := w.armed
		w.mu.Unlock()
		if armed {
			t.Error("nothing goes on, and the timer is set")
		}
		expect("")
		delay["true a"], delay["true b"], delay["false c"] = 9*time.Second, slowDisk-time.Nanosecond, 2500*time.Millisecond
		var ops sync.WaitGroup
		ops.Go(func() { _ = a.SyncData() })
		<-time.After(time.Second)
		ops.Go(func() { _ = b.SyncData() })
		ops.Go(func() { _, _ = fs.Create("c", "test") })
		ops.Wait()
		expect("sync a 2s false, create c 2s false, create c 2.5s true, sync a 4s false, sync a 8s false, sync a 9s true")
		if n := w.count.Load(); n != 2 {
			t.Errorf("%d stalls were counted", n)
		}
		ops.Go(func() { _ = a.SyncData() })
		w.close()
		ops.Wait()
		expect("")
	})
}

// TestStallOfAStore has the fsync of a commit stall: it is logged during the stall, with the name of the log, and
// counted.
func TestStallOfAStore(t *testing.T) {
	g := newGate()
	log := &lockedBuffer{said: make(chan struct{}, 10)}
	s, err := Open("db", Options{FS: logfs.New(g.fs, "db", 1<<20), Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		t.Fatal(err)
	}
	run := store.RunKey{ID: "r"}
	part := acquire(t, s, run.Partition())
	g.set(true)
	done := make(chan error, 1)
	go func() { done <- appendTo(t.Context(), part, run, 0, 1) }()
	<-log.said
	if text := log.String(); !strings.Contains(text, `msg="the disk is slow, and commits wait for it" operation=sync file=db/`) ||
		!strings.Contains(text, ".log for=2") || s.stalls.count.Load() == 0 {
		t.Errorf("%s, %d stalls", text, s.stalls.count.Load())
	}
	g.set(false)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	<-log.said
	if text := log.String(); !strings.Contains(text, "the disk has answered") {
		t.Error(text)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

type lockedBuffer struct {
	mu   sync.Mutex
	b    bytes.Buffer
	said chan struct{}
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said <- struct{}{}
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
