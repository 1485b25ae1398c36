package transfer_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

var ctx = context.Background()

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// filler makes random commits. It remembers the states of runs.
type filler struct {
	t      testing.TB
	s      store.Store
	r      *rand.Rand
	parts  [store.Partitions]store.Partition
	states map[store.RunKey]store.RunState
	spaces []store.NamespaceID
}

// fill puts records of all kinds into a store: settings, then n random commits of runs, schedules, queues, wakes and hooks.
func fill(t testing.TB, s store.Store, seed uint64, n int) {
	f := &filler{t: t, s: s, r: rand.New(rand.NewPCG(seed, 1)), states: map[store.RunKey]store.RunState{}, spaces: []store.NamespaceID{0}}
	for p := range f.parts {
		for range f.r.IntN(3) + 1 { // different epochs
			part, err := s.Acquire(ctx, store.PartitionID(p), "test", 0)
			ok(t, err)
			f.parts[p] = part
		}
	}
	f.settings()
	for range n {
		f.run()
	}
	f.others(max(n/10, 10))
}

func (f *filler) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(f.r.Uint32())
	}
	return b
}

func (f *filler) settings() {
	for _, name := range []string{"empty", "a", "b"} {
		ns, err := f.s.Namespace(ctx, name, true)
		ok(f.t, err)
		f.spaces = append(f.spaces, ns)
	}
	f.spaces = append(f.spaces[:1], f.spaces[2:]...) // nothing is in one of them
	for i := range 3 {
		ok(f.t, f.s.AddSealKey(ctx, store.SealKey{ID: fmt.Sprint("k", i), Check: f.bytes(20), CreatedUnixMs: int64(i)}))
		ok(f.t, f.s.Tokens().Add(ctx, store.Token{Hash: sha256.Sum256([]byte{byte(i)}), Name: "n", Namespace: "a",
			Scopes: []string{"read", "start"}, CreatedUnixMs: 5, ExpiresUnixMs: int64(i)}))
	}
	for _, ns := range f.spaces {
		ok(f.t, f.s.SetQuota(ctx, store.Quota{Namespace: ns, Runs: 1e9, Starts: 7}))
		ok(f.t, f.s.SetRetention(ctx, store.Retention{Namespace: ns, Workflow: "w0", CompletedMs: 1e12, KeepFailed: 4}))
		ok(f.t, f.s.SetRetention(ctx, store.Retention{Namespace: ns, IDsMs: 17}))
		ok(f.t, f.s.SetLimits(ctx, store.Limits{Namespace: ns, Workflow: "w1", Data: []byte(`{"x":1}`)}, f.command()))
	}
	m := f.s.Modules()
	var digests []store.Digest
	for i := range 5 {
		wasm := f.bytes(1000 + i)
		if i == 1 {
			wasm = large(3) // also a payload
		}
		d, err := m.Put(ctx, wasm, store.ModuleInfo{Size: int64(len(wasm)), DescriptionJSON: []byte("{}")})
		ok(f.t, err)
		digests = append(digests, d)
	}
	add := func(ns store.NamespaceID, workflow string, at int, imported bool) {
		_, err := m.AddVersions(ctx, []store.VersionSpec{{Namespace: ns, Workflow: workflow, Module: digests[at], CreatedUnixMs: 9,
			Grants: store.Grants{Steps: []string{"*"}}, Imported: imported}})
		ok(f.t, err)
	}
	for _, ns := range f.spaces {
		add(ns, "w0", 0, false)
		add(ns, "w0", 1, false)
		add(ns, "w0", 2, true)
		add(ns, "w1", 1, false)
		add(ns, "gone", 0, false)
		add(ns, "gone", 1, false)
		ok(f.t, m.DeleteVersion(ctx, ns, "gone", 2)) // its number stays taken
		add(ns, "old", 0, false)
		add(ns, "old", 1, false)
		ok(f.t, m.DeleteVersion(ctx, ns, "old", 1))
	}
	_, err := m.Put(ctx, f.bytes(5), store.ModuleInfo{}) // unused, as digests[3] and [4] are
	ok(f.t, err)
}

// large returns one of a few large payloads.
func large(i int) []byte { return []byte(strings.Repeat(fmt.Sprint(i, "."), abi.BlobBytes/2+100*i)) }

