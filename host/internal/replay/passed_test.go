package replay

import (
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// TestPassed walks through a journal of a sleep and a marker: the guest's computing is free up to its last call, or
// up to where it last waited.
func TestPassed(t *testing.T) {
	x := newTail(t)
	m := x.machine()
	if m.Passed() {
		t.Fatal("nothing is passed in an empty journal")
	}
	must(t, 1)(m.Sleep("nap", 1000))
	_, err := m.Await([]int64{1})
	suspends(t, err)
	if m.Passed() {
		t.Fatal("a wait that is live is not passed")
	}
	x.j.Suspend(m.Suspension())
	x.now = 5000
	if err := x.j.FireDue(x.now); err != nil {
		t.Fatal(err)
	}

	for _, rested := range []store.Seq{0, x.j.Rested()} {
		m = x.machine(func(c *Config) { c.Rested = rested })
		if !m.Passed() {
			t.Fatal("the call is in the journal")
		}
		must(t, 1)(m.Sleep("nap", 1000))
		if m.Passed() != (rested > 0) {
			t.Fatal("between the call and the wait, with a last wait at", rested)
		}
		must(t, 1)(m.Await([]int64{1}))
		if m.Passed() {
			t.Fatal("it goes on from its last wait")
		}
	}
	must(t, 0)(m.Emit("t", nil))

	x.j.Resume()
	m = x.machine(func(c *Config) { c.Rested = x.j.Rested() })
	must(t, 1)(m.Sleep("nap", 1000))
	must(t, 1)(m.Await([]int64{1}))
	if !m.Passed() {
		t.Fatal("the journal holds a call after the last wait")
	}
	must(t, 0)(m.Emit("t", nil))
	if m.Passed() {
		t.Fatal("the journal is over")
	}
}

// TestQueryIsNotPassed counts the cost of answering a query.
func TestQueryIsNotPassed(t *testing.T) {
	x := newTail(t)
	m := x.machine()
	must(t, 1)(m.Sleep("nap", 1000))
	_, err := m.Await(nil)
	suspends(t, err)
	x.j.Suspend(m.Suspension())
	m = x.machine(func(c *Config) { c.Mode, c.Rested = Query, x.j.Rested() })
	must(t, 1)(m.Sleep("nap", 1000))
	if !m.Passed() {
		t.Fatal("it has waited here before")
	}
	must(t, abi.Query.Neg())(m.Await(nil))
	if m.Passed() {
		t.Fatal("it answers a query")
	}
}

// TestBodyIsNotPassed counts the cost of a body, although its workflow has made other calls since.
func TestBodyIsNotPassed(t *testing.T) {
	x := newTail(t)
	m := x.machine()
	must(t, 1)(m.StepBegin("a", nil))
	must(t, 2)(m.StepBegin("b", nil))
	_, err := m.Await(nil)
	suspends(t, err)
	x.j.Suspend(m.Suspension())
	m = x.machine(func(c *Config) { c.Mode, c.Rested, c.Until, c.Handle = Body, x.j.Rested(), x.j.Rested(), 1 })
	if !m.Passed() {
		t.Fatal("the workflow has been here before")
	}
	must(t, 0)(m.StepBegin("a", nil))
	if m.Passed() {
		t.Fatal("it executes the body")
	}
}

// TestDumpIsNotPassed counts the computing of a guest that is asked for its stacks at its last wait.
func TestDumpIsNotPassed(t *testing.T) {
	x := newTail(t)
	for _, rested := range []store.Seq{0, 2} {
		m := x.machine(func(c *Config) { c.Rested = rested })
		if m.Passed() != (rested > 0) {
			t.Fatal("before the wait, with a last wait at", rested)
		}
		_, err := m.Poll(PollRequest{Events: true})
		suspends(t, err)
		if !m.Dump() {
			t.Fatal("it cannot be asked")
		}
		if r, err := m.Poll(PollRequest{Events: true}); r != PollEvents || err != nil || m.Passed() {
			t.Fatal(r, err, m.Passed())
		}
	}
}

// TestLongPoll waits with the longest timeout, and until the end of time.
func TestLongPoll(t *testing.T) {
	x := newTail(t)
	m := x.machine()
	_, err := m.Poll(PollRequest{HasClock: true, TimeoutNs: 1<<63 - 1})
	suspends(t, err)
	if due := m.Suspension().PollDueUnixMs; due != 1000+9_223_372_036_855 {
		t.Errorf("due at %d", due)
	}
	m.hostMs = abi.MaxUnixMs - 1
	_, err = m.Poll(PollRequest{HasClock: true, TimeoutNs: 1<<63 - 1})
	suspends(t, err)
	if due := m.Suspension().PollDueUnixMs; due != abi.MaxUnixMs {
		t.Errorf("due at %d", due)
	}
}
