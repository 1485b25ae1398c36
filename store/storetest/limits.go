package storetest

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// testLimits sets, replaces and removes limits of workflows in several namespaces.
func testLimits(t *testing.T, e *env) {
	ctx := context.Background()
	set := func(ns store.NamespaceID, workflow, data string) error {
		l := store.Limits{Namespace: ns, Workflow: workflow, Data: []byte(data)}
		return e.s.SetLimits(ctx, l, store.Command{Kind: store.CommandLimits, To: l.Queue()})
	}
	is := func(ns store.NamespaceID, want ...store.Limits) {
		t.Helper()
		got, err := e.s.Limits(ctx, ns)
		e.ok(err)
		if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("namespace %d has %+v, want %+v", ns, got, want)
		}
		for _, l := range want {
			one, err := e.s.LimitsOf(ctx, ns, l.Workflow)
			e.ok(err)
			if !reflect.DeepEqual(one, l) {
				t.Fatalf("%+v, want %+v", one, l)
			}
		}
	}
	e.ok(set(0, "b", "1"))
	e.ok(set(0, "a", "2"))
	e.ok(set(7, "a", "3"))
	e.ok(set(0, "b", "4"))
	e.ok(set(0, "none", ""))
	e.reopen()
	is(0, store.Limits{Workflow: "a", Data: []byte("2")}, store.Limits{Workflow: "b", Data: []byte("4")})
	is(7, store.Limits{Namespace: 7, Workflow: "a", Data: []byte("3")})
	if l, err := e.s.LimitsOf(ctx, 7, "b"); err != nil || l.Data != nil {
		t.Fatalf("%+v, %v", l, err)
	}
	e.ok(set(0, "a", ""))
	e.is(set(0, "a", string(make([]byte, store.MaxLimitBytes+1))), store.ErrTooLarge)
	e.reopen()
	is(0, store.Limits{Workflow: "b", Data: []byte("4")})
	for i := range store.MaxLimitsOfOne - 1 {
		e.ok(set(7, fmt.Sprint("w", i), "5"))
	}
	e.ok(set(7, "a", "6"))
	e.is(set(7, "one more", "5"), store.ErrTooLarge)
	e.ok(set(8, "one more", "5"))
	of := store.RunKey{Namespace: 8, ID: "one more"}
	cmds, err := e.partition(of.Partition()).Commands(ctx, 0, 5000)
	e.ok(err)
	if last := cmds[len(cmds)-1]; last.Kind != store.CommandLimits || last.To != of {
		t.Fatalf("%+v", last)
	}
}

// testQueues changes the cells of queues in one commit with the commands that the queues receive and send.
func testQueues(t *testing.T, e *env) {
	ctx := context.Background()
	queue := store.RunKey{Namespace: 3, ID: "print"}
	p := queue.Partition()
	run := store.RunKey{Namespace: 3, ID: "r"}
	cell := func(key, value string) store.Cell { return store.Cell{Key: []byte(key), Value: []byte(value)} }
	commit := func(x store.QueueSet, wakes ...store.WakeSet) error {
		return e.s.Commit(ctx, []store.Group{{Partition: e.partition(p), Queues: []store.QueueSet{x}, Wakes: wakes}})
	}
	cells := func(from, to string, limit int, want ...string) {
		t.Helper()
		q := store.CellQuery{Queue: queue, From: []byte(from), Limit: limit}
		if to != "" {
			q.To = []byte(to)
		}
		list, err := e.s.Cells(ctx, q)
		e.ok(err)
		got := make([]string, 0, len(list))
		for _, c := range list {
			got = append(got, string(c.Key)+"="+string(c.Value))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%q to %q: %q, want %q", from, to, got, want)
		}
	}
	cells("", "", 10)
	ask := store.Command{ID: store.CommandID{Seq: 1}, Kind: store.CommandSlotAsk, To: queue, From: run}
	e.ok(e.partition(p).Discard(ctx, nil, []store.Command{ask}))
	cmds, err := e.partition(p).Commands(ctx, 0, 10)
	e.ok(err)
	give := store.Command{ID: store.CommandID{Seq: 2}, Kind: store.CommandSlotGive, To: run, From: queue}
	e.ok(commit(store.QueueSet{Queue: queue, Before: store.Cell{Key: []byte("q")}, Ack: []store.CommandSeq{cmds[0].Seq},
		Cells:  []store.Cell{cell("q", "1"), cell("a", "x"), cell("b", ""), cell("b\x00", "y"), cell("c\xff", "z")},
		Outbox: []store.Command{give}}, store.WakeSet{Kind: store.WakeLimit, Key: queue, OldUnixMs: store.NoWake, UnixMs: 50}))
	e.reopen()
	cells("", "", 10, "a=x", "b=", "b\x00=y", "c\xff=z", "q=1")
	cells("a", "a\x00", 1, "a=x")
	cells("a", "a\x00", 0)
	cells("x", "x\x00", 1)
	cells("b", "c", 10, "b=", "b\x00=y")
	cells("b", "", 2, "b=", "b\x00=y")
	cells("c", "b", 10)
	cmds, err = e.partition(p).Commands(ctx, 0, 10)
	if err != nil || len(cmds) > 0 && cmds[0].Kind == store.CommandSlotAsk {
		t.Fatalf("%+v, %v", cmds, err)
	}
	cmds, err = e.partition(run.Partition()).Commands(ctx, 0, 10)
	if err != nil || len(cmds) != 1 || cmds[0].Kind != store.CommandSlotGive || cmds[0].To != run || cmds[0].From != queue {
		t.Fatalf("%+v, %v", cmds, err)
	}
	due, err := e.partition(p).Due(ctx, store.WakeKey{}, 50, 10)
	if err != nil || len(due) != 1 || due[0].Key.Kind != store.WakeLimit || due[0].Key.Key != queue {
		t.Fatalf("%+v, %v", due, err)
	}
	e.refusedQueues(queue, commit)
	e.ok(commit(store.QueueSet{Queue: queue, Before: cell("q", "1"), Cells: []store.Cell{cell("q", "2"), {Key: []byte("a")}}}))
	e.reopen()
	cells("", "", 10, "b=", "b\x00=y", "c\xff=z", "q=2")
}

