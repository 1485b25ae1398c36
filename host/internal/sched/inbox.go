package sched

import (
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// inboxes says which partitions have commands to be taken in: kicked, and being looked at.
type inboxes struct {
	queued [store.Partitions]bool
	busy   [store.Partitions]bool
}

// inboxPortion bounds the commands that are read at a time; those for different runs are taken in together.
const inboxPortion = 128

// inboxParallel bounds the runs that one portion is handed to at a time: their commits share fsyncs.
const inboxParallel = 32

func (s *Scheduler) kickInbox(p store.PartitionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kickInboxLocked(p)
}

func (s *Scheduler) kickInboxLocked(p store.PartitionID) {
	if s.inboxes.queued[p] || s.closed || s.failed != nil {
		return
	}
	s.inboxes.queued[p] = true
	if s.inboxes.busy[p] {
		return // its worker looks once more
	}
	s.high = append(s.high, job{inbox: true, p: p})
	s.busy++
	s.wakeWorkersLocked()
}

// emptyInbox takes in all commands of a partition. One worker at a time does so.
func (s *Scheduler) emptyInbox(p store.PartitionID) {
	for {
		s.mu.Lock()
		again := s.inboxes.queued[p] && !s.closed && s.failed == nil
		s.inboxes.queued[p], s.inboxes.busy[p] = false, again
		s.mu.Unlock()
		if !again {
			return
		}
		after := store.CommandSeq(0)
		for {
			cmds, err := s.parts[p].Commands(s.ctx, after, inboxPortion)
			if err != nil {
				if s.ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
					s.cfg.Logger.Error("inbox cannot be read", "partition", p, "cause", err)
				}
				break
			}
			s.takeAll(cmds)
			if len(cmds) < inboxPortion {
				break
			}
			after = cmds[len(cmds)-1].Seq
		}
	}
}

// takeAll takes commands in: those of one run in order, those of different runs in parallel.
func (s *Scheduler) takeAll(cmds []store.Command) {
	byRun := map[store.RunKey][]store.Command{}
	var order []store.RunKey
	for _, c := range cmds {
		if byRun[c.To] == nil {
			order = append(order, c.To)
		}
		byRun[c.To] = append(byRun[c.To], c)
	}
	for group := range slices.Chunk(order, inboxParallel) {
		var wg sync.WaitGroup
		for _, run := range group {
			wg.Go(func() { s.takeFor(run, byRun[run]) })
		}
		wg.Wait()
	}
}

func (s *Scheduler) takeFor(run store.RunKey, cmds []store.Command) {
	for i := range cmds {
		if err := s.takeOne(run, &cmds[i]); err != nil {
			if s.ctx.Err() == nil && s.usable() == nil {
				s.cfg.Logger.Error("command cannot be taken in", "run", run.ID, "command", cmds[i].Seq, "cause", err)
			}
			return // it stays where it is, for the next start
		}
	}
}

func (s *Scheduler) takeOne(run store.RunKey, cmd *store.Command) error {
	var m message
	if err := json.Unmarshal(cmd.Data, &m); err != nil {
		s.cfg.Logger.Error("command is not as it should be", "run", run.ID, "cause", err)
		return s.parts[run.Partition()].Discard(s.ctx, []store.CommandSeq{cmd.Seq})
	}
	switch cmd.Kind {
	case store.CommandChildStart:
		return s.takeChildStart(s.ctx, cmd, &m)
	case store.CommandHookClaim, store.CommandHookRelease:
		return s.takeClaim(s.ctx, cmd, &m)
	}
	err := s.change(s.ctx, run, func(o *owner) error { return o.take(cmd, &m) })
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	answer := store.Command{}
	if cmd.Kind == store.CommandSignal {
		answer = reply(cmd, &m, abi.Errorf(abi.Conflict, "there is no run %q", run.ID))
	}
	return s.answerAndDiscard(s.ctx, cmd, answer)
}

func asABI(err error) (*abi.Error, bool) { return errors.AsType[*abi.Error](err) }
