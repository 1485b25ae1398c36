package pebblestore

import (
	"crypto/sha256"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/store"
)

// TestPayloadsOfIterations continues a run as new, with a large payload in each iteration, one shared by all, and one
// in its input. The payloads of removed iterations are deleted, even if an earlier release did not record their
// iteration, and a check finds no problem.
func TestPayloadsOfIterations(t *testing.T) {
	for _, unknown := range []bool{false, true} {
		s, err := Open("db", Options{FS: vfs.NewMem()})
		if err != nil {
			t.Fatal(err)
		}
		run := store.RunKey{ID: "r"}
		p := acquire(t, s, run.Partition())
		const keep, iterations, always, input = 2, 9, 100, 101
		st := store.RunState{Run: run, Workflow: "w", Status: store.Sleeping, WakeUnixMs: store.NoWake, Length: 3}
		begin := func(i int) []store.Entry {
			list := []store.Entry{{Kind: store.KindStarted}, {Seq: 1, Kind: store.KindActivated, Data: large(i)},
				{Seq: 2, Kind: store.KindEmit, Input: large(always)}}
			if i == 0 {
				list[0].Input = large(input)
			}
			return list
		}
		commit := func(c store.RunCommit) {
			t.Helper()
			if err := p.Commit(t.Context(), []store.RunCommit{c}); err != nil {
				t.Fatal(err)
			}
		}
		commit(store.RunCommit{Run: run, Create: true, State: st, Append: begin(0)})
		for i := 1; i < iterations; i++ {
			if unknown && i == 4 { // as if an earlier release had written everything so far
				forgetWhose(t, s, run)
			}
			st.Iteration = uint32(i)
			if i > keep && (!unknown || i >= 4) {
				st.Kept = uint32(i - keep)
			}
			commit(store.RunCommit{Run: run, State: st, Append: begin(i),
				Before: &store.IterationEnd{Iteration: uint32(i - 1), Expect: 3, Append: []store.Entry{{Seq: 3, Kind: store.KindContinued}}}})
		}
		for i := range iterations {
			d := sha256.Sum256(large(i))
			_, err := s.blob(d[:])
			if want := i >= iterations-keep-1 || i == 0; (err == nil) != want { // the first one is in the chunk that is kept
				t.Errorf("the payload of iteration %d of %d: %v", i, iterations, err)
			}
		}
		for _, n := range []int{always, input} {
			d := sha256.Sum256(large(n))
			if _, err := s.blob(d[:]); err != nil {
				t.Errorf("a payload that the run has: %v", err)
			}
		}
		c := newChecker(t.Context(), s, false)
		if err := c.all(); err != nil {
			t.Fatal(err)
		}
		for _, x := range c.report.Problems {
			if x.Kind != "module" {
				t.Errorf("verify finds %+v", x)
			}
		}
		if got := loaded(t, s, run, 0); len(got) == 0 || len(got[0].Input) != len(large(input)) {
			t.Error("the input of the run is not there")
		}
		commit(store.RunCommit{Run: run, State: st, Delete: true})
		for _, n := range []int{iterations - 1, always, input} {
			d := sha256.Sum256(large(n))
			if _, err := s.blob(d[:]); err == nil {
				t.Error("a payload stays when its run is deleted")
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// forgetWhose changes the keys of a run's payloads to an earlier release's.
func forgetWhose(t *testing.T, s *Store, run store.RunKey) {
	t.Helper()
	b := s.db.NewBatch()
	prefix := store.RefersKey(run, nil)
	err := s.scan(prefix, store.PrefixEnd(prefix), func(k, _ []byte) (bool, error) {
		return true, b.Set(append([]byte(nil), k...), nil, nil)
	})
	if err == nil {
		err = s.sync(b, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func loaded(t *testing.T, s *Store, run store.RunKey, iteration uint32) (list []store.Entry) {
	t.Helper()
	for e, err := range s.Load(t.Context(), run, iteration, 0) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}
