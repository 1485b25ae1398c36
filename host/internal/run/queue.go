package run

import (
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// AskSlot returns the command that asks the queue of the workflow for a slot: once at the start, once for each retry,
// and once for each unpause.
func (s Sender) AskSlot(j *journal.Journal) store.Command {
	started := j.Started()
	seq := max(retriedBefore(j, store.Seq(j.Len())), left(j))
	return s.send(j, seq, store.CommandSlotAsk, started.Workflow, Message{Limit: started.Limit})[0]
}

// LeftQueue is the Code of a pause's entry if the run leaves the queue, or returns a slot that it has not used yet.
const LeftQueue = 1

// leaves returns the command that takes a run out of the queue, if the pause's entry has the code LeftQueue.
func (s Sender) leaves(j *journal.Journal, e *store.Entry) []store.Command {
	if e.Code != LeftQueue || j.Started().Limit == nil {
		return nil
	}
	return s.send(j, e.Seq, store.CommandSlotReturn, j.Started().Workflow, Message{Keep: true})
}

// left returns the seq of the newest pause that took the run out of the queue, or 0 if there is none.
func left(j *journal.Journal) store.Seq {
	entries := j.All()
	for i := len(entries) - 1; i > 0; i-- {
		if entries[i].Kind == store.KindPaused && entries[i].Code == LeftQueue {
			return store.Seq(i)
		}
	}
	return 0
}

// GiveSlot returns the command that gives a run a slot of a workflow's queue, in answer to the command ask.
func GiveSlot(queue store.RunKey, run string, ask store.CommandID) store.Command {
	cmd := store.Command{ID: ask}
	return store.Command{ID: answerID(&cmd, store.CommandSlotGive), Kind: store.CommandSlotGive, From: queue,
		To: store.RunKey{Namespace: queue.Namespace, ID: run}, ToIncarnation: ask.Incarnation, Data: Message{}.bytes()}
}

// Gives reports whether a command gives the run a slot that it still waits for. The queue keeps a run's first ask
// until the run ends. So every ask since the newest retry of an ended run counts, since the run may have been moved
// and taken back meanwhile. Asks from before the run left the queue do not count.
func (s Sender) Gives(j *journal.Journal, give store.CommandID) bool {
	return give.Incarnation == s.Incarnation && give.Iteration == j.Started().Iteration &&
		give.Seq/commandKinds >= max(revived(j), left(j))
}

// revived returns the seq of the newest retry of a run that had ended, or 0 if there is none.
func revived(j *journal.Journal) store.Seq {
	entries := j.All()
	for i := len(entries) - 1; i > 0; i-- {
		if entries[i].Kind == store.KindRetried && entries[i-1].Kind.End() {
			return store.Seq(i)
		}
	}
	return 0
}

// Changed returns the command that notifies a queue of changed limits of its workflow. id is random.
func Changed(queue store.RunKey, id store.Incarnation) store.Command {
	return store.Command{ID: commandID(id, 0, 0, store.CommandLimits), Kind: store.CommandLimits, From: queue, To: queue,
		Data: Message{}.bytes()}
}
