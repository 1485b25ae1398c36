package pebblestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/store"
)

// TestFinding21_CorruptRunStopsNobody damages records of runs: a commit that needs them names the run, the runs beside
// it can be committed, and the store has not failed.
func TestFinding21_CorruptRunStopsNobody(t *testing.T) {
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
