package pebblestore

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/store"
)

// steps returns the number of keys, including deleted ones, that a search for the first command of an inbox visits.
func steps(t *testing.T, s *Store, p store.PartitionID) int {
	t.Helper()
	mark, err := s.firstCommand(p)
	if err != nil {
		t.Fatal(err)
	}
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: inboxKey(p, mark),
		UpperBound: store.PrefixEnd(store.AppendPrefix(nil, 0, p, store.TableInbox))})
	if err != nil {
		t.Fatal(err)
	}
	it.First()
	n := it.Stats().ForwardStepCount[pebble.InternalIterCall]
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}

// submit puts a command into an inbox.
func submit(t *testing.T, s *Store, p store.PartitionID, cmd store.Command) error {
	t.Helper()
	for i := 0; cmd.To.ID == "" || cmd.To.Partition() != p; i++ {
		cmd.To.ID = fmt.Sprint("r", i)
	}
	return acquire(t, s, store.Partitions-1).Discard(t.Context(), nil, []store.Command{cmd})
}

// TestInboxTombstones consumes commands: a search does not visit the consumed ones, after a restart at most as many
// as the mark lags behind.
func TestInboxTombstones(t *testing.T) {
	const p, batch = 5, 100
	fs := vfs.NewMem()
	s, err := Open("db", Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	part := acquire(t, s, p)
	n := store.CommandSeq(0)
	for range 3 * inboxMarkEvery / batch {
		var seqs []store.CommandSeq
		for range batch {
			n++
			cmd := store.Command{ID: store.CommandID{Seq: store.Seq(n)}, Kind: store.CommandSignal}
			if err := submit(t, s, p, cmd); err != nil {
				t.Fatal(err)
			}
			seqs = append(seqs, n)
		}
		if err := part.Discard(t.Context(), seqs, nil); err != nil {
			t.Fatal(err)
		}
		if cmds, err := part.Commands(t.Context(), 0, 10); err != nil || len(cmds) != 0 {
			t.Fatal(cmds, err)
		}
		if got := steps(t, s, p); got > 2 {
			t.Fatalf("a look at the inbox after %d commands takes %d steps", n, got)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = Open("db", Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if mark, err := s.firstCommand(p); err != nil || mark+inboxMarkEvery+batch < n {
		t.Fatalf("mark %d after %d commands: %v", mark, n, err)
	}
}

// TestInboxMark submits and consumes commands at random. After every step the power is cut, with some of the unsynced
// data on the disk: no command is lost, and none comes back.
func TestInboxMark(t *testing.T) {
	const p, rounds = 5, 60
	rng := rand.New(rand.NewPCG(3, 3))
	fs := vfs.NewCrashableMem()
	s, err := Open("db", Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	part := acquire(t, s, p)
	left, n, kept := map[store.CommandSeq]bool{}, 0, 0
	for range rounds {
		for range rng.IntN(60) {
			n++
			if err := submit(t, s, p, store.Command{ID: store.CommandID{Seq: store.Seq(n)}}); err != nil {
				t.Fatal(err)
			}
			left[store.CommandSeq(n)] = true
		}
		var gone []store.CommandSeq
		for seq := range left {
			if rng.IntN(5) > 0 {
				gone = append(gone, seq)
				delete(left, seq)
			}
		}
		if err := part.Discard(t.Context(), gone, nil); err != nil {
			t.Fatal(err)
		}
		s.inboxes[p].stored = min(s.inboxes[p].stored, s.inboxes[p].at-min(s.inboxes[p].at, inboxMarkEvery)) // store it often
		checkInbox(t, part, left)
		again, err := Open("db", Options{FS: fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})})
		if err != nil {
			t.Fatal(err)
		}
		checkInbox(t, acquire(t, again, p), left)
		if again.inboxes[p].stored > 1 {
			kept++
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if kept < rounds/10 {
		t.Errorf("the mark was there after %d crashes", kept)
	}
}

func checkInbox(t *testing.T, part store.Partition, want map[store.CommandSeq]bool) {
	t.Helper()
	n := 0
	for after := (store.CommandSeq(0)); ; {
		cmds, err := part.Commands(t.Context(), after, 7)
		if err != nil {
			t.Fatal(err)
		}
		if len(cmds) == 0 {
			break
		}
		for _, c := range cmds {
			n++
			if !want[c.Seq] || c.Seq <= after {
				t.Fatalf("command %d after %d", c.Seq, after)
			}
			after = c.Seq
		}
	}
	if n != len(want) {
		t.Fatalf("%d commands, want %d", n, len(want))
	}
}

// TestDamagedCommand damages a command in an inbox: the commands around it can still be read.
func TestDamagedCommand(t *testing.T) {
	const p, damaged = 3, 2
	s, err := Open("db", Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	part := acquire(t, s, p)
	for n := range 3 {
		cmd := store.Command{ID: store.CommandID{Seq: store.Seq(n)}, Kind: store.CommandSignal}
		if err := submit(t, s, p, cmd); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.db.Set(inboxKey(p, damaged), []byte{0xff}, pebble.Sync); err != nil {
		t.Fatal(err)
	}
	cmds, err := part.Commands(t.Context(), 0, 10)
	if err != nil || len(cmds) != 3 {
		t.Fatalf("%d commands: %v", len(cmds), err)
	}
	for i, c := range cmds {
		if whole := c.Kind == store.CommandSignal && len(c.To.ID) > 0; c.Seq != store.CommandSeq(i+1) || whole == (c.Seq == damaged) {
			t.Errorf("command %d: %+v", i, c)
		}
	}
}
