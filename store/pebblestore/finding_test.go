package pebblestore

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/wfhost/wfhost/store"
)

// TestCorruptRunStopsNobody damages records of runs: a commit that needs them fails with the name of the run, other
// runs can be committed, and the store has not failed.
func TestCorruptRunStopsNobody(t *testing.T) {
	s, err := Open("db", Options{FS: vfs.NewMem(), OnFailure: func(err error) { t.Error("the store has failed:", err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for n, c := range []struct {
		want   error
		damage func(run store.RunKey) error
	}{
		{store.ErrCorrupt, func(run store.RunKey) error {
			return s.db.Set(store.RunTableKey(run, store.TableState), []byte("damaged bytes"), pebble.Sync)
		}},
		{store.ErrCorrupt, func(run store.RunKey) error {
			return s.db.Set(store.RunTableKey(run, store.TableState), nil, pebble.Sync)
		}},
		{store.ErrVersion, func(run store.RunKey) error {
			newer := []byte{0, 0, 0, 0, 0, 0, 0, 0, store.CodecVersion + 1, 0x7f, 0, 0, 0, 0}
			sum := crc32.Checksum(newer[8:10], crc32.MakeTable(crc32.Castagnoli))
			binary.LittleEndian.PutUint32(newer[10:], sum)
			return s.db.Set(store.RunTableKey(run, store.TableState), newer, pebble.Sync)
		}},
		{store.ErrCorrupt, func(run store.RunKey) error {
			return s.db.Delete(store.JournalKey(run, 0, 0), pebble.Sync)
		}},
	} {
		part := acquire(t, s, 3)
		var group store.Group
		for i := 0; len(group.Runs) < 3; i++ {
			run := store.RunKey{ID: fmt.Sprint("r", n, ".", i)}
			if run.Partition() != 3 {
				continue
			}
			if err := appendTo(t.Context(), part, run, 0, 2); err != nil {
				t.Fatal(err)
			}
			group.Runs = append(group.Runs, store.RunCommit{Run: run, Expect: 2,
				State: store.RunState{Run: run, Status: store.Sleeping, WakeUnixMs: store.NoWake}})
		}
		group.Partition = part
		if err := c.damage(group.Runs[1].Run); err != nil {
			t.Fatal(err)
		}
		s.cache.put(group.Runs[1].Run, nil)
		err := s.Commit(t.Context(), []store.Group{{Partition: acquire(t, s, 9)}, group})
		if r := (*store.RefusedError)(nil); !errors.As(err, &r) || r.Group != 1 || r.Run != 1 || !errors.Is(err, c.want) {
			t.Fatalf("damage %d: %v", n, err)
		}
		group.Runs = append(group.Runs[:1], group.Runs[2])
		if err := s.Commit(t.Context(), []store.Group{group}); err != nil {
			t.Fatalf("damage %d: %v", n, err)
		}
	}
}

// seen is what readers get of a run.
type seen struct{ first, second, lines, chunks int }

func read(t *testing.T, s *Store, run store.RunKey) (n seen) {
	t.Helper()
	for iteration, count := range []*int{&n.first, &n.second} {
		for _, err := range s.Load(t.Context(), run, uint32(iteration), 0) {
			if err != nil {
				t.Error(err)
			}
			*count++
		}
	}
	lines, err := s.Logs(t.Context(), run, 0, 100)
	chunks, err2 := s.Output(t.Context(), run, 0, 100)
	if err := errors.Join(err, err2); err != nil {
		t.Error(err)
	}
	n.lines, n.chunks = len(lines), len(chunks)
	return n
}

// TestReadsOnlyDurable reads runs while the fsync of a commit of them is blocked: readers get the previous data, or
// wait as well.
func TestReadsOnlyDurable(t *testing.T) {
	run := store.RunKey{ID: "r"}
	entries := func(from, n int) (list []store.Entry) {
		for i := range n {
			list = append(list, store.Entry{Seq: store.Seq(from + i), Kind: store.KindSleep, Data: make([]byte, 1000)})
		}
		return list
	}
	commit := func(iteration uint32, expect, n, lines, chunks int) store.RunCommit {
		c := store.RunCommit{Run: run, Expect: store.Seq(expect), Append: entries(expect, n),
			State: store.RunState{Run: run, Iteration: iteration, Length: store.Seq(expect + n), Status: store.Sleeping,
				WakeUnixMs: store.NoWake, LogRecords: uint64(lines), Output: uint64(chunks)}}
		for i := lines - 1; i < lines; i++ {
			c.Logs = append(c.Logs, store.LogLine{Index: uint64(i)})
		}
		for i := chunks - 1; i < chunks; i++ {
			c.Output = append(c.Output, store.Chunk{Index: uint64(i)})
		}
		return c
	}
	first, more := commit(0, 0, 3, 1, 1), commit(0, 3, 9, 2, 2) // which begins chunks
	first.Create = true
	next := commit(1, 0, 2, 3, 3)
	next.Before = &store.IterationEnd{Expect: 12, Append: entries(12, 4)}
	onward := commit(1, 2, 2, 4, 4)
	ended := commit(1, 4, 1, 5, 5)
	ended.State.Status = store.Completed
	again := commit(0, 0, 1, 1, 1)
	again.Create, again.Replace = true, true
	s, g := openGate(t)
	part := acquire(t, s, run.Partition())
	was := seen{}
	for i, c := range []struct {
		commit store.RunCommit
		forget bool // the run is not in the cache
		now    seen
	}{
		{first, false, seen{3, 0, 1, 1}},
		{more, false, seen{12, 0, 2, 2}},
		{next, false, seen{16, 2, 3, 3}},
		{onward, true, seen{16, 4, 4, 4}},
		{ended, false, seen{16, 5, 5, 5}},
		{again, true, seen{1, 0, 1, 1}},
		{more, false, seen{10, 0, 2, 2}},
		{again, false, seen{1, 0, 1, 1}},
		{store.RunCommit{Run: run, Delete: true}, false, seen{}},
	} {
		if i == 6 {
			c.commit = commit(0, 1, 9, 2, 2)
		}
		waits := i == 0 || c.forget || c.commit.Delete || c.commit.Replace
		if c.forget {
			s.cache.put(run, nil)
		}
		before := s.db.Metrics().WAL.BytesIn
		g.set(true)
		done, got := make(chan error, 1), make(chan seen, 1)
		go func() { done <- part.Commit(t.Context(), []store.RunCommit{c.commit}) }()
		for s.db.Metrics().WAL.BytesIn == before { //nolint:revive // until it is applied
		}
		go func() { got <- read(t, s, run) }()
		if !waits {
			if n := <-got; n != was {
				t.Errorf("commit %d: %+v is read before it is durable, want %+v", i, n, was)
			}
			go func() { got <- read(t, s, run) }()
		}
		select {
		case n := <-got:
			if n != was {
				t.Errorf("commit %d: %+v is read before it is durable, want %+v or none", i, n, was)
			}
			got <- c.now
		case <-time.After(10 * time.Millisecond):
		}
		g.set(false)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		<-got
		if n := read(t, s, run); n != c.now {
			t.Errorf("commit %d: %+v is read, want %+v", i, n, c.now)
		}
		was = c.now
	}
}

// TestPayloadSharesModuleBlob reads a module that an earlier release has stored as a blob. Deleting the module leaves
// the blob, which may also be a payload. Storing the module again gives it a key of its own.
func TestPayloadSharesModuleBlob(t *testing.T) {
	s, err := Open("db", Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	wasm := []byte("wasm")
	d := store.Digest(sha256.Sum256(wasm))
	blob, info := store.GlobalKey(0, store.TableBlob, d[:]), store.ModuleInfo{Size: 4}
	err = errors.Join(s.db.Set(blob, wasm, pebble.Sync),
		s.db.Set(store.GlobalKey(0, store.TableModule, d[:]), store.AppendModuleInfo(nil, &info), pebble.Sync))
	if err != nil {
		t.Fatal(err)
	}
	m := s.Modules()
	for _, want := range []bool{false, true} { // whether it has a key of its own
		v, err := m.AddVersions(t.Context(), []store.VersionSpec{{Workflow: "w", Module: d}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := m.Get(t.Context(), d)
		own, err2 := s.get(wasmKey(d))
		if err := errors.Join(err, err2); err != nil || string(got) != "wasm" || (own != nil) != want {
			t.Fatalf("%q, of its own %q: %v", got, own, err)
		}
		if err := m.DeleteVersion(t.Context(), 0, "w", v[0].Number); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Get(t.Context(), d); !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		if left, err := s.get(blob); err != nil || string(left) != "wasm" {
			t.Fatalf("%q %v", left, err)
		}
		if _, err := m.Put(t.Context(), wasm, info); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.db.Set(wasmKey(d), []byte("other"), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Get(t.Context(), d); !errors.Is(err, store.ErrCorrupt) {
		t.Fatal(err)
	}
}

// TestFormatIsRaised opens a store of format 1 with a sleeping run and upgrades it to the current format.
func TestFormatIsRaised(t *testing.T) {
	fs := vfs.NewMem()
	s, err := Open("db", Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	run := store.RunKey{ID: "r"}
	old := binary.BigEndian.AppendUint16([]byte{1}, store.Partitions)
	err = errors.Join(appendTo(t.Context(), acquire(t, s, run.Partition()), run, 0, 1), s.db.Set(formatKey, old, pebble.Sync))
	// A wake as version 1 wrote it.
	key := binary.BigEndian.AppendUint64(store.AppendPrefix(nil, 0, run.Partition(), store.TableWake), 70)
	err = errors.Join(err, s.db.Set(append(key, "old"...), binary.BigEndian.AppendUint64(nil, 70), pebble.Sync), s.Close())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s, err = Open("db", Options{FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		wakes, err := acquire(t, s, run.Partition()).Due(t.Context(), store.WakeKey{}, 1000, 10)
		v, err2 := s.get(formatKey)
		want := store.WakeKey{UnixMs: 70, Key: store.RunKey{ID: "old"}}
		if err := errors.Join(err, err2); err != nil || v[0] != store.FormatVersion || len(wakes) != 2 || wakes[1].Key != want {
			t.Fatalf("version %v, wakes %+v: %v", v, wakes, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s, err = Open("db", Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	newer := binary.BigEndian.AppendUint16([]byte{store.FormatVersion + 1}, store.Partitions)
	if err := errors.Join(s.db.Set(formatKey, newer, pebble.Sync), s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open("db", Options{FS: fs}); !errors.Is(err, store.ErrVersion) {
		t.Fatal(err)
	}
}

// TestFailingClose closes a store whose disk starts to fail at that moment: the caller gets the error.
func TestFailingClose(t *testing.T) {
	var failing atomic.Bool
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if failing.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return syscall.ENOSPC
		}
		return nil
	}))
	s, err := Open("db", Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Acquire(t.Context(), store.RunKey{ID: "r"}.Partition(), "a", 0)
	if err == nil {
		st := store.RunState{Run: store.RunKey{ID: "r"}, Workflow: "w", Status: store.Running, WakeUnixMs: store.NoWake}
		err = p.Commit(t.Context(), []store.RunCommit{{Run: st.Run, Create: true, State: st}})
	}
	if err != nil {
		t.Fatal(err)
	}
	failing.Store(true)
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	select {
	case err := <-closed:
		if err == nil {
			t.Error("nobody was told")
		}
	case <-time.After(time.Minute):
		t.Fatal("it is not closed")
	}
}
