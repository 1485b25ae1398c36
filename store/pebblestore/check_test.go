package pebblestore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// checked is a store with runs of all kinds that is checked when it is closed.
type checked struct {
	*testing.T
	dir string
	s   *Store
	run store.RunKey // one of them, which sleeps
}

// newChecked makes a store with a few runs of two namespaces, a large payload, a module, a command, log and output.
func newChecked(t *testing.T) *checked {
	t.Helper()
	c := &checked{T: t, dir: filepath.Join(t.TempDir(), "store")}
	var err error
	c.s, err = Open(c.dir, Options{NoSync: true})
	c.do(err)
	ns, err := c.s.Namespace(t.Context(), "other", true)
	c.do(err)
	wasm, err := c.s.Modules().Put(t.Context(), []byte("module"), store.ModuleInfo{Size: 6})
	c.do(err)
	_, err = c.s.Modules().AddVersions(t.Context(), []store.VersionSpec{{Workflow: "w", Module: wasm}})
	c.do(err)
	for i := range 40 {
		run := store.RunKey{ID: fmt.Sprint("r", i), Namespace: store.NamespaceID(i%2) * ns}
		st := store.RunState{Run: run, Workflow: fmt.Sprint("w", i%3), Version: 1, Module: wasm, Status: store.Status(1 + i%10),
			CreatedUnixMs: int64(i), WakeUnixMs: store.NoWake, LogRecords: 1, Output: 1, Attributes: []store.Attribute{{Key: "k", Value: "v"}}}
		if st.Status == store.Sleeping {
			c.run, st.WakeUnixMs = run, 1000
		}
		if st.Status.Terminal() {
			st.EndedUnixMs = 500
		}
		p, err := c.s.Acquire(t.Context(), run.Partition(), "a", 0)
		c.do(err)
		entries := []store.Entry{{Kind: store.KindStarted, Input: bytes.Repeat([]byte("x"), abi.BlobBytes+1)}}
		for n := range 50 {
			entries = append(entries, store.Entry{Seq: store.Seq(n + 1), Kind: store.KindEmit, Input: bytes.Repeat([]byte("y"), 200)})
		}
		c.do(p.Commit(t.Context(), []store.RunCommit{{Run: run, Create: true, State: st, Append: entries,
			Logs: []store.LogLine{{Text: "log"}}, Output: []store.Chunk{{Topic: "t"}},
			Outbox: []store.Command{{ID: store.CommandID{Incarnation: store.Incarnation{byte(i + 1)}}, Kind: store.CommandSignal, To: run}}}}))
	}
	c.do(c.s.SetQuota(t.Context(), store.Quota{Namespace: ns, Runs: 1}))
	gone := store.RunKey{ID: "r9"}
	if st, err := c.s.State(t.Context(), gone); err == nil { // it has another namespace
		t.Fatal(st)
	}
	gone.Namespace = ns
	st, err := c.s.State(t.Context(), gone)
	c.do(err)
	st.Deleted, st.WakeUnixMs = true, store.NoWake
	p, err := c.s.Acquire(t.Context(), gone.Partition(), "a", 0)
	c.do(err)
	c.do(p.Commit(t.Context(), []store.RunCommit{{Run: gone, Expect: st.Length, State: st, Delete: true}}))
	return c
}

