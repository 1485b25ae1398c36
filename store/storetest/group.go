package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// in returns the n-th run of a namespace that belongs to a partition.
func in(ns store.NamespaceID, p store.PartitionID, n int) store.RunKey {
	for i := 0; ; i++ {
		run := store.RunKey{Namespace: ns, ID: fmt.Sprintf("g%d", i)}
		if run.Partition() != p {
			continue
		}
		n--
		if n < 0 {
			return run
		}
	}
}

// create returns the commit of a new run with n entries.
func create(run store.RunKey, n int) store.RunCommit {
	st := state(run.ID)
	st.Run, st.Length = run, store.Seq(n)
	return store.RunCommit{Run: run, Create: true, State: st, Append: entries(0, n)}
}

// group returns a group of commits of runs of a partition.
func (e *env) group(p store.PartitionID, runs ...store.RunCommit) store.Group {
	e.t.Helper()
	return store.Group{Partition: e.partition(p), Runs: runs}
}

// refused checks that an error refuses a run of a group, for the given reason unless that is nil.
func (e *env) refused(err error, group, run int, why error) {
	e.t.Helper()
	var r *store.RefusedError
	if !errors.As(err, &r) || r.Group != group || r.Run != run || why != nil && !errors.Is(err, why) {
		e.t.Fatalf("error %#v (%v), want group %d, run %d, %v", r, err, group, run, why)
	}
}

// there reports whether a run exists.
func (e *env) there(run store.RunKey) bool {
	e.t.Helper()
	_, err := e.s.State(context.Background(), run)
	if !errors.Is(err, store.ErrNotFound) {
		e.ok(err)
	}
	return err == nil
}

// testGroups commits groups of several partitions, and leaves out what is refused.
func testGroups(t *testing.T, e *env) {
	ctx := context.Background()
	e.ok(e.s.Commit(ctx, nil))
	old := in(0, 9, 0)
	e.ok(e.s.Commit(ctx, []store.Group{e.group(9, create(old, 2)), {Partition: e.partition(4)}}))
	groups := func() []store.Group { // in descending order of partitions: the numbers in errors refer to the caller's order
		return []store.Group{e.group(9, create(in(0, 9, 1), 1), create(in(5, 9, 2), 3), create(old, 1)),
			e.group(7, create(in(0, 7, 0), 1)), e.group(2, create(in(0, 2, 0), 1), create(in(0, 2, 1), 2))}
	}
	for _, c := range []struct {
		group, run int
		why        error
		spoil      func(g []store.Group)
	}{
		{0, 2, store.ErrExists, func([]store.Group) {}},
		{0, 2, store.ErrConflict, func(g []store.Group) { g[0].Runs[2].Create = false }},
		{2, 1, store.ErrNotFound, func(g []store.Group) { g[0].Runs, g[2].Runs[1].Create = nil, false }},
		{1, 0, store.ErrConflict, func(g []store.Group) { g[0].Runs, g[1].Runs[0].Append = nil, entries(1, 1) }},
	} {
		g := groups()
		c.spoil(g)
		e.refused(e.s.Commit(ctx, g), c.group, c.run, c.why)
	}
	g := groups()
	stale := g[1].Partition
	e.part[7] = nil
	e.partition(7)
	e.refused(e.s.Commit(ctx, g), 1, -1, store.ErrFenced) // before its runs are looked at
	for _, run := range []store.RunKey{in(0, 9, 1), in(5, 9, 2), in(0, 7, 0), in(0, 2, 0), in(0, 2, 1)} {
		if e.there(run) {
			t.Fatalf("%+v is there after refused commits", run)
		}
	}
	g = groups()
	g[0].Runs = g[0].Runs[:2]
	g[0].Runs[0].Outbox = []store.Command{{ID: store.CommandID{Seq: 1}, Kind: store.CommandSignal, To: in(0, 2, 0)}}
	e.ok(e.s.Commit(ctx, g))
	e.is(stale.Commit(ctx, nil), store.ErrFenced)
	for range 2 {
		for i := range g {
			for _, c := range g[i].Runs {
				st, list, err := e.s.Run(ctx, c.Run)
				if err != nil || len(list) != len(c.Append) || st.Run != c.Run {
					t.Fatalf("%+v with %d entries: %v", st, len(list), err)
				}
			}
		}
		cmds, err := e.partition(2).Commands(ctx, 0, 10)
		if err != nil || len(cmds) != 1 {
			t.Fatal(cmds, err)
		}
		e.reopen()
	}
}

