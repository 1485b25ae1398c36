package shard

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

var sender = store.RunKey{ID: "sender"}

// submit puts a command into the inbox of its receiver, and has the shard read the inbox.
func (w *world) submit(n int, kind store.CommandKind, to store.RunKey, m run.Message) {
	w.t.Helper()
	m.Sender = store.Incarnation{0xaa}
	data, err := json.Marshal(m)
	if err != nil {
		w.t.Fatal(err)
	}
	w.put(n, store.Command{Kind: kind, From: sender, To: to, Data: data})
}

func (w *world) put(n int, cmd store.Command) {
	w.t.Helper()
	cmd.ID = store.CommandID{Incarnation: store.Incarnation{0xaa}, Seq: store.Seq(n) * 16}
	from, err := w.store.Acquire(context.Background(), store.Partitions-1, "sender", 0)
	if err == nil {
		err = from.Discard(context.Background(), nil, []store.Command{cmd})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.s.Kicked(cmd.To.Partition())
	w.check()
}

func (w *world) signalCommand(n int, to store.RunKey) {
	w.t.Helper()
	w.submit(n, store.CommandSignal, to, run.Message{Signal: fmt.Sprint("s", n), Handle: 1})
}

// serveRefusals carries out refusals, and returns their answers.
func (w *world) serveRefusals(err error) (answers []store.Command) {
	w.t.Helper()
	list := w.refusals
	w.refusals = nil
	for _, r := range list {
		if r.answer != nil {
			answers = append(answers, *r.answer)
		}
		if err == nil {
			if err := r.p.Owned.Discard(context.Background(), []store.CommandSeq{r.cmd.Seq}, nil); err != nil {
				w.t.Fatal(err)
			}
		}
		w.s.Carried(w.now, r.p, r.cmd.To, nil, nil, err)
		w.check()
	}
	return answers
}

// inboxOf returns the durable commands of an inbox.
func (w *world) inboxOf(id store.PartitionID) int {
	w.t.Helper()
	cmds, err := w.s.Partition(id).Owned.Commands(context.Background(), 0, 10_000)
	if err != nil {
		w.t.Fatal(err)
	}
	return len(cmds)
}

// names returns the names of the signals that a run has accepted.
func (w *world) names(key store.RunKey) (list []string) {
	for e, err := range w.store.Load(context.Background(), key, 0, 0) {
		if err != nil {
			w.t.Fatal(err)
		}
		if e.Kind == store.KindSignalAccepted {
			list = append(list, e.Name)
		}
	}
	return list
}

// Commands for one run are taken in order, in one commit with their effects.
func TestInboxOrder(t *testing.T) {
	w := newWorld(t, limits, 1)
	a, b := keyIn(1, 0), keyIn(1, 1)
	w.sleeper(a, time.Hour)
	w.waiter(b)
	for i := range 4 {
		w.signalCommand(i, a)
	}
	w.signalCommand(4, b)
	w.pump()
	if got := fmt.Sprint(w.names(a)); got != "[s0 s1 s2 s3]" {
		t.Errorf("a has %s", got)
	}
	if n := w.inboxOf(1); n != 0 {
		t.Errorf("%d commands are left", n)
	}
	if w.s.Partition(1).inbox.Waiting() != 0 {
		t.Error("the inbox in memory is not empty")
	}
}

// An inbox is read in portions, and only while few commands wait in memory.
func TestInboxPortions(t *testing.T) {
	w := newWorld(t, limits, 1)
	a, b := keyIn(1, 0), keyIn(1, 1)
	w.sleeper(a, time.Hour)
	w.waiter(b)
	w.unread[a] = errDisk
	const most = 1024 // in memory
	const first = most + 3*inboxPortion
	for i := range first {
		w.signalCommand(i, a)
	}
	w.signalCommand(first, b)
	w.pump()
	if n := w.s.Partition(1).inbox.Waiting(); n < most || n >= most+inboxPortion {
		t.Errorf("%d commands are in memory", n)
	}
	delete(w.unread, a)
	w.later(2 * time.Second)
	if n := w.inboxOf(1); n != 0 || len(w.names(a)) != first || len(w.names(b)) != 1 {
		t.Errorf("%d commands are left, %d and %d were taken", n, len(w.names(a)), len(w.names(b)))
	}
}

// A command that cannot be taken is retried before the commands behind it, and does not block other runs.
func TestFailingCommandBlocksItsRunAlone(t *testing.T) {
	w := newWorld(t, limits, 1)
	a, b := keyIn(1, 0), keyIn(1, 1)
	w.sleeper(a, time.Hour)
	w.waiter(b)
	w.unread[a] = errDisk
	w.signalCommand(1, a)
	w.signalCommand(2, a)
	w.signalCommand(3, b)
	w.pump()
	if got := fmt.Sprint(w.names(b)); got != "[s3]" {
		t.Errorf("b has %s", got)
	}
	w.later(time.Second)
	if n := len(w.reported(ReportCommand)); n != 2 {
		t.Errorf("the command was tried %d times", n)
	}
	delete(w.unread, a)
	w.later(time.Second)
	if got := fmt.Sprint(w.names(a)); got != "[s1 s2]" {
		t.Errorf("a has %s", got)
	}
}

// If the inbox cannot be read, it is read again after a second.
func TestInboxCannotBeRead(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.waiter(a)
	w.signalCommand(1, a)
	w.inboxes = nil
	w.s.InboxRead(w.now, w.s.Partition(1), nil, errDisk)
	if len(w.reported(ReportInbox)) != 1 || len(w.inboxes) != 0 {
		t.Errorf("reports %v", w.reports)
	}
	w.later(time.Second)
	if len(w.names(a)) != 1 {
		t.Error("the command is not taken")
	}
}

// Commands that no run takes are answered and removed from the inbox.
func TestCommandsThatNobodyTakes(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.signalCommand(1, a)
	w.submit(2, store.CommandChildAsk, a, run.Message{Handle: 2})
	w.submit(3, store.CommandCancel, a, run.Message{Handle: 3})
	w.put(4, store.Command{Kind: store.CommandSignal, From: sender, To: a, Data: []byte("no JSON")})
	var answers []store.Command
	for range 5 {
		w.pump()
		answers = append(answers, w.serveRefusals(nil)...)
	}
	if len(answers) != 2 || answers[0].Kind != store.CommandReply || answers[1].Kind != store.CommandChildEnd {
		t.Errorf("answers %+v", answers)
	}
	if n := w.inboxOf(1); n != 0 {
		t.Errorf("%d commands are left", n)
	}
}

// A refusal that fails is tried again.
func TestRefusalFails(t *testing.T) {
	w := newWorld(t, limits, 1)
	w.signalCommand(1, keyIn(1, 0))
	w.pump()
	w.serveRefusals(errDisk)
	w.later(time.Second)
	if answers := w.serveRefusals(nil); len(answers) != 1 {
		t.Errorf("answers %v", answers)
	}
	if n := w.inboxOf(1); n != 0 {
		t.Errorf("%d commands are left", n)
	}
}

// A run that has ended still answers.
func TestCommandToAnEndedRun(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.waiter(a)
	w.deliver(a, run.Terminate{})
	w.pump()
	w.signalCommand(1, a)
	w.pump()
	if n := w.inboxOf(1); n != 0 {
		t.Errorf("%d commands are left", n)
	}
	if last := w.durables[len(w.durables)-1]; len(last.Outbox) != 1 || len(last.Ack) != 1 {
		t.Errorf("commit %+v", last)
	}
}

// child returns the start that results from a command to start a child.
func child(key store.RunKey, handle int64) *run.NewRun {
	n := newRun(key)
	by := store.Incarnation{0xaa}
	n.Conflict = run.ConflictFail
	n.Parent = &journal.Parent{RunID: sender.ID, Incarnation: by[:], Handle: handle, Depth: 1}
	return &n
}

// carry completes the command that is being carried out.
func (w *world) carry(start *run.NewRun, free *int, err error) {
	w.t.Helper()
	if len(w.carried) == 0 {
		w.t.Fatal("nothing is to be carried out")
	}
	cmd := w.carried[0]
	w.carried = w.carried[1:]
	var f func()
	if free != nil {
		f = func() { *free++ }
	}
	w.s.Carried(w.now, w.s.Partition(cmd.To.Partition()), cmd.To, start, f, err)
	w.check()
}

// The start of a child leaves the inbox in the commit of its run, and holds its version until then.
func TestChildStart(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.submit(1, store.CommandChildStart, a, run.Message{Handle: 3, Workflow: "order"})
	w.pump()
	w.carry(nil, nil, errDisk) // its version cannot be read
	w.later(time.Second)
	free := 0
	w.carry(child(a, 3), &free, nil)
	w.serveLoads()
	l := w.ready(a)
	if free != 0 || w.inboxOf(1) != 1 {
		t.Errorf("freed %d times, %d commands", free, w.inboxOf(1))
	}
	w.complete(l)
	w.pump()
	if free != 1 || w.inboxOf(1) != 0 {
		t.Errorf("freed %d times, %d commands", free, w.inboxOf(1))
	}
}

// If the run of a child cannot be read, its start is retried.
func TestChildStartCannotBeRead(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.unread[a] = errDisk
	w.submit(1, store.CommandChildStart, a, run.Message{Handle: 3, Workflow: "order"})
	w.pump()
	free := 0
	w.carry(child(a, 3), &free, nil)
	w.pump()
	if free != 1 {
		t.Errorf("freed %d times", free)
	}
	delete(w.unread, a)
	w.later(time.Second)
	w.carry(child(a, 3), &free, nil)
	w.pump()
	w.complete(w.ready(a))
	w.pump()
	if free != 2 || w.inboxOf(1) != 0 {
		t.Errorf("freed %d times, %d commands", free, w.inboxOf(1))
	}
}

// A claim of a token is carried out elsewhere.
func TestClaim(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.submit(1, store.CommandHookClaim, a, run.Message{Handle: 1, Token: "t"})
	w.pump()
	w.carry(nil, nil, nil)
	if w.s.Partition(1).inbox.Waiting() != 0 {
		t.Error("the command is still in memory")
	}
	w.s.Carried(w.now, w.s.Partition(1), a, nil, nil, nil) // of a queue that is gone
}

// The start of a child is refused if it was already started, its id is taken, or the start is invalid. Its version is
// released at once, whatever the run with that id does.
func TestChildStartIsRefused(t *testing.T) {
	w := newWorld(t, limits, 1)
	a, b := keyIn(1, 0), keyIn(1, 1)
	w.start(a)
	w.pump()
	l := w.ready(a) // it has an attempt, and nothing to commit
	w.call(l, stepCall(1))
	w.waits(l, 1)
	w.pump()
	w.submit(1, store.CommandChildStart, a, run.Message{Handle: 3, Workflow: "order"})
	w.pump()
	free := 0
	w.carry(child(a, 3), &free, nil)
	w.pump()
	if answers := w.serveRefusals(nil); len(answers) != 1 || free != 1 {
		t.Errorf("answers %v, freed %d times", answers, free)
	}
	w.submit(2, store.CommandChildStart, b, run.Message{Handle: 3, Workflow: "order"})
	w.pump()
	n := child(b, 3)
	n.TimeoutMs = 1 << 62
	w.carry(n, &free, nil)
	w.pump()
	if answers := w.serveRefusals(nil); len(answers) != 1 || free != 2 {
		t.Errorf("answers %v, freed %d times", answers, free)
	}
	for i := 3; i < 5; i++ { // the second one repeats the same command
		w.submit(i, store.CommandChildStart, b, run.Message{Handle: 4, Workflow: "order"})
		w.pump()
		w.carry(child(b, 4), &free, nil)
		w.pump()
		if i == 3 {
			w.complete(w.ready(b))
			w.pump()
		}
		if free != i {
			t.Errorf("freed %d times, want %d", free, i)
		}
	}
	if answers := w.serveRefusals(nil); len(answers) != 0 || w.inboxOf(1) != 0 {
		t.Errorf("answers %v, %d commands", answers, w.inboxOf(1))
	}
}

// The commit that takes commands is refused, or a command is waiting for a guest to yield at that time: the commands
// are still in the inbox, and are taken again in order.
func TestCommandsOfARefusedRunAreTakenAgain(t *testing.T) {
	w := newWorld(t, limits, 1)
	a, b := keyIn(1, 0), keyIn(1, 1)
	w.waiter(a)
	w.waiter(b)
	w.signalCommand(1, a)
	w.signalCommand(2, b)
	w.serveInboxes()
	batch := w.begin()
	w.signalCommand(3, a)
	w.serveInboxes()
	w.end(batch, &store.RefusedError{Group: 0, Run: 0, Err: errDisk})
	w.pump()
	w.later(2 * time.Second)
	if got := fmt.Sprint(w.names(a), w.names(b)); got != "[s1 s3] [s2]" {
		t.Errorf("the runs have %s", got)
	}
	if n := w.inboxOf(1); n != 0 {
		t.Errorf("%d commands are left", n)
	}
}

// The same, if the guest has the run when its commit is refused.
func TestCommandsOfALentRunAreTakenAgain(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.start(a)
	w.serveLoads()
	w.whilesEnd()
	w.pump()
	w.deliver(a, run.Pause{})
	w.deliver(a, run.Unpause{})
	batch := w.begin()
	w.ready(a)
	w.signalCommand(1, a)
	w.serveInboxes()
	w.end(batch, &store.RefusedError{Group: 0, Run: 0, Err: errDisk})
	w.pump()
	w.later(2 * time.Second)
	w.complete(w.ready(a)) // its first activation, in another guest
	w.pump()
	if got := fmt.Sprint(w.names(a)); got != "[s1]" {
		t.Errorf("the run has %s", got)
	}
}

// The start of a child waits for a run with its id when the commit of that run is refused: whatever the store says
// about that commit, the child is not refused.
func TestChildStartAtARefusedRun(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.start(a)
	w.serveLoads()
	w.whilesEnd()
	batch := w.begin()
	w.ready(a) // its guest has it
	w.submit(1, store.CommandChildStart, a, run.Message{Handle: 3, Workflow: "order"})
	w.serveInboxes()
	free := 0
	w.carry(child(a, 3), &free, nil)
	w.end(batch, &store.RefusedError{Group: 0, Run: 0, Err: store.ErrExists})
	if answers := w.serveRefusals(nil); len(answers) != 0 || free != 1 {
		t.Errorf("answers %v, freed %d times", answers, free)
	}
	w.later(2 * time.Second)
	w.carry(child(a, 3), &free, nil)
	w.pump()
	w.complete(w.ready(a))
	w.pump()
	if st := w.state(a); st.Parent == "" || w.inboxOf(1) != 0 || free != 2 {
		t.Errorf("a child of %q, %d commands, freed %d times", st.Parent, w.inboxOf(1), free)
	}
}

// A claim is being carried out when the commit of its receiver's run is refused: it is not confused with what is read
// again.
func TestCarriedCommandOfARefusedRun(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.waiter(a)
	w.signalCommand(1, a)
	w.serveInboxes()
	batch := w.begin()
	w.submit(2, store.CommandHookClaim, a, run.Message{Handle: 1, Token: "t"})
	w.serveInboxes()
	w.end(batch, &store.RefusedError{Group: 0, Run: 0, Err: errDisk})
	w.later(2 * time.Second)
	w.carry(nil, nil, nil)
	w.pump()
	if got := fmt.Sprint(w.names(a)); got != "[s1]" {
		t.Errorf("the run has %s", got)
	}
}

// The inbox is being read when a run's commit is refused: what this read returns is read again, too.
func TestInboxIsReadWhileARunIsRefused(t *testing.T) {
	w := newWorld(t, limits, 1)
	a, b := keyIn(1, 0), keyIn(1, 1)
	w.waiter(a)
	w.waiter(b)
	w.signalCommand(1, a)
	w.serveInboxes()
	batch := w.begin()
	w.signalCommand(2, b)
	w.end(batch, &store.RefusedError{Group: 0, Run: 0, Err: errDisk})
	w.pump()
	w.later(2 * time.Second)
	if got := fmt.Sprint(w.names(a), w.names(b)); got != "[s1] [s2]" {
		t.Errorf("the runs have %s", got)
	}
}
