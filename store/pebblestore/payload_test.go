package pebblestore

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// large returns a payload that is stored by its digest.
func large(n int) []byte { return bytes.Repeat([]byte{byte(n + 1)}, abi.BlobBytes+1) }

// holder is a run of the model, with the payload of each entry.
type holder struct {
	deleted bool
	has     []int
}

// TestPayloadsGoWithTheirRuns adds, replaces and deletes runs that share large payloads, several per commit, and cuts
// the power after each commit: every run has its payloads, and payloads without a run are deleted.
func TestPayloadsGoWithTheirRuns(t *testing.T) {
	const runs, kinds, commits = 5, 3, 60
	fs := vfs.NewCrashableMem()
	s, err := Open("db", Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(7, 8))
	model := map[string]*holder{}
	shared := 0
	for n := range commits {
		var groups []store.Group
		first := rng.IntN(runs)
		for k := range 1 + rng.IntN(2) {
			id := fmt.Sprint("r", (first+k)%runs)
			groups = append(groups, store.Group{Partition: acquire(t, s, store.RunKey{ID: id}.Partition()),
				Runs: []store.RunCommit{change(rng, model, id, kinds)}})
		}
		if len(groups) == 2 && groups[0].Partition.ID() == groups[1].Partition.ID() {
			groups[0].Runs = append(groups[0].Runs, groups[1].Runs...)
			groups = groups[:1]
		}
		if err := s.Commit(t.Context(), groups); err != nil {
			t.Fatal(err)
		}
		clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: n * 100 / commits, RNG: rng})
		again, err := Open("db", Options{FS: clone})
		if err != nil {
			t.Fatal(err)
		}
		shared += checkPayloads(t, again, model)
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if shared < commits/4 {
		t.Errorf("payloads were shared %d times", shared)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// change makes a random change of a run.
func change(rng *rand.Rand, model map[string]*holder, id string, kinds int) store.RunCommit {
	h := model[id]
	c := store.RunCommit{Run: store.RunKey{ID: id}, State: store.RunState{Run: store.RunKey{ID: id}, Workflow: "w",
		Status: store.Completed, WakeUnixMs: store.NoWake, UpdatedUnixMs: 5}}
	switch what := rng.IntN(3); {
	case h != nil && !h.deleted && what == 0:
		c.Delete, c.State.Deleted = true, rng.IntN(2) == 0
		delete(model, id)
		if c.State.Deleted {
			model[id] = &holder{deleted: true}
		}
		return c
	case h == nil || h.deleted || what == 1:
		c.Create, c.Replace = true, true
		h = &holder{}
		model[id] = h
	}
	c.Expect = store.Seq(len(h.has))
	kind := rng.IntN(kinds)
	e := store.Entry{Seq: c.Expect, Kind: store.KindSleep, Data: large(kind)}
	if rng.IntN(2) == 0 {
		e.Input, e.Data = e.Data, nil
	}
	h.has = append(h.has, kind)
	c.Append, c.State.Length = []store.Entry{e}, store.Seq(len(h.has))
	return c
}

// checkPayloads compares a store with the model, and returns the number of payloads that two runs share.
func checkPayloads(t *testing.T, s *Store, model map[string]*holder) (shared int) {
	t.Helper()
	owners := map[int]map[string]bool{}
	for id, h := range model {
		if h.deleted {
			continue
		}
		_, entries, err := s.Run(t.Context(), store.RunKey{ID: id})
		if err != nil || len(entries) != len(h.has) {
			t.Fatalf("run %s has %d entries, want %d: %v", id, len(entries), len(h.has), err)
		}
		for i, kind := range h.has {
			if !bytes.Equal(append(entries[i].Input, entries[i].Data...), large(kind)) {
				t.Fatalf("entry %d of run %s has another payload", i, id)
			}
			if owners[kind] == nil {
				owners[kind] = map[string]bool{}
			}
			owners[kind][id] = true
		}
	}
	holdings := 0
	for _, ids := range owners {
		holdings += len(ids)
		shared += min(len(ids)-1, 1)
	}
	for _, x := range []struct {
		what         string
		first, until []byte
		want         int
	}{
		{"payloads", store.GlobalKey(0, store.TableBlob, nil), nil, len(owners)},
		{"runs of payloads", store.GlobalKey(0, store.TableReferred, nil), nil, holdings},
	} {
		if n := keysOf(t, s, x.first); n != x.want {
			t.Fatalf("%d %s, want %d", n, x.what, x.want)
		}
	}
	n := 0
	for p := range store.PartitionID(store.Partitions) {
		n += keysOf(t, s, store.AppendPrefix(nil, 0, p, store.TableRefers))
	}
	if n != holdings {
		t.Fatalf("%d payloads of runs, want %d", n, holdings)
	}
	return shared
}

func keysOf(t *testing.T, s *Store, prefix []byte) (n int) {
	t.Helper()
	if err := s.scan(prefix, store.PrefixEnd(prefix), func(_, _ []byte) (bool, error) { n++; return true, nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestPayloadsConcurrently has runs of several partitions add and remove the same payload concurrently: it exists as
// long as a run has it.
func TestPayloadsConcurrently(t *testing.T) {
	s, err := Open("db", Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var wg sync.WaitGroup
	for i := range 4 {
		run := store.RunKey{ID: fmt.Sprint("r", i)}
		p := acquire(t, s, run.Partition())
		wg.Go(func() {
			for range 50 {
				st := store.RunState{Run: run, Workflow: "w", Status: store.Completed, WakeUnixMs: store.NoWake, Length: 1}
				err := p.Commit(t.Context(), []store.RunCommit{{Run: run, Create: true, State: st,
					Append: []store.Entry{{Kind: store.KindSleep, Data: large(1)}}}})
				_, entries, err2 := s.Run(t.Context(), run)
				if err == nil && err2 == nil && len(entries) != 1 {
					err = fmt.Errorf("%d entries", len(entries))
				}
				err = errors.Join(err, err2, p.Commit(t.Context(), []store.RunCommit{{Run: run, Delete: true, State: st}}))
				if err != nil {
					t.Errorf("run %s: %v", run.ID, err)
					return
				}
			}
		})
	}
	wg.Wait()
	checkPayloads(t, s, nil)
}

// TestPayloadsOfBefore deletes a run that shares a payload with a run of format 3, which did not record that: the
// payload stays.
func TestPayloadsOfBefore(t *testing.T) {
	s, err := Open("db", Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	put := func(id string) {
		run := store.RunKey{ID: id}
		st := store.RunState{Run: run, Workflow: "w", Status: store.Completed, WakeUnixMs: store.NoWake, Length: 1}
		if err := acquire(t, s, run.Partition()).Commit(t.Context(), []store.RunCommit{{Run: run, Create: true, State: st,
			Append: []store.Entry{{Kind: store.KindSleep, Data: large(1)}}}}); err != nil {
			t.Fatal(err)
		}
	}
	put("old")
	d := sha256.Sum256(large(1))
	old := store.RunKey{ID: "old"}
	if err := errors.Join(s.db.Delete(store.RefersKey(old, d[:]), pebble.Sync), s.db.Delete(store.ReferredKey(d[:], old), pebble.Sync)); err != nil {
		t.Fatal(err)
	}
	put("new")
	for _, id := range []string{"new", "old"} {
		if _, entries, err := s.Run(t.Context(), old); err != nil || !bytes.Equal(entries[0].Data, large(1)) {
			t.Fatal(err)
		}
		run := store.RunKey{ID: id}
		if err := acquire(t, s, run.Partition()).Commit(t.Context(), []store.RunCommit{{Run: run, Delete: true,
			State: store.RunState{Run: run}}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := keysOf(t, s, store.GlobalKey(0, store.TableBlob, nil)); n != 1 {
		t.Errorf("%d payloads, want the one that stays for ever", n)
	}
}