func (f *filler) key() store.RunKey {
	ids := []string{"", "!", "é", "-1", "/x", "~"} // some are beginnings of others
	return store.RunKey{Namespace: f.spaces[f.r.IntN(len(f.spaces))], ID: fmt.Sprint("r", f.r.IntN(40), ids[f.r.IntN(len(ids))])}
}

// sealedText is the beginning of what a codec with the key k0 makes.
const sealedText = "\x02k0"

func (f *filler) command() store.Command {
	return store.Command{ID: store.CommandID{Incarnation: store.Incarnation(f.bytes(16)), Iteration: 2, Seq: 7}, Kind: store.CommandSignal,
		To: f.key(), From: f.key(), Name: "n", Data: append([]byte(sealedText), f.bytes(f.r.IntN(100))...), Sealed: f.r.IntN(2) == 0}
}

func (f *filler) entries(from store.Seq, n int) (list []store.Entry) {
	for i := range n {
		e := store.Entry{Seq: from + store.Seq(i), Kind: store.KindSleep, Name: fmt.Sprint("e", f.r.IntN(100)), UnixMs: f.r.Int64N(1e12)}
		switch x := f.r.IntN(500); {
		case x < 2:
			e.Kind, e.Input = store.KindStep, large(f.r.IntN(4))
		case x < 4:
			e.Kind, e.Data = store.KindStepResult, large(f.r.IntN(4))
		case x < 20:
			e.Kind, e.Data = store.KindStepResult, f.bytes(f.r.IntN(20<<10))
		case x < 30:
			e.Data, e.Sealed = append([]byte(sealedText), f.bytes(100)...), true
		}
		list = append(list, e)
	}
	return list
}

// run makes a random commit of a run.
func (f *filler) run() {
	key := f.key()
	st, there := f.states[key]
	c := store.RunCommit{Run: key, Create: !there}
	n := f.r.IntN(6)
	if f.r.IntN(10) == 0 {
		n = f.r.IntN(700) // more than a chunk
	}
	switch {
	case there && st.Deleted && f.r.IntN(2) == 0:
		c.Create, c.Replace = true, true
		st, n = f.fresh(key), n+1
	case there && st.Deleted:
		c.Delete, c.Forget = true, true
	case there && f.r.IntN(15) == 0:
		c.Delete, st.Deleted = true, f.r.IntN(2) == 0
		st.Status, st.UpdatedUnixMs, st.WakeUnixMs = store.Terminated, f.r.Int64N(1e12), store.NoWake
	case there && f.r.IntN(8) == 0: // continues as new
		c.Before = &store.IterationEnd{Iteration: st.Iteration, Expect: st.Length, Append: f.entries(st.Length, f.r.IntN(3))}
		st.Iteration++
		st.Length, n = 0, n+1
		if st.Iteration > 2 {
			st.Kept = st.Iteration - 2
		}
		st.Past = append(st.Past, store.Past{Bytes: 7, EndedUnixMs: f.r.Int64N(1e12)})
	case !there:
		st, n = f.fresh(key), n+1
		if f.r.IntN(5) == 0 { // imported, with earlier iterations
			st.Iteration, st.ImportUnixMs, st.Import = 2, 5, "move"
			c.Earlier = []store.IterationEnd{{Append: f.entries(0, 5)}, {Iteration: 1, Append: f.entries(0, f.r.IntN(300))}}
		}
	}
	if c.Delete {
		delete(f.states, key)
		if st.Deleted && !c.Forget {
			f.states[key] = st
		} else {
			st.Deleted = false
		}
		c.State = st
		f.commit(&store.Group{Runs: []store.RunCommit{c}}, key)
		return
	}
	f.change(&st)
	c.Expect, c.Append = st.Length, f.entries(st.Length, n)
	st.Length += store.Seq(n)
	for range f.r.IntN(3) {
		c.Logs = append(c.Logs, store.LogLine{Index: st.LogRecords, UnixMs: 3, Level: -1, Text: fmt.Sprint("line", st.LogRecords)})
		st.LogRecords++
		c.Output = append(c.Output, store.Chunk{Index: st.Output, UnixMs: 4, Topic: "t", Data: f.bytes(10)})
		st.Output++
		c.Outbox = append(c.Outbox, f.command())
	}
	st.StoredBytes += int64(n * 100)
	c.State = st
	f.states[key] = st
	f.commit(&store.Group{Runs: []store.RunCommit{c}}, key)
}