// testCalls refuses groups that are invalid whatever the store has.
func testCalls(t *testing.T, e *env) {
	ctx := context.Background()
	a, b := create(in(0, 3, 0), 1), create(in(0, 3, 1), 1)
	lease := store.WakeSet{Kind: store.WakeLease, OldUnixMs: store.NoWake, UnixMs: 1}
	e.refused(e.s.Commit(ctx, []store.Group{e.group(3, a, b, a)}), 0, 2, nil)
	e.refused(e.s.Commit(ctx, []store.Group{e.group(3, a), e.group(3, b)}), 1, -1, nil)
	e.refused(e.s.Commit(ctx, []store.Group{e.group(3, a), e.group(4, b)}), 1, 0, nil)
	for _, kind := range []store.WakeKind{store.WakeRun, store.WakeLimit + 1} {
		bad := lease
		bad.Kind = kind
		e.refused(e.s.Commit(ctx, []store.Group{{Partition: e.partition(3), Wakes: []store.WakeSet{lease, bad}}}), 0, -1, nil)
	}
	many := make([]store.RunCommit, 0, store.MaxCommitRecords)
	for i := 0; len(many) < store.MaxCommitRecords; i++ {
		if run := (store.RunKey{ID: fmt.Sprint("m", i)}); run.Partition() == 3 {
			many = append(many, create(run, 1))
		}
	}
	full := []store.Group{e.group(3, many...), {Partition: e.partition(4), Wakes: []store.WakeSet{lease}}}
	if err := e.s.Commit(ctx, full); err == nil || e.there(many[0].Run) {
		t.Fatal("a commit beyond its limit", err)
	}
	full[0].Runs = many[1:]
	e.ok(e.s.Commit(ctx, full))
	other := e.partition(3)
	e.reopen()
	e.refused(e.s.Commit(ctx, []store.Group{e.group(3, a), {Partition: other}}), 1, -1, nil)
	if e.there(a.Run) {
		t.Fatal("a refused run is there")
	}
}

// testSizes commits records at the largest size that can be decoded, and refuses those one byte larger.
func testSizes(t *testing.T, e *env) {
	ctx := context.Background()
	good, big := create(in(0, 3, 0), 1), create(in(0, 3, 1), 0)
	pad := func(n int) string { return strings.Repeat("x", n) }
	room := store.MaxRecordBytes
	for i, c := range []struct {
		name   string
		set    func(n int)
		length func() int
	}{
		{"entry", func(n int) { big.Append = []store.Entry{{Kind: store.KindStep, Options: []byte(pad(n))}} },
			func() int { return len(store.AppendEntry(nil, &big.Append[0])) }},
		{"log line", func(n int) { big.Logs, big.State.LogRecords = []store.LogLine{{Text: pad(n)}}, 1 },
			func() int { return len(store.AppendLogLine(nil, &big.Logs[0])) }},
		{"output", func(n int) { big.Output, big.State.Output = []store.Chunk{{Data: []byte(pad(n))}}, 1 },
			func() int { return len(store.AppendChunk(nil, &big.Output[0])) }},
		{"state", func(n int) { big.State.Reason = pad(n) }, func() int { return len(store.AppendState(nil, &big.State)) }},
		{"command", func(n int) {
			big.Outbox = []store.Command{{Seq: 1, ID: store.CommandID{Seq: 1}, To: in(0, 5, 0), Data: []byte(pad(n))}}
		}, func() int { return len(store.AppendCommand(nil, &big.Outbox[0])) }},
	} {
		big = create(in(0, 3, i+1), 0)
		big.State.Length = 1 // AppendState sets it, as the store does
		if i > 0 {
			big.Append = entries(0, 1)
		}
		c.set(room - 200)
		n := room - 200 + room - c.length()
		c.set(n + 1)
		if c.length() != room+1 {
			t.Fatalf("%s of %d bytes", c.name, c.length())
		}
		if i == 0 {
			e.refused(e.s.Commit(ctx, []store.Group{e.group(5), e.group(3, good, big)}), 1, 1, store.ErrTooLarge)
			e.ok(e.s.Commit(ctx, []store.Group{e.group(3, good)}))
		}
		e.refused(e.s.Commit(ctx, []store.Group{e.group(3, big)}), 0, 0, store.ErrTooLarge)
		c.set(n)
		e.ok(e.s.Commit(ctx, []store.Group{e.group(3, big)}))
		e.reopen()
		_, list, err := e.s.Run(ctx, big.Run)
		e.ok(err)
		lines, err := e.s.Logs(ctx, big.Run, 0, 1)
		e.ok(err)
		chunks, err := e.s.Output(ctx, big.Run, 0, 1)
		e.ok(err)
		cmds, err := e.partition(5).Commands(ctx, 0, 10)
		e.ok(err)
		if len(list) != 1 || len(list[0].Options) != len(big.Append[0].Options) || len(lines) != len(big.Logs) ||
			len(chunks) != len(big.Output) || len(cmds) != len(big.Outbox) {
			t.Fatalf("%s: %d entries, %d lines, %d chunks, %d commands", c.name, len(list), len(lines), len(chunks), len(cmds))
		}
	}
	cmd := store.Command{ID: store.CommandID{Seq: 2}, To: in(0, 5, 0), Data: make([]byte, store.MaxRecordBytes)}
	e.is(e.partition(post).Discard(ctx, nil, []store.Command{cmd}), store.ErrTooLarge)
}

