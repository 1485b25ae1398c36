// Package storetest is the suite that every store passes.
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

// Open opens a store. Called again after a Close, it opens the same data.
type Open func(t *testing.T) store.Store

// Run runs the suite. data returns an opener of new, empty data. without lists the names of tests to skip.
func Run(t *testing.T, data func(t *testing.T) Open, without ...string) {
	for name, f := range map[string]func(*testing.T, *env){
		"append": testAppend, "conflicts": testConflicts, "fencing": testFencing, "atomic": testAtomic,
		"payloads": testPayloads, "due": testDue, "wakes": testWakes, "list": testList, "pages": testPages,
		"counts": testCounts, "timers": testTimers, "list by change": testListChanges, "logs": testLogs, "inbox": testInbox,
		"answers": testAnswers,
		"delete":  testDelete, "modules": testModules, "closed": testClosed, "iterations": testIterations,
		"removed iterations": testKept,
		"imported":           testImported,
		"tombstones":         testTombstones, "hooks": testHooks, "output": testOutput, "run": testRun,
		"run while it grows": testRunGrows, "groups": testGroups, "calls": testCalls, "sizes": testSizes,
		"namespaced runs": testNamespacedRuns, "wake kinds": testWakeKinds, "owners": testOwners,
		"ended": testEnded, "retentions": testRetentions, "quotas": testQuotas, "schedules": testSchedules, "used": testUsed,
		"limits": testLimits, "queues": testQueues, "cells": testCells,
		"upload races delete": testUploadRacesDelete, "shared module": testSharedModule, "namespaces": testNamespaces,
		"unused modules":        testUnusedModules,
		"versions":              testVersions,
		"many namespaces":       testManyNamespaces,
		"tokens":                testTokens,
		"keys":                  testKeys,
		"absent":                testAbsent,
		"inbox concurrently":    testInboxConcurrently,
		"payload shares module": testPayloadSharesModule,
		"full pages":            testFullPages,
	} {
		if slices.Contains(without, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			e := &env{t: t, open: data(t)}
			e.s = e.open(t)
			defer func() { _ = e.s.Close() }()
			f(t, e)
		})
	}
}

type env struct {
	t    *testing.T
	open Open
	s    store.Store
	part map[store.PartitionID]store.Partition
}

