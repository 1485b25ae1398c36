package partition

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// inboxPortion bounds the commands that are read at a time.
const inboxPortion = 128

// inboxWaiting bounds the commands in memory: while there are more, no others are read.
const inboxWaiting = 1024

// commandAgain is how long a command waits that could not be carried out, before it is tried again.
const commandAgain = time.Second

// Kinds of timers that are in memory alone.
const (
	kindInbox   store.WakeKind = 254 // the inbox is to be read again
	kindCommand store.WakeKind = 255 // the first command for a run is to be tried again
)

// inbox is what a partition has of its inbox in memory. Commands for one run are taken in one after the other, so that
// none overtakes another one that has to be tried again; those for different runs do not wait for each other.
type inbox struct {
	after   store.CommandSeq // commands up to this number were read
	again   bool             // there may be more behind it
	reading bool
	waiting int // commands in queues
	queues  map[store.RunKey][]command
}

type command struct {
	store.Command
	m run.Message
}

func newInbox() inbox { return inbox{queues: map[store.RunKey][]command{}} }

// Kicked says that there may be commands in the inbox of a partition.
func (s *Shard) Kicked(id store.PartitionID) {
	if p := s.parts[id]; p != nil {
		p.inbox.again = true
		s.readInbox(p)
	}
}

func (s *Shard) readInbox(p *Partition) {
	if b := &p.inbox; b.again && !b.reading && b.waiting < inboxWaiting {
		b.again, b.reading = false, true
		s.port.Inbox(p, b.after, inboxPortion)
	}
}

// InboxRead takes commands that were read, in order.
func (s *Shard) InboxRead(now int64, p *Partition, cmds []store.Command, err error) {
	if s.parts[p.ID] != p {
		return
	}
	b := &p.inbox
	b.reading = false
	if errors.Is(err, store.ErrFenced) {
		s.Lose(p, err)
		return
	}
	if err != nil {
		s.port.Note(Note{Kind: NoteInbox, Partition: p.ID, Cause: err})
		p.timers.Put(timerKey{kindInbox, store.RunKey{}}, now+readAgain.Milliseconds())
		return
	}
	for _, c := range cmds {
		b.after = c.Seq
		b.waiting++
		cmd := command{Command: c}
		err := json.Unmarshal(c.Data, &cmd.m)
		if err != nil {
			s.port.Note(Note{Kind: NoteCommand, Run: c.To, Partition: p.ID, Cause: err})
			cmd.Kind = 0 // nobody takes it
		}
		b.queues[c.To] = append(b.queues[c.To], cmd)
		if len(b.queues[c.To]) == 1 {
			s.takeFirst(now, p, c.To)
		}
	}
	b.again = b.again || len(cmds) == inboxPortion
	s.readInbox(p)
}

// takeFirst has the first command for a run carried out.
func (s *Shard) takeFirst(now int64, p *Partition, to store.RunKey) {
	cmd := p.inbox.queues[to][0]
	switch cmd.Kind {
	case 0:
		s.port.Refuse(p, cmd.Command, nil)
	case store.CommandChildStart, store.CommandHookClaim, store.CommandHookRelease:
		s.port.Carry(p, cmd.Command, cmd.m)
	default:
		s.deliver(now, p, to, mail{ev: run.Command{Command: cmd.Command, Message: cmd.m}, early: true,
			reply: func(_ run.Answer, err error) { s.taken(now, p, cmd, err) }})
	}
}

// taken is called when a run has taken a command, or has not. It leaves the inbox in the commit of what the run did with
// it.
func (s *Shard) taken(now int64, p *Partition, cmd command, err error) {
	switch {
	case s.parts[p.ID] != p || errors.Is(err, ErrLost):
	case errors.Is(err, store.ErrNotFound):
		var answer *store.Command
		switch cmd.Kind {
		case store.CommandSignal:
			a := run.Reply(&cmd.Command, &cmd.m, abi.Errorf(abi.Conflict, "there is no run %q", cmd.To.ID))
			answer = &a
		case store.CommandChildAsk:
			a := run.ChildFailed(&cmd.Command, &cmd.m, abi.Errorf(abi.Conflict, "there is no run %q any more", cmd.To.ID))
			answer = &a
		}
		s.port.Refuse(p, cmd.Command, answer)
	case unreadable(err):
		s.Carried(now, p, cmd.To, nil, nil, err)
	default: // taken, or of no consequence
		s.carried(now, p, cmd.To)
	}
}

// unreadable reports whether an error is one of reading a run, and not one that the run has answered.
func unreadable(err error) bool {
	return err != nil && !errors.Is(err, run.ErrTerminal) && !errors.Is(err, run.ErrIllegal)
}

// Carried takes what came of Port.Carry and Port.Refuse: an error has the command tried again after a while, start is the
// run that a child's start begins. free, which may be nil, is called when that is durable, or will not be.
func (s *Shard) Carried(now int64, p *Partition, to store.RunKey, start *run.NewRun, free func(), err error) {
	if s.parts[p.ID] != p || len(p.inbox.queues[to]) == 0 {
		mail{free: free}.refuse(nil)
		return
	}
	cmd := p.inbox.queues[to][0]
	switch {
	case errors.Is(err, store.ErrFenced):
		mail{free: free}.refuse(nil)
		s.Lose(p, err)
	case err != nil:
		s.port.Note(Note{Kind: NoteCommand, Run: to, Partition: p.ID, Cause: err})
		p.timers.Put(timerKey{kindCommand, to}, now+commandAgain.Milliseconds())
	case start != nil:
		start.Ack = cmd.Seq
		s.deliver(now, p, to, mail{ev: run.StartChild{New: *start, Command: cmd.Command, Message: cmd.m}, early: true,
			reply: func(_ run.Answer, err error) { s.startedChild(now, p, cmd, err) }, free: free})
	default:
		s.carried(now, p, to)
	}
}

// startedChild is called when a child was started, or was not.
func (s *Shard) startedChild(now int64, p *Partition, cmd command, err error) {
	var refusal *abi.Error
	switch {
	case s.parts[p.ID] != p || errors.Is(err, ErrLost):
	case err == nil:
		s.carried(now, p, cmd.To)
	case errors.Is(err, store.ErrExists), errors.As(err, &refusal):
		answer := run.ChildFailed(&cmd.Command, &cmd.m, err)
		s.port.Refuse(p, cmd.Command, &answer)
	case errors.Is(err, run.ErrStartedBefore):
		s.port.Refuse(p, cmd.Command, nil)
	default:
		s.Carried(now, p, cmd.To, nil, nil, err)
	}
}

// carried goes on with the next command for a run.
func (s *Shard) carried(now int64, p *Partition, to store.RunKey) {
	b := &p.inbox
	b.waiting--
	if rest := b.queues[to][1:]; len(rest) > 0 {
		b.queues[to] = rest
		s.takeFirst(now, p, to)
	} else {
		delete(b.queues, to)
	}
	s.readInbox(p)
}