// testNamespacedRuns keeps runs with the same id in two namespaces apart in every table; one scan of a partition
// finds the wakes and commands of both.
func testNamespacedRuns(t *testing.T, e *env) {
	ctx := context.Background()
	var keys [2]store.RunKey // in one partition and different namespaces, with the same id if possible
	keys[0] = store.RunKey{ID: "r"}
	p := keys[0].Partition()
	for ns := store.NamespaceID(1); ; ns++ {
		keys[1] = (store.RunKey{Namespace: ns, ID: "r"})
		if keys[1].Partition() == p {
			break
		}
	}
	other := func(ns store.NamespaceID) store.Query { return store.Query{Namespace: ns} }
	commit := func(change func(i int, c *store.RunCommit)) {
		t.Helper()
		g := e.group(p)
		for i, k := range keys {
			c := create(k, i+1)
			change(i, &c)
			g.Runs = append(g.Runs, c)
		}
		e.ok(e.s.Commit(ctx, []store.Group{g}))
	}
	commit(func(i int, c *store.RunCommit) {
		c.State.WakeUnixMs, c.State.LogRecords, c.State.Output = 100, 1, 1
		c.Logs = []store.LogLine{{Text: fmt.Sprint("line ", i)}}
		c.Output = []store.Chunk{{Topic: fmt.Sprint("topic ", i)}}
		c.Outbox = []store.Command{{ID: store.CommandID{Seq: store.Seq(i)}, To: c.Run, From: keys[1-i]}}
	})
	for range 2 {
		for i, k := range keys {
			st, list, err := e.s.Run(ctx, k)
			e.ok(err)
			lines, err := e.s.Logs(ctx, k, 0, 10)
			e.ok(err)
			chunks, err := e.s.Output(ctx, k, 0, 10)
			e.ok(err)
			n := 0
			for st, err := range store.Runs(ctx, e.s, other(k.Namespace), 0) {
				e.ok(err)
				n++
				if st.Run != k {
					t.Fatalf("%+v is listed in namespace %d", st.Run, k.Namespace)
				}
			}
			if st.Run != k || len(list) != i+1 || n != 1 || len(lines) != 1 || lines[0].Text != fmt.Sprint("line ", i) ||
				len(chunks) != 1 || chunks[0].Topic != fmt.Sprint("topic ", i) {
				t.Fatalf("run %+v: %+v, %d entries, %d listed, %v, %v", k, st, len(list), n, lines, chunks)
			}
		}
		wakes, err := e.partition(p).Due(ctx, store.WakeKey{}, 1000, 10)
		e.ok(err)
		cmds, err := e.partition(p).Commands(ctx, 0, 10)
		e.ok(err)
		if len(wakes) != 2 || wakes[0].Key.Key != keys[1] || wakes[1].Key.Key != keys[0] ||
			len(cmds) != 2 || cmds[0].To != keys[0] || cmds[0].From != keys[1] || cmds[1].To != keys[1] {
			t.Fatalf("wakes %+v, commands %+v", wakes, cmds)
		}
		e.reopen()
	}
	commit(func(_ int, c *store.RunCommit) {
		c.Create, c.Append, c.Ack = false, nil, []store.CommandSeq{1, 2}
		c.Delete = c.Run.Namespace != 0
		c.Expect = store.Seq(len(entries(0, 1)))
	})
	cmds, err := e.partition(p).Commands(ctx, 0, 10)
	e.ok(err)
	if !e.there(keys[0]) || e.there(keys[1]) || len(cmds) != 0 {
		t.Fatal("the wrong run was deleted", cmds)
	}
}