func (e *env) ok(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

func (e *env) is(err, want error) {
	e.t.Helper()
	if !errors.Is(err, want) {
		e.t.Fatalf("error %v, want %v", err, want)
	}
}

func (e *env) partition(p store.PartitionID) store.Partition {
	e.t.Helper()
	if e.part[p] == nil {
		part, err := e.s.Acquire(context.Background(), p, "test", 0)
		e.ok(err)
		if e.part == nil {
			e.part = map[store.PartitionID]store.Partition{}
		}
		e.part[p] = part
	}
	return e.part[p]
}

// post is a partition that only sends commands.
const post store.PartitionID = 63

// submit puts a command into the inbox of its receiver.
func (e *env) submit(cmd store.Command) {
	e.t.Helper()
	e.ok(e.partition(post).Discard(context.Background(), nil, []store.Command{cmd}))
}

func (e *env) reopen() {
	e.t.Helper()
	e.ok(e.s.Close())
	e.part = nil
	e.s = e.open(e.t)
}

func key(id string) store.RunKey { return store.RunKey{ID: id} }

func state(id string) store.RunState {
	return store.RunState{Run: key(id), Workflow: "w", Version: 1, Status: store.Running, WakeUnixMs: store.NoWake}
}

func entries(from store.Seq, n int) []store.Entry {
	var list []store.Entry
	for i := range n {
		list = append(list, store.Entry{Seq: from + store.Seq(i), Kind: store.KindSleep, Name: fmt.Sprint("s", int(from)+i)})
	}
	return list
}

// commit appends n entries at the expected end.
func (e *env) commit(st store.RunState, create bool, expect store.Seq, n int) error {
	st.Length = expect + store.Seq(n)
	return e.partition(st.Run.Partition()).Commit(context.Background(), []store.RunCommit{{Run: st.Run, Create: create,
		Expect: expect, Append: entries(expect, n), State: st}})
}

func (e *env) load(id string, it uint32, from store.Seq) []store.Entry {
	e.t.Helper()
	var list []store.Entry
	for x, err := range e.s.Load(context.Background(), key(id), it, from) {
		e.ok(err)
		list = append(list, x)
	}
	return list
}

func testAppend(t *testing.T, e *env) {
	e.ok(e.commit(state("r"), true, 0, 1))
	at := store.Seq(1)
	for _, n := range []int{1, 2, 100, 0, 500, 3} { // over several chunks
		e.ok(e.commit(state("r"), false, at, n))
		at += store.Seq(n)
	}
	for range 2 {
		for _, from := range []store.Seq{0, 1, 99, 104, at - 1, at} {
			got := e.load("r", 0, from)
			if len(got) != int(at-from) || len(got) > 0 && (got[0].Seq != from || got[0].Name != fmt.Sprint("s", from)) {
				t.Fatalf("%d entries from %d, want %d", len(got), from, at-from)
			}
		}
		st, err := e.s.State(context.Background(), key("r"))
		e.ok(err)
		if st.Length != at {
			t.Fatalf("length %d, want %d", st.Length, at)
		}
		e.reopen()
	}
}

func testConflicts(t *testing.T, e *env) {
	ctx := context.Background()
	e.is(e.commit(state("r"), false, 0, 1), store.ErrNotFound)
	e.ok(e.commit(state("r"), true, 0, 2))
	e.is(e.commit(state("r"), true, 0, 1), store.ErrExists)
	e.is(e.commit(state("r"), false, 1, 1), store.ErrConflict)
	e.is(e.commit(state("r"), false, 3, 1), store.ErrConflict)
	_, err := e.s.State(ctx, key("x"))
	e.is(err, store.ErrNotFound)
	if n := len(e.load("r", 0, 0)); n != 2 {
		t.Fatalf("%d entries after refused commits", n)
	}
}

func testFencing(t *testing.T, e *env) {
	ctx := context.Background()
	p := key("r").Partition()
	old := e.partition(p)
	e.part = nil
	now := e.partition(p)
	if now.Epoch() <= old.Epoch() {
		t.Fatalf("epochs %d, %d", old.Epoch(), now.Epoch())
	}
	c := []store.RunCommit{{Run: key("r"), Create: true, Append: entries(0, 1), State: state("r")}}
	e.is(old.Commit(ctx, c), store.ErrFenced)
	e.is(old.Renew(ctx), store.ErrFenced)
	e.ok(now.Renew(ctx))
	e.ok(now.Commit(ctx, c))
	epoch := now.Epoch()
	e.reopen()
	if e.partition(p).Epoch() <= epoch {
		t.Fatal("an epoch came back after a restart")
	}
	e.ok(e.partition(p).Release(ctx))
}

// pair gives two ids of one partition.
func pair() (string, string) {
	for i := 1; ; i++ {
		if b := fmt.Sprint("b", i); key(b).Partition() == key("a").Partition() {
			return "a", b
		}
	}
}

func testAtomic(t *testing.T, e *env) {
	ctx := context.Background()
	a, b := pair()
	e.ok(e.commit(state(a), true, 0, 1))
	err := e.partition(key(a).Partition()).Commit(ctx, []store.RunCommit{
		{Run: key(b), Create: true, Append: entries(0, 1), State: state(b)},
		{Run: key(a), Expect: 9, Append: entries(9, 1), State: state(a)}})
	e.is(err, store.ErrConflict)
	_, err = e.s.State(ctx, key(b))
	e.is(err, store.ErrNotFound)
	if n := len(e.load(a, 0, 0)); n != 1 {
		t.Fatalf("%d entries", n)
	}
}

func testPayloads(t *testing.T, e *env) {
	ctx := context.Background()
	for i, data := range [][]byte{nil, {0}, []byte("a\x00b"), bytes.Repeat([]byte{7, 0}, abi.BlobBytes/2+1),
		make([]byte, abi.MaxPayloadBytes)} {
		id := fmt.Sprint("p", i)
		x := store.Entry{Kind: store.KindStarted, Name: "w", Input: data, Data: data}
		st := state(id)
		st.Length = 1
		e.ok(e.partition(key(id).Partition()).Commit(ctx, []store.RunCommit{{Run: key(id), Create: true,
			Append: []store.Entry{x}, State: st}}))
		got := e.load(id, 0, 0)
		if len(got) != 1 || !bytes.Equal(got[0].Input, data) || !bytes.Equal(got[0].Data, data) {
			t.Fatalf("a payload of %d bytes came back otherwise", len(data))
		}
	}
}

func testDue(t *testing.T, e *env) {
	ctx := context.Background()
	a, b := pair()
	p := e.partition(key(a).Partition())
	wake := func(id string, create bool, ms int64) {
		st := state(id)
		st.WakeUnixMs, st.Status, st.Length = ms, store.Sleeping, 1
		c := store.RunCommit{Run: key(id), Create: create, State: st, Expect: 1}
		if create {
			c.Expect, c.Append = 0, entries(0, 1)
		}
		e.ok(p.Commit(ctx, []store.RunCommit{c}))
	}
	due := func(after store.WakeKey, until int64) []int64 {
		t.Helper()
		wakes, err := p.Due(ctx, after, until, 10)
		e.ok(err)
		var list []int64
		for _, w := range wakes {
			list = append(list, w.DueUnixMs)
		}
		return list
	}
	wake(a, true, 100)
	wake(b, true, -5)
	if got := due(store.WakeKey{}, 100); !slices.Equal(got, []int64{-5, 100}) {
		t.Fatalf("due %v", got)
	}
	if got := due(store.WakeKey{}, 99); !slices.Equal(got, []int64{-5}) {
		t.Fatalf("due before 100: %v", got)
	}
	if got := due(store.WakeKey{UnixMs: 0, Key: key(b)}, 1000); !slices.Equal(got, []int64{100}) {
		t.Fatalf("due after the first: %v", got)
	}
	wake(a, false, 50)
	wake(b, false, store.NoWake)
	if got := due(store.WakeKey{}, 1000); !slices.Equal(got, []int64{50}) {
		t.Fatalf("due after changes: %v", got)
	}
	if wakes, err := p.Due(ctx, store.WakeKey{}, 1000, 0); err != nil || len(wakes) != 0 {
		t.Fatalf("limit 0: %v %v", wakes, err)
	}
}

func testLogs(t *testing.T, e *env) {
	ctx := context.Background()
	st := state("r")
	st.Length, st.LogRecords = 1, 3
	lines := []store.LogLine{{Index: 0, Text: "a"}, {Index: 1, Text: "b", Step: "s", Attempt: 2}, {Index: 2, Text: "c", Level: 3}}
	e.ok(e.partition(st.Run.Partition()).Commit(ctx, []store.RunCommit{{Run: st.Run, Create: true, Append: entries(0, 1), State: st,
		Logs: lines, Output: []store.Chunk{{Topic: "t"}}}}))
	got, err := e.s.Logs(ctx, st.Run, 1, 10)
	e.ok(err)
	if !slices.Equal(got, lines[1:]) {
		t.Fatalf("logs %v", got)
	}
	if got, err := e.s.Logs(ctx, st.Run, 0, 2); err != nil || len(got) != 2 {
		t.Fatalf("limit: %v %v", got, err)
	}
	if got, err := e.s.Logs(ctx, st.Run, 3, 2); err != nil || len(got) != 0 {
		t.Fatalf("beyond: %v %v", got, err)
	}
}

func testInbox(t *testing.T, e *env) {
	ctx := context.Background()
	to := key("receiver")
	p := to.Partition()
	cmd := store.Command{ID: store.CommandID{Seq: 1}, Kind: store.CommandSignal, To: to, Name: "n", Data: []byte("x")}
	e.submit(cmd)
	st := state("sender")
	st.Length = 1
	second := cmd
	second.ID.Seq = 2
	e.ok(e.partition(st.Run.Partition()).Commit(ctx, []store.RunCommit{{Run: st.Run, Create: true, Append: entries(0, 1), State: st,
		Outbox: []store.Command{second}}}))
	e.reopen()
	list := func(after store.CommandSeq) []store.Command {
		cmds, err := e.partition(p).Commands(ctx, after, 10)
		e.ok(err)
		return cmds
	}
	got := list(0)
	if len(got) != 2 || got[0].Seq >= got[1].Seq || string(got[0].Data) != "x" || len(list(got[0].Seq)) != 1 {
		t.Fatalf("inbox %+v", got)
	}
	rec := state("receiver")
	rec.Length = 1
	e.ok(e.partition(p).Commit(ctx, []store.RunCommit{{Run: to, Create: true, Append: entries(0, 1), State: rec,
		Ack: []store.CommandSeq{got[0].Seq}}}))
	if left := list(0); len(left) != 1 || left[0].ID.Seq != 2 {
		t.Fatalf("inbox after acknowledgement %+v", left)
	}
}

// testAnswers discards commands and answers one of them in a commit, which is made completely or not at all.
func testAnswers(t *testing.T, e *env) {
	ctx := context.Background()
	const p, q store.PartitionID = 3, 4
	part := e.partition(p)
	e.submit(store.Command{Kind: store.CommandChildStart, To: in(0, p, 0)})
	e.submit(store.Command{Kind: store.CommandCancel, To: in(0, p, 0)})
	answer := store.Command{Kind: store.CommandChildEnd, To: in(0, q, 0), From: in(0, p, 0), Data: []byte("refused")}
	large := answer
	large.Data = make([]byte, store.MaxRecordBytes)
	check := func(left, answered int) {
		t.Helper()
		cmds, err := e.partition(p).Commands(ctx, 0, 10)
		e.ok(err)
		answers, err := e.partition(q).Commands(ctx, 0, 10)
		e.ok(err)
		if len(cmds) != left || len(answers) != answered || answered > 0 && string(answers[0].Data) != "refused" {
			t.Fatalf("commands %+v, answers %+v", cmds, answers)
		}
	}
	e.is(part.Discard(ctx, []store.CommandSeq{1, 2}, []store.Command{answer, large}), store.ErrTooLarge)
	check(2, 0)
	delete(e.part, p)
	later := e.partition(p)
	e.is(part.Discard(ctx, []store.CommandSeq{1}, []store.Command{answer}), store.ErrFenced)
	check(2, 0)
	e.ok(later.Discard(ctx, []store.CommandSeq{1}, []store.Command{answer}))
	check(1, 1)
	e.reopen()
	check(1, 1)
	e.ok(e.partition(p).Discard(ctx, []store.CommandSeq{2}, nil))
	check(0, 1)
}

func testDelete(t *testing.T, e *env) {
	ctx := context.Background()
	st := state("r")
	st.WakeUnixMs = 5
	e.ok(e.commit(st, true, 0, 200))
	p := e.partition(st.Run.Partition())
	e.ok(p.Commit(ctx, []store.RunCommit{{Run: st.Run, Delete: true}}))
	_, err := e.s.State(ctx, st.Run)
	e.is(err, store.ErrNotFound)
	wakes, err := p.Due(ctx, store.WakeKey{}, 1000, 10)
	e.ok(err)
	if len(e.load("r", 0, 0)) != 0 || len(wakes) != 0 {
		t.Fatal("something is left of a deleted run")
	}
	e.ok(e.commit(state("r"), true, 0, 1))
}

func testAbsent(t *testing.T, e *env) {
	ctx := context.Background()
	absent := func() bool { // a store need not remember anything
		s, ok := e.s.(store.Remembering)
		return ok && s.Absent(key("r"))
	}
	p := e.partition(key("r").Partition())
	for round := range 2 {
		_, err := e.s.State(ctx, key("r"))
		e.is(err, store.ErrNotFound)
		e.ok(e.commit(state("r"), true, 0, 1))
		if absent() {
			t.Errorf("round %d: a run is there, and is taken for absent", round)
		}
		e.ok(p.Commit(ctx, []store.RunCommit{{Run: key("r"), Delete: true}}))
	}
	e.ok(e.commit(state("r"), true, 0, 1))
	st := state("r")
	st.Status, st.Deleted = store.Completed, true
	e.ok(p.Commit(ctx, []store.RunCommit{{Run: st.Run, Delete: true, State: st}}))
	if absent() {
		t.Error("what is left of a deleted run is taken for absent")
	}
}

func testClosed(_ *testing.T, e *env) {
	ctx := context.Background()
	p := e.partition(0)
	e.ok(e.s.Close())
	e.ok(e.s.Close())
	_, err := e.s.State(ctx, key("r"))
	e.is(err, store.ErrClosed)
	e.is(p.Commit(ctx, nil), store.ErrClosed)
	_, err = e.s.Acquire(ctx, 0, "x", 0)
	e.is(err, store.ErrClosed)
	_, err = e.s.Modules().Put(ctx, nil, store.ModuleInfo{})
	e.is(err, store.ErrClosed)
	e.is(p.Discard(ctx, nil, []store.Command{{}}), store.ErrClosed)
	_, err = p.Claim(ctx, store.HookClaim{Token: "t"})
	e.is(err, store.ErrClosed)
	e.is(e.s.Tokens().Add(ctx, store.Token{}), store.ErrClosed)
	_, err = e.s.Namespace(ctx, "n", true)
	e.is(err, store.ErrClosed)
	_, err = e.s.List(ctx, store.Query{})
	e.is(err, store.ErrClosed)
	_, err = e.s.Timers(ctx, store.TimerQuery{})
	e.is(err, store.ErrClosed)
	_, err = e.s.Counts(ctx, 0)
	e.is(err, store.ErrClosed)
	_, err = e.s.Tallies(ctx)
	e.is(err, store.ErrClosed)
	_, err = e.s.CountOf(ctx, 0, "w", 1)
	e.is(err, store.ErrClosed)
	_, err = e.s.Modules().Unused(ctx, 1)
	e.is(err, store.ErrClosed)
	_, err = e.s.Modules().DeleteUnused(ctx, nil)
	e.is(err, store.ErrClosed)
	for _, err := range e.s.Load(ctx, key("r"), 0, 0) {
		e.is(err, store.ErrClosed)
	}
	e.is(e.s.Commit(ctx, []store.Group{{Partition: p}}), store.ErrClosed)
	_, err = e.s.Namespace(ctx, "n", true)
	e.is(err, store.ErrClosed)
	for _, err := range e.s.Namespaces(ctx) {
		e.is(err, store.ErrClosed)
	}
}
