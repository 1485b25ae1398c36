package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// testIterations continues a run as new: the end of one journal and the beginning of the next one are in one commit.
func testIterations(t *testing.T, e *env) {
	ctx := context.Background()
	e.ok(e.commit(state("r"), true, 0, 5))
	st := state("r")
	st.Iteration, st.Length = 1, 2
	p := e.partition(st.Run.Partition())
	next := store.RunCommit{Run: st.Run, State: st, Append: entries(0, 2),
		Before: &store.IterationEnd{Iteration: 0, Expect: 4, Append: entries(4, 3)}}
	e.is(p.Commit(ctx, []store.RunCommit{next}), store.ErrConflict)
	next.Before = &store.IterationEnd{Iteration: 0, Expect: 5, Append: entries(5, 300)}
	e.ok(p.Commit(ctx, []store.RunCommit{next}))
	e.reopen()
	if a, b := len(e.load("r", 0, 0)), len(e.load("r", 1, 0)); a != 305 || b != 2 {
		t.Fatalf("%d and %d entries", a, b)
	}
	st.Length = 5
	e.ok(e.commit(st, false, 2, 3))
	// A run that continues as new before it was ever committed.
	st = state("fresh")
	st.Iteration, st.Length = 1, 1
	e.ok(e.partition(st.Run.Partition()).Commit(ctx, []store.RunCommit{{Run: st.Run, Create: true, State: st,
		Append: entries(0, 1), Before: &store.IterationEnd{Append: entries(0, 4)}}}))
	if a, b := len(e.load("fresh", 0, 0)), len(e.load("fresh", 1, 0)); a != 4 || b != 1 {
		t.Fatalf("%d and %d entries", a, b)
	}
}

// testTombstones deletes a run and keeps its id taken, and replaces one.
func testTombstones(t *testing.T, e *env) {
	ctx := context.Background()
	st := state("r")
	st.WakeUnixMs = 5
	e.ok(e.commit(st, true, 0, 3))
	p := e.partition(st.Run.Partition())
	st.Deleted, st.Status, st.WakeUnixMs = true, store.Completed, store.NoWake
	e.ok(p.Commit(ctx, []store.RunCommit{{Run: st.Run, Delete: true, State: st}}))
	e.reopen()
	p = e.partition(st.Run.Partition())
	got, err := e.s.State(ctx, st.Run)
	e.ok(err)
	wakes, err := p.Due(ctx, store.WakeKey{}, 1000, 10)
	e.ok(err)
	if !got.Deleted || len(wakes) != 0 || len(e.load("r", 0, 0)) != 0 {
		t.Fatalf("%+v, %d wakes", got, len(wakes))
	}
	for range store.Runs(ctx, e.s, store.Query{}, 0) {
		t.Fatal("a deleted run is listed")
	}
	fresh := state("r")
	e.is(e.commit(fresh, true, 0, 1), store.ErrExists)
	fresh.Length = 2
	e.ok(p.Commit(ctx, []store.RunCommit{{Run: fresh.Run, Create: true, Replace: true, State: fresh, Append: entries(0, 2)}}))
	if n := len(e.load("r", 0, 0)); n != 2 {
		t.Fatalf("%d entries", n)
	}
}

// testRun reads state and journal together: for short and long journals, after a start, and for a run that has
// continued as new.
func testRun(t *testing.T, e *env) {
	ctx := context.Background()
	if _, _, err := e.s.Run(ctx, key("r")); !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
	check := func(iteration uint32, want int) {
		t.Helper()
		st, list, err := e.s.Run(ctx, key("r"))
		e.ok(err)
		if st.Iteration != iteration || int(st.Length) != want || len(list) != want {
			t.Fatalf("iteration %d, length %d, %d entries; want %d and %d", st.Iteration, st.Length, len(list), iteration, want)
		}
		for i := range list {
			if list[i].Seq != store.Seq(i) || list[i].Name != fmt.Sprint("s", i) {
				t.Fatalf("entry %d is %+v", i, list[i])
			}
		}
	}
	e.ok(e.commit(state("r"), true, 0, 0))
	check(0, 0)
	n := 0
	for _, more := range []int{1, 3, 500, 2} {
		e.ok(e.commit(state("r"), false, store.Seq(n), more))
		n += more
		check(0, n)
		e.reopen()
		check(0, n)
		check(0, n)
	}
	st := state("r")
	st.Iteration, st.Length = 1, 2
	e.ok(e.partition(st.Run.Partition()).Commit(ctx, []store.RunCommit{{Run: st.Run, State: st, Append: entries(0, 2),
		Before: &store.IterationEnd{Iteration: 0, Expect: store.Seq(n), Append: entries(store.Seq(n), 1)}}}))
	check(1, 2)
	if got := len(e.load("r", 0, 0)); got != n+1 {
		t.Fatalf("%d entries before it continued, want %d", got, n+1)
	}
	e.ok(e.partition(st.Run.Partition()).Commit(ctx, []store.RunCommit{{Run: st.Run, Delete: true, State: st}}))
	if _, _, err := e.s.Run(ctx, key("r")); !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
}