// testWakeKinds sets, moves and removes wakes of all kinds without a record, in all namespaces: one scan lists them
// in order.
func testWakeKinds(t *testing.T, e *env) {
	ctx := context.Background()
	const p = 3
	var want []store.WakeKey
	var g store.Group
	for _, ms := range []int64{70, 0, 50} {
		for ns := range store.NamespaceID(3) {
			for kind := store.WakeRetention; kind <= store.WakeLimit; kind++ {
				k := store.WakeKey{UnixMs: ms, Kind: kind, Key: store.RunKey{Namespace: ns, ID: fmt.Sprint("s", ms)}}
				want = append(want, k)
				g.Wakes = append(g.Wakes, store.WakeSet{Kind: kind, Key: k.Key, OldUnixMs: store.NoWake, UnixMs: ms})
			}
			c := create(in(ns, p, int(ms)/20), 1)
			c.State.WakeUnixMs = ms
			g.Runs = append(g.Runs, c)
			want = append(want, store.WakeKey{UnixMs: ms, Key: c.Run})
		}
	}
	g.Partition = e.partition(p)
	e.ok(e.s.Commit(ctx, []store.Group{g}))
	list := func(until int64) []store.WakeKey {
		t.Helper()
		var got []store.WakeKey
		for after := (store.WakeKey{}); ; {
			wakes, err := e.partition(p).Due(ctx, after, until, 4)
			e.ok(err)
			for _, w := range wakes {
				if w.DueUnixMs != w.Key.UnixMs {
					t.Fatalf("%+v", w)
				}
				got, after = append(got, w.Key), w.Key
			}
			if len(wakes) == 0 {
				return got
			}
		}
	}
	slices.SortFunc(want, store.WakeKey.Compare)
	for range 2 {
		if got := list(1000); !slices.Equal(got, want) {
			t.Fatalf("wakes\n%+v\nwant\n%+v", got, want)
		}
		if got := list(50); !slices.Equal(got, want[:2*len(want)/3]) {
			t.Fatalf("wakes until 50\n%+v", got)
		}
		e.reopen()
	}
	moved := g.Wakes[0]
	moved.OldUnixMs, moved.UnixMs = moved.UnixMs, -5 // long over
	removed := g.Wakes[1]
	removed.OldUnixMs, removed.UnixMs = removed.UnixMs, store.NoWake
	e.ok(e.s.Commit(ctx, []store.Group{{Partition: e.partition(p), Wakes: []store.WakeSet{moved, removed}}}))
	wakes, err := e.partition(p).Due(ctx, store.WakeKey{}, 1000, 100)
	e.ok(err)
	n := 0
	for _, w := range wakes {
		if w.Key.Key == moved.Key && w.Key.Kind == moved.Kind {
			n++
			if w.DueUnixMs != -5 || w.Key.UnixMs != 0 {
				t.Fatalf("%+v", w)
			}
		}
		if w.Key.Key == removed.Key && w.Key.Kind == removed.Kind {
			t.Fatalf("%+v is removed", w)
		}
	}
	if n != 1 || len(wakes) != len(want)-1 {
		t.Fatalf("%d wakes, %d of what was moved", len(wakes), n)
	}
}
