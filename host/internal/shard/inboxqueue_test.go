package shard

import (
	"errors"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

var inboxErrDisk = errors.New("a sector cannot be read")

func signal(seq store.CommandSeq, to string) inboxCommand {
	return inboxCommand{Command: store.Command{Seq: seq, Kind: store.CommandSignal, To: store.RunKey{ID: to}}}
}

// Commands for a run are taken one after the other, and a command that is retried keeps its position.
func TestOrder(t *testing.T) {
	b := newInbox()
	a := store.RunKey{ID: "a"}
	if !b.Add(signal(1, "a")) || b.Add(signal(2, "a")) || !b.Add(signal(3, "b")) {
		t.Error("the first command for a run is to be taken, and no other")
	}
	if cmd := b.Take(a); cmd.Seq != 1 || b.Idle(a) {
		t.Errorf("command %d is taken", cmd.Seq)
	}
	b.Postpone(a)
	if !b.Idle(a) {
		t.Error("a command that was postponed is busy")
	}
	b.Take(a)
	if cmd, busy := b.Busy(a); !busy || cmd.Seq != 1 || !b.Done(a) {
		t.Errorf("command %d is carried out: %v", cmd.Seq, busy)
	}
	if cmd := b.Take(a); cmd.Seq != 2 || b.Done(a) || b.Waiting() != 1 {
		t.Errorf("command %d is taken, %d wait", cmd.Seq, b.Waiting())
	}
	if _, busy := b.Busy(a); busy || b.Idle(a) {
		t.Error("there is a command for a")
	}
}

// Portions are read one at a time, when the inbox has more and few commands wait in memory.
func TestReads(t *testing.T) {
	b := newInbox()
	if _, ok := b.Read(); ok {
		t.Error("an inbox is read that nobody has kicked")
	}
	b.Kick()
	if after, ok := b.Read(); !ok || after != 0 {
		t.Errorf("read after %d %v", after, ok)
	}
	b.Kick()
	if _, ok := b.Read(); ok {
		t.Error("two portions are read at a time")
	}
	b.ReadFailed()
	b.Read()
	for seq := range store.CommandSeq(inboxPortion) {
		b.Add(signal(seq+1, "a"))
	}
	b.ReadDone(inboxPortion)
	if after, ok := b.Read(); !ok || after != inboxPortion {
		t.Errorf("read after %d %v", after, ok)
	}
	b.ReadDone(0)
	if _, ok := b.Read(); ok {
		t.Error("an inbox is read that has no more")
	}
	for b.Waiting() < maxWaiting {
		b.Add(signal(1000, "a"))
	}
	b.Kick()
	if _, ok := b.Read(); ok {
		t.Error("too many commands wait in memory")
	}
}

// Deferred commands of a failed run do not block others, and later return to their position.
func TestDeferred(t *testing.T) {
	b := newInbox()
	a := store.RunKey{ID: "a"}
	b.Add(signal(1, "a"))
	b.Defer(b.Take(a))
	b.Done(a)
	if !b.HasDeferred() || b.Waiting() != 0 {
		t.Errorf("deferred: %v, %d wait", b.HasDeferred(), b.Waiting())
	}
	b.Add(signal(2, "a"))
	b.Return(a, b.TakeDeferred(a))
	if cmd := b.Take(a); cmd.Seq != 1 || b.HasDeferred() || b.Waiting() != 2 {
		t.Errorf("command %d is taken, deferred: %v, %d wait", cmd.Seq, b.HasDeferred(), b.Waiting())
	}
}

func TestTasks(t *testing.T) {
	for kind, want := range map[store.CommandKind]task{store.CommandSignal: taskDeliver, store.CommandChildStart: taskCarry,
		store.CommandHookClaim: taskCarry, store.CommandHookRelease: taskCarry, store.CommandReply: taskDeliver} {
		cmd, err := parseCommand(store.Command{Kind: kind, Data: []byte(`{}`)})
		if err != nil || cmd.Task() != want {
			t.Errorf("kind %d: task %d, want %d; %v", kind, cmd.Task(), want, err)
		}
	}
	cmd, err := parseCommand(store.Command{Kind: store.CommandSignal, Data: []byte("no JSON")})
	if err == nil || cmd.Task() != taskRefuse {
		t.Errorf("task %d, error %v", cmd.Task(), err)
	}
}

func TestOutcomes(t *testing.T) {
	limit := abi.Errorf(abi.Limit, "x")
	for _, c := range []struct {
		kind    store.CommandKind
		started bool
		err     error
		want    outcome
		answer  store.CommandKind // 0 = none
	}{
		{store.CommandSignal, false, nil, outcomeTaken, 0},
		{store.CommandSignal, false, run.ErrTerminal, outcomeTaken, 0},
		{store.CommandSignal, false, run.ErrLive, outcomeTaken, 0},
		{store.CommandReply, false, run.ErrDeferred, outcomeDeferred, 0},
		{store.CommandSignal, false, inboxErrDisk, outcomeFailed, 0},
		{store.CommandSignal, false, limit, outcomeFailed, 0},
		{store.CommandSignal, false, errors.Join(store.ErrCorrupt), outcomeFailed, 0},
		{store.CommandSignal, false, store.ErrNotFound, outcomeRefused, store.CommandReply},
		{store.CommandChildAsk, false, store.ErrNotFound, outcomeRefused, store.CommandChildEnd},
		{store.CommandCancel, false, store.ErrNotFound, outcomeRefused, 0},
		{store.CommandChildStart, true, nil, outcomeTaken, 0},
		{store.CommandChildStart, true, store.ErrExists, outcomeRefused, store.CommandChildEnd},
		{store.CommandChildStart, true, limit, outcomeRefused, store.CommandChildEnd},
		{store.CommandChildStart, true, run.ErrStartedBefore, outcomeRefused, 0},
		{store.CommandChildStart, true, inboxErrDisk, outcomeFailed, 0},
	} {
		cmd := inboxCommand{Command: store.Command{Kind: c.kind}}
		came := cmd.Delivered
		if c.started {
			came = cmd.Started
		}
		got, answer := came(c.err)
		if got != c.want || (answer != nil) != (c.answer != 0) || answer != nil && answer.Kind != c.answer {
			t.Errorf("kind %d, error %v: %d with %v, want %d", c.kind, c.err, got, answer, c.want)
		}
	}
}

// Whether a command was answered is unknown: its partition is acquired again, and its inbox is read, before it is answered again.
func TestUnknownOutcomeOfAnAnswer(t *testing.T) {
	for _, durable := range []bool{false, true} {
		w := newWorld(t, limits, 1)
		to := keyIn(1, 0)
		w.signalCommand(0, to)
		w.pump()
		if durable {
			if err := w.refusals[0].p.Owned.Discard(t.Context(), []store.CommandSeq{w.refusals[0].cmd.Seq}, nil); err != nil {
				t.Fatal(err)
			}
		}
		w.serveRefusals(store.ErrUnknown)
		if len(w.acquires) != 1 || w.s.Partition(1) != nil {
			t.Fatalf("%d partitions are acquired again, want 1", len(w.acquires))
		}
		w.later(time.Hour)
		if len(w.refusals) != 0 {
			t.Fatal("the command is answered a second time")
		}
		w.acquire(1)
		w.s.Kicked(1)
		w.pump()
		if got := len(w.refusals) == 0; got != durable {
			t.Fatalf("durable %v: %d commands are to be answered", durable, len(w.refusals))
		}
	}
}