// testRunGrows reads runs while they grow: state and journal always match, and never go backwards.
func testRunGrows(t *testing.T, e *env) {
	ctx := context.Background()
	e.ok(e.commit(state("r"), true, 0, 1))
	done := make(chan error)
	go func() {
		p := e.partition(key("r").Partition())
		for n := store.Seq(1); n < 300; n++ {
			st := state("r")
			st.Length = n + 1
			if err := p.Commit(ctx, []store.RunCommit{{Run: st.Run, Expect: n, Append: entries(n, 1), State: st}}); err != nil {
				done <- err
				return
			}
		}
		close(done)
	}()
	for last := store.Seq(0); ; {
		select {
		case err := <-done:
			e.ok(err)
			return
		default:
		}
		st, list, err := e.s.Run(ctx, key("r"))
		e.ok(err)
		if int(st.Length) != len(list) || st.Length < last {
			t.Errorf("length %d after %d, %d entries", st.Length, last, len(list))
			<-done
			return
		}
		if n := len(e.load("r", 0, 0)); n < len(list) {
			t.Errorf("%d entries after %d", n, len(list))
			<-done
			return
		}
		last = st.Length
	}
}

// testHooks claims a token twice, and gives it up.
func testHooks(t *testing.T, e *env) {
	ctx := context.Background()
	p := e.partition(store.TokenPartition(0, "token"))
	holder := func(id string) store.HookHolder { return store.HookHolder{Run: key(id), Iteration: 1, Handle: 2} }
	cmd := store.Command{ID: store.CommandID{Seq: 7}, Kind: store.CommandHookClaim, To: key("token")}
	e.submit(cmd)
	claim := func(id string, ack store.CommandSeq, release bool) store.HookHolder {
		t.Helper()
		h, err := p.Claim(ctx, store.HookClaim{Token: "token", Holder: holder(id), Ack: ack, Release: release,
			Reply: func(h store.HookHolder) (*store.Command, error) {
				return &store.Command{ID: store.CommandID{Seq: store.Seq(100 + ack)}, Kind: store.CommandReply, To: key(id),
					Name: h.Run.ID}, nil
			}})
		e.ok(err)
		return h
	}
	if h := claim("a", 1, false); h != holder("a") {
		t.Fatalf("%+v", h)
	}
	if left, err := p.Commands(ctx, 0, 10); err != nil || len(left) != 0 && p.Epoch() == 0 {
		t.Fatal(left, err)
	}
	replies, err := e.partition(key("a").Partition()).Commands(ctx, 0, 10)
	e.ok(err)
	errReply := errors.New("no reply")
	_, err = p.Claim(ctx, store.HookClaim{Token: "token", Holder: holder("r"),
		Reply: func(store.HookHolder) (*store.Command, error) { return nil, errReply }})
	if !errors.Is(err, errReply) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("a claim without a reply: %v", err)
	}
	if !slices.ContainsFunc(replies, func(c store.Command) bool { return c.Kind == store.CommandReply && c.Name == "a" }) {
		t.Fatalf("replies %+v", replies)
	}
	p = e.partition(store.TokenPartition(0, "token"))
	if h := claim("b", 2, false); h != holder("a") {
		t.Fatalf("a second claim takes it: %+v", h)
	}
	claim("b", 3, true) // which does not hold it
	if h, ok, err := e.s.Hook(ctx, 0, "token"); err != nil || !ok || h != holder("a") {
		t.Fatal(h, ok, err)
	}
	claim("a", 4, true)
	e.reopen()
	if _, ok, err := e.s.Hook(ctx, 0, "token"); err != nil || ok {
		t.Fatal("it is still held", err)
	}
	p = e.partition(store.TokenPartition(0, "token"))
	e.submit(store.Command{ID: store.CommandID{Seq: 8}, Kind: store.CommandCancel, To: key("token")})
	left, err := p.Commands(ctx, 0, 100)
	e.ok(err)
	var seqs []store.CommandSeq
	for _, c := range left {
		seqs = append(seqs, c.Seq)
	}
	e.ok(p.Discard(ctx, seqs, nil))
	left, err = p.Commands(ctx, 0, 100)
	if err != nil || len(left) != 0 {
		t.Fatal(left, err)
	}
}

