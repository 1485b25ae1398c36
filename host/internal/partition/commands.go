package partition

import (
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/host/internal/actor"
	"github.com/wfhost/wfhost/host/internal/inbox"
	"github.com/wfhost/wfhost/host/internal/note"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/wake"
	"github.com/wfhost/wfhost/store"
)

// commands reads the inboxes of partitions and delivers each command to the run it is addressed to.
type commands struct {
	port Port
	mem  *memory
}

// kicked reads the inbox of a partition, which may have new commands.
func (c *commands) kicked(p *Partition) {
	p.inbox.Kick()
	c.read(p)
}

func (c *commands) read(p *Partition) {
	if after, ok := p.inbox.Read(); ok {
		c.port.Inbox(p, after, inbox.Portion)
	}
}

// portion handles the result of a read of an inbox. cmds are in order.
func (c *commands) portion(now int64, p *Partition, cmds []store.Command, err error) {
	if p.lost || c.mem.fenced(p, err) {
		return
	}
	if err != nil {
		p.inbox.ReadFailed()
		c.port.Note(note.Note{Kind: note.Inbox, Partition: p.ID, Cause: err})
		p.wakes.Again(now, wake.InboxKey)
		return
	}
	for _, raw := range cmds {
		if raw.Kind == 0 {
			c.port.Note(note.Note{Kind: note.Damaged, Partition: p.ID, Cause: fmt.Errorf("command %d: %w", raw.Seq, store.ErrCorrupt)})
			p.inbox.Skip(raw.Seq)
			continue
		}
		cmd, err := inbox.Parse(raw)
		if err != nil {
			c.port.Note(note.Note{Kind: note.Command, Run: cmd.To, Partition: p.ID, Cause: err})
		}
		if p.inbox.Add(cmd) {
			c.take(now, p, cmd.To)
		}
	}
	p.inbox.ReadDone(len(cmds))
	c.read(p)
}

// take starts the first command for a run.
func (c *commands) take(now int64, p *Partition, to store.RunKey) {
	cmd := p.inbox.Take(to)
	switch cmd.Task() {
	case inbox.Refuse:
		c.port.Refuse(p, cmd.Command, nil)
	case inbox.Carry:
		c.port.Carry(p, cmd.Command, cmd.Message)
	case inbox.Deliver:
		ev := run.Command{Command: cmd.Command, Message: cmd.Message}
		c.mem.deliver(now, p, to, actor.Mail{Event: ev, Early: true, Reply: func(_ run.Answer, err error) {
			outcome, answer := cmd.Delivered(err)
			c.taken(now, p, cmd, outcome, answer, err)
		}})
	}
}

// taken handles the outcome of a command that was delivered to a run. If the run took the command, the commit of its changes
// also removes the command from the inbox.
func (c *commands) taken(now int64, p *Partition, cmd inbox.Command, o inbox.Outcome, answer *store.Command, err error) {
	if p.lost {
		return
	}
	if errors.Is(err, ErrLost) { // whatever the cause: the run has not answered
		o = inbox.Failed
	}
	switch o {
	case inbox.Taken:
		p.slots[cmd.To].cmds = append(p.slots[cmd.To].cmds, cmd)
		c.next(now, p, cmd.To)
	case inbox.Left:
		p.inbox.Leave(cmd)
		c.next(now, p, cmd.To)
	case inbox.Refused:
		c.port.Refuse(p, cmd.Command, answer)
	case inbox.Failed:
		c.carried(now, p, cmd.To, nil, nil, err)
	}
}

// carried handles the results of Port.Carry and Port.Refuse.
func (c *commands) carried(now int64, p *Partition, to store.RunKey, start *run.NewRun, free func(), err error) {
	cmd, busy := p.inbox.Busy(to)
	if p.lost || !busy {
		actor.Mail{Free: free}.Refuse(nil)
		return
	}
	if c.mem.fenced(p, err) {
		return
	}
	switch {
	case err != nil:
		p.inbox.Postpone(to)
		c.port.Note(note.Note{Kind: note.Command, Run: to, Partition: p.ID, Cause: err})
		p.wakes.Again(now, wake.CommandKey(to))
	case start != nil:
		start.Ack = cmd.Seq
		child := run.StartChild{New: *start, Command: cmd.Command, Message: cmd.Message}
		c.mem.deliver(now, p, to, actor.Mail{Event: child, Early: true, Free: free, Reply: func(_ run.Answer, err error) {
			outcome, answer := cmd.Started(err)
			c.taken(now, p, cmd, outcome, answer, err)
		}})
	default:
		c.next(now, p, to)
	}
}

// next starts the next command for a run.
func (c *commands) next(now int64, p *Partition, to store.RunKey) {
	if p.inbox.Done(to) {
		c.take(now, p, to)
	}
	c.read(p)
}
