package run

import (
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// AskSlot returns the command with which a run asks the queue of its workflow for a slot: once, and once for each retry, and when
// it is unpaused.
func (s Sender) AskSlot(j *journal.Journal) store.Command {
	started := j.Started()
	seq := max(retriedBefore(j, store.Seq(j.Len())), left(j))
	return s.send(j, seq, store.CommandSlotAsk, started.Workflow, Message{Limit: started.Limit})[0]
}

// LeftQueue is the Code of the entry of a pause by which the run leaves the queue for its slot, or returns a slot with which it
// has done nothing yet.
const LeftQueue = 1

// leaves returns the command by which a run leaves the queue, if the entry of a pause says so.
func (s Sender) leaves(j *journal.Journal, e *store.Entry) []store.Command {
	if e.Code != LeftQueue || j.Started().Limit == nil {
		return nil
	}
	return s.send(j, e.Seq, store.CommandSlotReturn, j.Started().Workflow, Message{Keep: true})
}

// left returns the seq of the newest pause by which the run has left the queue, 0 if there is none.
func left(j *journal.Journal) store.Seq {
	entries := j.All()
	for i := len(entries) - 1; i > 0; i-- {
		if entries[i].Kind == store.KindPaused && entries[i].Code == LeftQueue {
			return store.Seq(i)
		}
	}
	return 0
}

// GiveSlot returns the command by which the queue of a workflow gives a slot to the run that asked for one by the command ask.
func GiveSlot(queue store.RunKey, run string, ask store.CommandID) store.Command {
	cmd := store.Command{ID: ask}
	return store.Command{ID: answerID(&cmd, store.CommandSlotGive), Kind: store.CommandSlotGive, From: queue,
		To: store.RunKey{Namespace: queue.Namespace, ID: run}, ToIncarnation: ask.Incarnation, Data: Message{}.bytes()}
}

// Gives reports whether a command gives the run a slot for which it still waits. The queue keeps a run's first ask until the run
// ends, so any ask since the newest retry of its end counts: the run may have been moved and taken back meanwhile. None counts
// that was made before the run has left the queue.
func (s Sender) Gives(j *journal.Journal, give store.CommandID) bool {
	return give.Incarnation == s.Incarnation && give.Iteration == j.Started().Iteration &&
		give.Seq/commandKinds >= max(revived(j), left(j))
}

// revived returns the seq of the newest retry of a run that had ended, 0 if there is none.
func revived(j *journal.Journal) store.Seq {
	entries := j.All()
	for i := len(entries) - 1; i > 0; i-- {
		if entries[i].Kind == store.KindRetried && entries[i-1].Kind.End() {
			return store.Seq(i)
		}
	}
	return 0
}

// Changed returns the command that tells a queue that the limits of its workflow were changed. id is random.
func Changed(queue store.RunKey, id store.Incarnation) store.Command {
	return store.Command{ID: commandID(id, 0, 0, store.CommandLimits), Kind: store.CommandLimits, From: queue, To: queue,
		Data: Message{}.bytes()}
}

// Claim returns what the store is asked by a command that claims a token, or gives it up.
func Claim(cmd *store.Command, m *Message) store.HookClaim {
	claim := store.HookClaim{Namespace: cmd.To.Namespace, Token: m.Token, Ack: cmd.Seq,
		Release: cmd.Kind == store.CommandHookRelease,
		Holder:  store.HookHolder{Run: cmd.From, Incarnation: m.Sender, Iteration: m.Iteration, Handle: m.Handle}}
	if claim.Release {
		return claim
	}
	claim.Reply = func(h store.HookHolder) (*store.Command, error) {
		var refusal error
		if h != claim.Holder {
			refusal = &abi.Error{Code: abi.Conflict, Message: fmt.Sprintf("token %q is held by run %q", m.Token, h.Run.ID),
				Details: map[string]string{"holder": h.Run.ID}}
		}
		answer := Reply(cmd, m, refusal)
		return &answer, nil
	}
	return claim
}