// testOutput appends output and reads it from an index on, and finds runs by attributes.
func testOutput(t *testing.T, e *env) {
	ctx := context.Background()
	st := state("r")
	st.Length, st.Output, st.Attributes = 1, 3, []store.Attribute{{Key: "k", Value: "v"}, {Key: "l", Value: ""}}
	out := []store.Chunk{{Index: 0, Topic: "a", Data: []byte("x")}, {Index: 1, Topic: "b"},
		{Index: 2, Topic: "a", Data: []byte("z")}}
	e.ok(e.partition(st.Run.Partition()).Commit(ctx, []store.RunCommit{{Run: st.Run, Create: true, State: st,
		Append: entries(0, 1), Output: out}}))
	e.reopen()
	got, err := e.s.Output(ctx, st.Run, 1, 10)
	e.ok(err)
	if len(got) != 2 || got[0].Topic != "b" || string(got[1].Data) != "z" || got[1].Index != 2 {
		t.Fatalf("output %+v", got)
	}
	got, err = e.s.Output(ctx, st.Run, 0, 1)
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	later := state("later") // the output of a run that was restarted after it had continued as new begins after 0
	later.Length, later.Output = 1, 9
	e.ok(e.partition(later.Run.Partition()).Commit(ctx, []store.RunCommit{{Run: later.Run, Create: true, State: later,
		Append: entries(0, 1), Output: []store.Chunk{{Index: 7, Topic: "a"}, {Index: 8, Topic: "b"}}}}))
	for from, want := range map[uint64]int{0: 2, 1: 2, 7: 2, 8: 1, 9: 0} {
		got, err = e.s.Output(ctx, later.Run, from, 10)
		if err != nil || len(got) != want {
			t.Fatal(from, got, err)
		}
	}
	for value, want := range map[string]int{"v": 1, "w": 0} {
		n := 0
		for s, err := range store.Runs(ctx, e.s, store.Query{Attributes: []store.Attribute{{Key: "k", Value: value}}}, 0) {
			e.ok(err)
			n++
			if len(s.Attributes) != 2 {
				t.Fatalf("%+v", s)
			}
		}
		if n != want {
			t.Fatalf("%d runs with k=%s", n, value)
		}
	}
}

// testKept removes the journals of earlier iterations: the beginning of the first one stays, and so do the kept
// iterations, and large payloads that these or other runs use.
func testKept(t *testing.T, e *env) {
	ctx := context.Background()
	large := func(b byte) []byte { return bytes.Repeat([]byte{b}, abi.BlobBytes+1) }
	first, shared, both, lost := large(1), large(2), large(3), large(4)
	st := state("r")
	begun := entries(0, 900)
	begun[0].Input, begun[800].Data, begun[801].Data, begun[802].Data = first, shared, both, lost
	p := e.partition(st.Run.Partition())
	e.ok(p.Commit(ctx, []store.RunCommit{{Run: st.Run, Create: true, State: st, Append: begun}}))
	other := state("other")
	begun = entries(0, 1)
	begun[0].Data = shared
	e.ok(e.partition(other.Run.Partition()).Commit(ctx, []store.RunCommit{{Run: other.Run, Create: true, State: other,
		Append: begun}}))
	next := func(kept uint32, data []byte) {
		t.Helper()
		before := len(e.load("r", st.Iteration, 0))
		st.Iteration, st.Kept, st.Length = st.Iteration+1, kept, 1
		st.Past = append(st.Past, store.Past{Bytes: int64(before), EndedUnixMs: int64(1000 * st.Iteration)})
		c := store.RunCommit{Run: st.Run, State: st, Append: entries(0, 1), Before: &store.IterationEnd{Iteration: st.Iteration - 1,
			Expect: store.Seq(before), Append: entries(store.Seq(before), 200)}}
		c.Append[0].Input = data
		e.ok(p.Commit(ctx, []store.RunCommit{c}))
	}
	next(0, nil)
	next(0, both)
	next(1, nil)
	e.reopen()
	p = e.partition(st.Run.Partition())
	next(2, nil)
	if got, err := e.s.State(ctx, st.Run); err != nil || got.Kept != 2 || len(got.Past) != 4 || got.Past[3] != st.Past[3] {
		t.Fatalf("%+v, %v", got, err)
	}
	for i, want := range []int{1, 0, 201, 201, 1} {
		got := e.load("r", uint32(i), 0)
		if i == 0 && len(got) > 0 { // some of the first chunk may be left
			got = got[:1]
		}
		if len(got) != want {
			t.Errorf("iteration %d has %d entries, want %d", i, len(got), want)
		}
	}
	if got := e.load("r", 0, 0); !bytes.Equal(got[0].Input, first) {
		t.Error("the input of the first iteration is not there")
	}
	if got := e.load("r", 2, 0); !bytes.Equal(got[0].Input, both) {
		t.Error("the input of an iteration that is kept is not there")
	}
	if got := e.load("other", 0, 0); !bytes.Equal(got[0].Data, shared) {
		t.Error("the payload of another run is not there")
	}
	e.ok(p.Commit(ctx, []store.RunCommit{{Run: st.Run, Delete: true, State: st}}))
	if got := e.load("other", 0, 0); !bytes.Equal(got[0].Data, shared) {
		t.Error("the payload of another run went with the run")
	}
}