func (c *checked) do(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// check closes the store and checks it.
func (c *checked) check(repair bool) *Report {
	c.Helper()
	if c.s != nil {
		c.do(c.s.Close())
		c.s = nil
	}
	r, err := Check(c.Context(), c.dir, CheckOptions{Repair: repair, Queue: func(_ string, cells []store.Cell) (problems []string) {
		if last := cells[len(cells)-1]; string(last.Key) == "z" {
			problems = append(problems, fmt.Sprintf("%d cells, of which one is z", len(cells)))
		}
		return problems
	}})
	c.do(err)
	return r
}

// TestRepairRemovesOrphans: a repair removes payloads that no journal refers to, from releases that did not record
// their runs. It removes none while there are other problems, since a journal that cannot be read may refer to them.
// A check only counts them.
func TestRepairRemovesOrphans(t *testing.T) {
	c := newChecked(t)
	put := func(k, v []byte) {
		t.Helper()
		c.do(c.s.db.Set(k, v, pebble.Sync))
	}
	reopen := func() {
		t.Helper()
		var err error
		c.s, err = Open(c.dir, Options{NoSync: true})
		c.do(err)
	}
	const orphans = orphanPortion + 3
	for i := range orphans {
		v := fmt.Appendf(nil, "payload %d", i)
		d := digestOf(v)
		put(store.GlobalKey(0, store.TableBlob, d[:]), v)
		if i == 0 { // as noted by a release of format 4, which found an existing payload
			put(store.GlobalKey(0, store.TableReferred, d[:]), nil)
		}
	}
	journal, chunk := c.firstKey(c.run.Namespace, c.run.Partition(), store.TableJournal)
	put(journal, chunk[:len(chunk)-1])
	if r := c.check(true); r.Orphans < orphans || r.OrphansRemoved != 0 || r.Left() == 0 {
		t.Fatalf("beside a damaged journal: %+v", r)
	}
	reopen()
	put(journal, chunk)
	if r := c.check(false); r.Orphans != orphans || r.OrphanBytes == 0 || r.OrphansRemoved != 0 || len(r.Problems) > 0 {
		t.Fatalf("%+v", r)
	}
	if r := c.check(true); r.OrphansRemoved != orphans || len(r.Problems) > 0 {
		t.Fatalf("%+v", r)
	}
	if r := c.check(false); r.Orphans != 0 || r.Blobs != 1 || len(r.Problems) > 0 {
		t.Fatalf("%+v", r)
	}
	reopen()
	n := 0
	prefix := store.GlobalKey(0, store.TableReferred, nil)
	c.do(c.s.scan(prefix, store.PrefixEnd(prefix), func(k, _ []byte) (bool, error) {
		if len(k) == len(prefix)+len(store.Digest{}) {
			n++
		}
		return true, nil
	}))
	if n != 0 {
		t.Errorf("%d keys of payloads that are gone", n)
	}
	c.do(c.s.Close()) // otherwise a flush may write while the folder is removed
}

func TestCheckOfASoundStore(t *testing.T) {
	c := newChecked(t)
	r := c.check(false)
	if len(r.Problems) > 0 || r.Runs != 39 || r.Entries != 39*51 || r.Modules != 1 || r.Blobs != 1 || r.Commands != 40 || r.Orphans != 0 {
		t.Errorf("%+v", r)
	}
	before := fileHashes(t, c.dir)
	if r := c.check(false); len(r.Problems) > 0 || fileHashes(t, c.dir) != before {
		t.Errorf("a check changes files, or finds %+v", r.Problems)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Check(ctx, c.dir, CheckOptions{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// firstKey returns the first key of a table and its value.
func (c *checked) firstKey(ns store.NamespaceID, p store.PartitionID, table byte) (key, value []byte) {
	c.Helper()
	prefix := store.AppendPrefix(nil, ns, p, table)
	c.do(c.s.scan(prefix, store.PrefixEnd(prefix), func(k, v []byte) (bool, error) {
		key, value = bytes.Clone(k), bytes.Clone(v)
		return false, nil
	}))
	if key == nil {
		c.Fatalf("there is no key in table %c of partition %d", table, p)
	}
	return key, value
}

// TestRepair damages each table that can be rebuilt from others: the damage is found, repaired, and then gone.
func TestRepair(t *testing.T) {
	for i, table := range []byte("rckqtxwbn") {
		for j, how := range []string{"lost", "more", "other"} {
			if testing.Short() && (i+i/3+j)%3 > 0 { // each table once, and each kind of damage three times
				continue
			}
			c := newChecked(t)
			run := c.run
			ns := run.Namespace
			var key, value []byte
			switch table {
			case store.TableEnded, store.TableDeleted, store.TableBusy: // of another run
				in := store.NamespaceID(0)
				if table == store.TableDeleted {
					in = 1
				}
				for p := range store.PartitionID(store.Partitions) {
					prefix := store.AppendPrefix(nil, in, p, table)
					c.do(c.s.scan(prefix, store.PrefixEnd(prefix), func(k, v []byte) (bool, error) {
						key, value = bytes.Clone(k), bytes.Clone(v)
						return false, nil
					}))
				}
			case store.TableWake, store.TableCount:
				key, value = c.firstKey(0, run.Partition(), table)
			default:
				key, value = c.firstKey(ns, run.Partition(), table)
			}
			switch how {
			case "lost":
				c.do(c.s.db.Delete(key, pebble.Sync))
			case "more":
				c.do(c.s.db.Set(append(key, 'x'), value, pebble.Sync))
			case "other":
				c.do(c.s.db.Set(key, append(value, 'x'), pebble.Sync))
			}
			found := c.check(false)
			if len(found.Problems) == 0 || found.Repaired != 0 {
				t.Errorf("table %c, %s: %+v", table, how, found)
			}
			repaired := c.check(true)
			if table == store.TableWake && how == "other" || table == store.TableCount && how == "more" {
				continue // it is reported twice, or a key cannot be parsed
			}
			if len(repaired.Problems) != len(found.Problems) || repaired.Left() != 0 {
				t.Errorf("table %c, %s: repaired %+v", table, how, repaired)
			}
			if again := c.check(false); len(again.Problems) > 0 {
				t.Errorf("table %c, %s: left %+v", table, how, again.Problems)
			}
		}
	}
}

// TestRepairPayloads damages the records of which run has a large payload.
func TestRepairPayloads(t *testing.T) {
	d := store.Digest(sha256.Sum256(bytes.Repeat([]byte("x"), abi.BlobBytes+1)))
	nobody := store.RunKey{ID: "nobody"}
	for i, damage := range []func(c *checked){
		func(c *checked) { c.do(c.s.db.Delete(store.RefersKey(c.run, d[:]), pebble.Sync)) }, // not the run's, and names it
		func(c *checked) { c.do(c.s.db.Delete(store.ReferredKey(d[:], c.run), pebble.Sync)) },
		func(c *checked) {
			c.do(c.s.db.Delete(store.RefersKey(c.run, d[:]), pebble.Sync))
			c.do(c.s.db.Delete(store.ReferredKey(d[:], c.run), pebble.Sync))
		},
		func(c *checked) { c.do(c.s.db.Set(store.RefersKey(nobody, d[:]), nil, pebble.Sync)) },
		func(c *checked) { c.do(c.s.db.Set(store.ReferredKey(d[:], nobody), nil, pebble.Sync)) },
	} {
		c := newChecked(t)
		damage(c)
		for _, repair := range []bool{false, true} {
			r := c.check(repair)
			if len(r.Problems) == 0 || r.Problems[0].Kind != "payload" || r.Problems[0].Repaired != repair {
				t.Errorf("damage %d, repair %v: %+v", i, repair, r)
			}
		}
		if r := c.check(false); len(r.Problems) > 0 {
			t.Errorf("damage %d: left %+v", i, r.Problems)
		}
	}
	// A payload that was stored before there were such records.
	c := newChecked(t)
	prefix := store.GlobalKey(0, store.TableReferred, d[:])
	c.do(c.s.db.DeleteRange(prefix, store.PrefixEnd(prefix), pebble.Sync))
	for p := range store.PartitionID(store.Partitions) {
		for ns := range store.NamespaceID(2) {
			prefix := store.AppendPrefix(nil, ns, p, store.TableRefers)
			c.do(c.s.db.DeleteRange(prefix, store.PrefixEnd(prefix), pebble.Sync))
		}
	}
	if r := c.check(false); len(r.Problems) > 0 {
		t.Errorf("a payload of an earlier release: %+v", r.Problems)
	}
}

// TestRepairMarks damages the marks where scans of indexes begin: runs would sleep forever.
func TestRepairMarks(t *testing.T) {
	c := newChecked(t)
	p := c.run.Partition()
	for _, key := range [][]byte{markKey(p), inboxMarkKey(p)} {
		c.do(c.s.db.Set(key, binary.BigEndian.AppendUint64(nil, 1<<40), pebble.Sync))
	}
	c.do(c.s.db.Set(inboxCounter(p), binary.BigEndian.AppendUint64(nil, 0), pebble.Sync))
	if r := c.check(false); len(r.Problems) != 3 {
		t.Errorf("%+v", r.Problems)
	}
	if r := c.check(true); len(r.Problems) != 3 || r.Left() != 0 {
		t.Errorf("%+v", r.Problems)
	}
	if r := c.check(false); len(r.Problems) != 0 {
		t.Errorf("%+v", r.Problems)
	}
}

// TestCheckFinds damages data that cannot be rebuilt: the damage is found, and a repair leaves it.
func TestCheckFinds(t *testing.T) {
	for i, x := range []struct {
		kind, says string
		damage     func(c *checked) ([]byte, []byte) // returns a key and its value, nil for none
	}{
		{"state", "its state", func(c *checked) ([]byte, []byte) {
			return store.RunTableKey(c.run, store.TableState), []byte("12345678rubbish")
		}},
		{"journal", "are missing", func(c *checked) ([]byte, []byte) { return store.JournalKey(c.run, 0, 0), nil }},
		{"journal", "entry ", func(c *checked) ([]byte, []byte) {
			_, v := c.firstKey(c.run.Namespace, c.run.Partition(), store.TableJournal)
			v[len(v)/2] ^= 1
			k, _ := c.firstKey(c.run.Namespace, c.run.Partition(), store.TableJournal)
			return k, v
		}},
		{"journal", "which it has not", func(c *checked) ([]byte, []byte) {
			return store.JournalKey(c.run, 7, 0), []byte{}
		}},
		{"journal", "its journal has", func(c *checked) ([]byte, []byte) {
			return lastChunk(c), nil
		}},
		{"module", "is not there", func(c *checked) ([]byte, []byte) {
			k, _ := c.firstKey(0, store.NoPartition, store.TableModule)
			return k, nil
		}},
		{"module", "damaged", func(c *checked) ([]byte, []byte) {
			k, _ := c.firstKey(0, store.NoPartition, store.TableWasm)
			return k, []byte("another")
		}},
		{"blob", "damaged", func(c *checked) ([]byte, []byte) {
			k, _ := c.firstKey(0, store.NoPartition, store.TableBlob)
			return k, []byte("another")
		}},
		{"log", "record 0 of its log", func(c *checked) ([]byte, []byte) {
			return store.IndexKey(c.run, store.TableLog, 0), []byte("rubbish")
		}},
		{"output", "which it has not", func(c *checked) ([]byte, []byte) {
			return store.IndexKey(c.run, store.TableOutput, 9), store.AppendChunk(nil, &store.Chunk{Index: 9})
		}},
		{"inbox", "command", func(c *checked) ([]byte, []byte) {
			k, _ := c.firstKey(0, c.run.Partition(), store.TableInbox)
			return k, []byte("rubbish")
		}},
		{"key", "which is none", func(*checked) ([]byte, []byte) { return store.AppendPrefix(nil, 0, 3, 'Z'), []byte{1} }},
		{"key", "nobody has created", func(*checked) ([]byte, []byte) { return store.AppendPrefix(nil, 99, 3, 's'), []byte{1} }},
		{"key", "of partition 70", func(*checked) ([]byte, []byte) { return store.AppendPrefix(nil, 0, 70, 's'), []byte{1} }},
		{"namespace", "other", func(c *checked) ([]byte, []byte) { return namespaceKey("other"), []byte("rubbish") }},
		{"quota", "the quota of key", func(*checked) ([]byte, []byte) { return store.QuotaKey(0), []byte("rubbish") }},
		{"quota", "is that of namespace 1", func(*checked) ([]byte, []byte) {
			return store.QuotaKey(0), store.AppendQuota(nil, &store.Quota{Namespace: 1, Runs: 1})
		}},
		{"quota", "of namespace 99, which nobody", func(*checked) ([]byte, []byte) {
			return store.QuotaKey(99), store.AppendQuota(nil, &store.Quota{Namespace: 99, Runs: 1})
		}},
		{"limits", "the limits of key", func(*checked) ([]byte, []byte) { return store.LimitsKey(0, "w"), []byte("rubbish") }},
		{"limits", "are those of workflow \"v\"", func(*checked) ([]byte, []byte) {
			return store.LimitsKey(0, "w"), store.AppendLimits(nil, &store.Limits{Workflow: "v"})
		}},
		{"limits", "of namespace 99, which nobody", func(*checked) ([]byte, []byte) {
			return store.LimitsKey(99, "w"), store.AppendLimits(nil, &store.Limits{Namespace: 99, Workflow: "w"})
		}},
		{"key", "of a queue", func(*checked) ([]byte, []byte) {
			return append(store.AppendPrefix(nil, 0, 3, store.TableQueue), "w"...), []byte{1}
		}},
		{"key", "the queue of workflow \"w\" belongs to partition", func(*checked) ([]byte, []byte) {
			p := (store.RunKey{ID: "w"}).Partition() ^ 1
			return append(store.AppendPrefix(nil, 0, p, store.TableQueue), "w\x00q"...), []byte{1}
		}},
		{"queue", "2 cells, of which one is z", func(c *checked) ([]byte, []byte) {
			queue := store.RunKey{ID: "w"}
			c.do(c.s.db.Set(store.QueueKey(queue, []byte("a")), nil, pebble.Sync))
			return store.QueueKey(queue, []byte("z")), []byte{1}
		}},
		{"hook", "holder", func(c *checked) ([]byte, []byte) { return hookKey(0, "token"), []byte("rubbish") }},
	} {
		if testing.Short() && i%3 > 0 { // the others go the same way
			continue
		}
		c := newChecked(t)
		k, v := x.damage(c)
		if v == nil {
			c.do(c.s.db.Delete(k, pebble.Sync))
		} else {
			c.do(c.s.db.Set(k, v, pebble.Sync))
		}
		for _, repair := range []bool{false, true, false} {
			found := false
			for _, p := range c.check(repair).Problems {
				found = found || p.Kind == x.kind && strings.Contains(p.Text, x.says) && !p.Repaired
			}
			if !found {
				t.Errorf("%s %q, repair %v: %+v", x.kind, x.says, repair, c.check(false).Problems)
			}
		}
	}
}

// lastChunk returns the key of the last chunk of a run's journal.
func lastChunk(c *checked) (key []byte) {
	lower := store.JournalKey(c.run, 0, 0)
	c.do(c.s.scan(lower, store.JournalKey(c.run, 1, 0), func(k, _ []byte) (bool, error) {
		key = bytes.Clone(k)
		return true, nil
	}))
	return key
}

// TestCheckOfMigrations compares the module in a run's state with the one in its journal.
func TestCheckOfMigrations(t *testing.T) {
	module := store.Digest(sha256.Sum256([]byte("module")))
	other := store.Digest(sha256.Sum256([]byte("other")))
	to := func(k store.Kind, d store.Digest) store.Entry { return store.Entry{Kind: k, Target: d.String()} }
	for i, of := range []struct {
		entries []store.Entry
		sound   bool
	}{
		{[]store.Entry{to(store.KindMigrated, module)}, true},
		{[]store.Entry{to(store.KindMigrated, other), to(store.KindMigrated, module)}, true},
		{[]store.Entry{to(store.KindMigrated, other), to(store.KindRetried, module), {Kind: store.KindRetried}}, true},
		{[]store.Entry{to(store.KindMigrated, other), {Kind: store.KindMigrated, Sealed: true, Data: []byte{1, 'k', 'x'}}}, true}, // nobody knows
		{[]store.Entry{to(store.KindMigrated, other)}, false},
		{[]store.Entry{to(store.KindMigrated, module), to(store.KindRetried, other)}, false},
	} {
		c := newChecked(t)
		st, err := c.s.State(t.Context(), c.run)
		c.do(err)
		p, err := c.s.Acquire(t.Context(), c.run.Partition(), "a", 0)
		c.do(err)
		expect := st.Length
		for n := range of.entries {
			of.entries[n].Seq = expect + store.Seq(n)
		}
		st.Length += store.Seq(len(of.entries))
		c.do(p.Commit(t.Context(), []store.RunCommit{{Run: c.run, Expect: expect, State: st, Append: of.entries}}))
		r := c.check(false)
		found := false
		for _, p := range r.Problems {
			found = found || p.Kind == "state" && strings.Contains(p.Text, "its journal goes on under") && p.Run == c.run.ID
		}
		if found == of.sound {
			t.Errorf("%d: %+v", i, r.Problems)
		}
	}
}

// TestCheckOfEnds compares the status of a run with the entry that ends its journal.
func TestCheckOfEnds(t *testing.T) {
	for i, of := range []struct {
		end    store.Kind
		status store.Status
		sound  bool
	}{
		{store.KindCompleted, store.Completed, true}, {store.KindFailed, store.Failed, true}, {store.KindCancelled, store.Cancelled, true},
		{store.KindTerminated, store.Terminated, true}, {store.KindCompleted, store.Failed, false},
		{store.KindTerminated, store.Cancelled, false}, {store.KindCompleted, store.Sleeping, false},
	} {
		c := newChecked(t)
		st, err := c.s.State(t.Context(), c.run)
		c.do(err)
		p, err := c.s.Acquire(t.Context(), c.run.Partition(), "a", 0)
		c.do(err)
		expect := st.Length
		st.Length, st.Status = st.Length+1, of.status
		c.do(p.Commit(t.Context(), []store.RunCommit{{Run: c.run, Expect: expect, State: st,
			Append: []store.Entry{{Seq: expect, Kind: of.end}}}}))
		found := false
		for _, p := range c.check(false).Problems {
			found = found || p.Kind == "state" && strings.Contains(p.Text, "its journal ends with "+of.end.String()) && p.Run == c.run.ID
		}
		if found == of.sound {
			t.Errorf("%d: a problem is found: %v", i, found)
		}
	}
}

// TestCheckOfMoves compares the states of moved runs with their journals, where a move is readable even if entries
// are sealed.
func TestCheckOfMoves(t *testing.T) {
	moved, adopted := store.Entry{Kind: store.KindMoved, Target: "m"}, store.Entry{Kind: store.KindAdopted, Target: "m"}
	for i, of := range []struct {
		entries []store.Entry
		aside   store.Aside
		sound   bool
	}{
		{[]store.Entry{moved}, store.AsideMoved, true}, {[]store.Entry{moved, adopted}, store.NotAside, true},
		{[]store.Entry{moved, {Kind: store.KindTerminated}}, store.AsideMoved, true}, {[]store.Entry{moved}, store.AsideCopy, true},
		{[]store.Entry{{Kind: store.KindMoved, Sealed: true, Data: []byte{1, 'k', 'x'}}}, store.AsideMoved, true},
		{[]store.Entry{moved}, store.NotAside, false}, {[]store.Entry{moved, adopted}, store.AsideMoved, false},
		{[]store.Entry{adopted}, store.AsideMoved, false},
	} {
		c := newChecked(t)
		st, err := c.s.State(t.Context(), c.run)
		c.do(err)
		p, err := c.s.Acquire(t.Context(), c.run.Partition(), "a", 0)
		c.do(err)
		expect := st.Length
		for n := range of.entries {
			of.entries[n].Seq = expect + store.Seq(n)
		}
		st.Length += store.Seq(len(of.entries))
		st.Aside = of.aside
		c.do(p.Commit(t.Context(), []store.RunCommit{{Run: c.run, Expect: expect, State: st, Append: of.entries}}))
		found := false
		for _, p := range c.check(false).Problems {
			found = found || p.Kind == "state" && strings.Contains(p.Text, "whether it is here") && p.Run == c.run.ID
		}
		if found == of.sound {
			t.Errorf("%d: a problem is found: %v", i, found)
		}
	}
}