func (f *filler) fresh(key store.RunKey) store.RunState {
	return store.RunState{Run: key, Incarnation: store.Incarnation(f.bytes(16)), Workflow: fmt.Sprint("w", f.r.IntN(3)),
		Version: uint32(f.r.IntN(3) + 1), CreatedUnixMs: f.r.Int64N(1e6) - 100, WakeUnixMs: store.NoWake, Memo: `{"m":1}`,
		TraceParent: "00-1-1-00", Parent: "p", ID: store.IDDerived}
}

// change gives a run a random status, and what belongs to it.
func (f *filler) change(st *store.RunState) {
	st.Status, st.WakeUnixMs, st.EndedUnixMs = store.Status(f.r.IntN(10)+1), store.NoWake, 0
	switch {
	case (st.Status == store.Sleeping || st.Status == store.Waiting) && f.r.IntN(4) > 0:
		st.WakeUnixMs = f.r.Int64N(1e6) - 1000
		if st.WakeUnixMs == store.NoWake {
			st.WakeUnixMs = -7
		}
	case st.Status.Terminal():
		st.EndedUnixMs = f.r.Int64N(1e6)
	}
	st.Reason, st.Sealed = sealedText+"why", f.r.IntN(3) == 0
	if st.Memo = `{"m":1}`; st.Sealed {
		st.Memo = sealedText + "memo"
	}
	st.Attributes = nil
	for i := range f.r.IntN(3) {
		st.Attributes = append(st.Attributes, store.Attribute{Key: fmt.Sprint("k", i), Value: fmt.Sprint("v\"\\é", f.r.IntN(3))})
	}
	st.Suspension = store.Suspension{Seq: 1, Awaited: []int64{1, -2}}
}

func (f *filler) commit(g *store.Group, key store.RunKey) {
	f.t.Helper()
	g.Partition = f.parts[key.Partition()]
	ok(f.t, f.s.Commit(ctx, []store.Group{*g}))
}

// others makes commits that are of no run.
func (f *filler) others(n int) {
	for i := range n {
		key := f.key()
		queue := store.RunKey{Namespace: key.Namespace, ID: fmt.Sprint("w", i%3)}
		wake := f.r.Int64N(1e6) - 5
		if i%3 == 0 {
			wake = store.NoWake
		}
		x := store.ScheduleSet{Schedule: store.Schedule{Key: store.RunKey{Namespace: key.Namespace, ID: fmt.Sprint("s", i)}, Revision: 1,
			WakeUnixMs: wake, Data: append([]byte(sealedText), f.bytes(50)...), Sealed: i%2 == 0}}
		f.commit(&store.Group{Schedules: []store.ScheduleSet{x}}, x.Schedule.Key)
		x.Schedule.Revision = 2
		if x.Delete = i%4 == 0; i%2 == 0 {
			f.commit(&store.Group{Schedules: []store.ScheduleSet{x}}, x.Schedule.Key)
		}
		cell := store.Cell{Key: []byte(fmt.Sprint("c\x00", i)), Value: f.bytes(i % 5)}
		f.commit(&store.Group{Queues: []store.QueueSet{{Queue: queue, Before: store.Cell{Key: cell.Key},
			Cells: []store.Cell{cell, {Key: []byte{0xff, byte(i)}, Value: []byte{1}}}}},
			Wakes: []store.WakeSet{{Kind: store.WakeLimit, Key: queue, OldUnixMs: store.NoWake, UnixMs: int64(i) * 1000},
				{Kind: store.WakeLease, Key: queue, OldUnixMs: store.NoWake, UnixMs: -3}}}, queue)
		ok(f.t, f.s.SetCells(ctx, store.QueueSet{Queue: store.RunKey{Namespace: key.Namespace, ID: "host/charge"},
			Before: store.Cell{Key: cell.Key}, Cells: []store.Cell{{Key: cell.Key, Value: []byte("v")}}}))
		token := fmt.Sprint("token", i)
		_, err := f.parts[store.TokenPartition(key.Namespace, token)].Claim(ctx, store.HookClaim{Namespace: key.Namespace, Token: token,
			Holder: store.HookHolder{Run: key, Iteration: 1, Handle: int64(i)}})
		ok(f.t, err)
		p := f.parts[i%store.Partitions]
		if list, err := p.Commands(ctx, 0, 100); err != nil {
			f.t.Fatal(err)
		} else if len(list) > 0 { // the newest number stays taken
			ok(f.t, p.Discard(ctx, []store.CommandSeq{list[len(list)-1].Seq}, nil))
		}
	}
}
