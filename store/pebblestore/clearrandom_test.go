package pebblestore

import (
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/store"
)

// TestClearRandom creates, appends to, continues, replaces and deletes runs whose ids are prefixes of one another,
// with flushes and crashes in between. Reads return what was committed, and at the end nothing is left of any run.
func TestClearRandom(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 1))
		mem := vfs.NewCrashableMem()
		s, err := Open("db", Options{FS: mem})
		if err != nil {
			t.Fatal(err)
		}
		ids := []string{"a", "ab", "abc", "a1", "b"}
		type known struct {
			iter       uint32
			length     int
			logs, outs uint64
			there      bool
		}
		now := map[string]*known{}
		for _, id := range ids {
			now[id] = &known{}
		}
		commit := func(c store.RunCommit) {
			t.Helper()
			if err := acquire(t, s, c.Run.Partition()).Commit(t.Context(), []store.RunCommit{c}); err != nil {
				t.Fatal(err)
			}
		}
		entries := func(from, n int) (l []store.Entry) {
			for i := range n {
				l = append(l, store.Entry{Seq: store.Seq(from + i), Kind: store.KindSleep, Data: make([]byte, r.IntN(6000))})
			}
			return l
		}
		for range 200 {
			id := ids[r.IntN(len(ids))]
			x := now[id]
			run := store.RunKey{ID: id}
			switch op := r.IntN(8); {
			case op == 0 && x.there:
				commit(store.RunCommit{Run: run, Delete: true, Expect: store.Seq(x.length)})
				*x = known{}
			case op == 1:
				if s2, err := Open("db", Options{FS: mem.CrashClone(vfs.CrashCloneCfg{})}); err != nil {
					t.Fatal(err)
				} else {
					_ = s2.Close()
				}
				if r.IntN(3) == 0 {
					if err := s.db.Flush(); err != nil {
						t.Fatal(err)
					}
				}
				if r.IntN(3) == 0 {
					m2 := mem.CrashClone(vfs.CrashCloneCfg{})
					_ = s.Close()
					mem = m2
					s, err = Open("db", Options{FS: mem})
					if err != nil {
						t.Fatal(err)
					}
				}
			default:
				c := store.RunCommit{Run: run}
				n := 1 + r.IntN(4)
				if op == 2 || !x.there {
					c.Create, c.Replace = true, true
					*x = known{there: true}
					c.Append = entries(0, n)
				} else if op == 3 {
					c.Before = &store.IterationEnd{Iteration: x.iter, Expect: store.Seq(x.length), Append: entries(x.length, 1)}
					x.iter++
					x.length = 0
					c.Append = entries(0, n)
				} else {
					c.Expect = store.Seq(x.length)
					c.Append = entries(x.length, n)
				}
				x.length += n
				for range r.IntN(40) {
					c.Logs = append(c.Logs, store.LogLine{Index: x.logs})
					x.logs++
				}
				for range r.IntN(40) {
					c.Output = append(c.Output, store.Chunk{Index: x.outs})
					x.outs++
				}
				c.State = store.RunState{Run: run, Workflow: "w", Status: store.Sleeping, WakeUnixMs: store.NoWake, Iteration: x.iter,
					Length: store.Seq(x.length), LogRecords: x.logs, Output: x.outs}
				commit(c)
				if x.iter == 0 {
					if got := read(t, s, run); got.first != x.length || got.lines != int(min(x.logs, 100)) {
						t.Fatalf("seed %d: %+v %+v", seed, got, *x)
					}
				}
			}
		}
		for _, id := range ids {
			if x := now[id]; x.there {
				commit(store.RunCommit{Run: store.RunKey{ID: id}, Delete: true, Expect: store.Seq(x.length)})
			}
		}
		n := 0
		err = s.scan([]byte{0}, []byte{0xff, 0xff, 0xff, 0xff, 0xff}, func(k, _ []byte) (bool, error) {
			if len(k) > 6 && (k[6] == store.TableJournal || k[6] == store.TableLog || k[6] == store.TableOutput) {
				n++
			}
			return true, nil
		})
		if n > 0 || err != nil {
			t.Fatalf("seed %d: %d keys left, %v", seed, n, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