// testCells changes the cells of a queue without an owner.
func testCells(t *testing.T, e *env) {
	ctx := context.Background()
	queue := store.RunKey{Namespace: 3, ID: "host/charge"}
	cell := func(key, value string) store.Cell { return store.Cell{Key: []byte(key), Value: []byte(value)} }
	set := func(before store.Cell, cells ...store.Cell) error {
		return e.s.SetCells(ctx, store.QueueSet{Queue: queue, Before: before, Cells: cells})
	}
	e.ok(set(store.Cell{Key: []byte("q")}, cell("q", "1"), cell("m", "x")))
	e.is(set(store.Cell{Key: []byte("q")}, cell("q", "2")), store.ErrConflict)
	e.is(set(cell("q", "0"), cell("q", "2")), store.ErrConflict)
	e.ok(set(cell("q", "1"), cell("q", "2"), store.Cell{Key: []byte("m")}, cell("n", "")))
	e.ok(set(cell("q", "2"), cell("q", "1"), cell("old", "x"), cell("new", "x")))
	e.ok(e.s.SetCells(ctx, store.QueueSet{Queue: queue, Before: cell("q", "1"), Cells: []store.Cell{cell("q", "2")},
		Expired: []store.Cell{cell("old", "x"), cell("new", "w"), cell("none", "")}}))
	e.ok(e.s.SetCells(ctx, store.QueueSet{Queue: queue, Before: cell("q", "2"), Expired: []store.Cell{cell("new", "x")}}))
	e.reopen()
	list, err := e.s.Cells(ctx, store.CellQuery{Queue: queue, Limit: 10})
	if err != nil || len(list) != 2 || string(list[0].Key) != "n" || string(list[1].Value) != "2" {
		t.Fatalf("%q, %v", list, err)
	}
	e.refused(set(cell("q", "2"), cell("", "no")), 0, -1, nil)
	ack := store.QueueSet{Queue: queue, Before: cell("q", "2"), Ack: []store.CommandSeq{1}}
	if err := e.s.SetCells(ctx, ack); err == nil {
		t.Fatal("a queue without an owner took a command")
	}
}

// refusedQueues makes changes that must be refused to a queue whose cell q is 1.
func (e *env) refusedQueues(queue store.RunKey, commit func(store.QueueSet, ...store.WakeSet) error) {
	e.t.Helper()
	p := queue.Partition()
	cell := func(key, value string) store.Cell { return store.Cell{Key: []byte(key), Value: []byte(value)} }
	another := queue
	another.Namespace = 0
	for _, x := range []store.QueueSet{{Queue: queue, Before: store.Cell{Key: []byte("q")}},
		{Queue: queue, Before: cell("q", "2")}, {Queue: queue, Before: cell("none", "")}} {
		x.Cells = []store.Cell{cell("d", "no")}
		e.is(commit(x), store.ErrConflict)
	}
	for _, x := range []store.QueueSet{{Queue: another, Before: cell("q", "1")}, {Queue: queue, Before: cell("", "1")},
		{Queue: queue, Before: cell("q", "1"), Cells: []store.Cell{{Key: bytes.Repeat([]byte("x"), store.MaxCellKey+1)}}},
		{Queue: queue, Before: cell("q", "1"), Cells: make([]store.Cell, store.MaxCells+1)},
		{Queue: queue, Before: cell("q", "1"), Expired: []store.Cell{{}}}} {
		e.refused(commit(x), 0, -1, nil)
	}
	x := store.QueueSet{Queue: queue, Before: cell("q", "1")}
	groups := []store.Group{{Partition: e.partition(p), Queues: []store.QueueSet{x, x}}}
	e.refused(e.s.Commit(context.Background(), groups), 0, -1, nil)
}
