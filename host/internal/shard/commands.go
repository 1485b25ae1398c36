package shard

import (
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/host/internal/run"
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
		c.port.Inbox(p, after, inboxPortion)
	}
}

// portion handles the result of a read of an inbox. cmds are in order.
func (c *commands) portion(now int64, p *Partition, cmds []store.Command, err error) {
	if p.lost || c.mem.fenced(p, err) {
		return
	}
	if err != nil {
		p.inbox.ReadFailed()
		c.port.Report(Report{Kind: ReportInbox, Partition: p.ID, Cause: err})
		p.wakes.Again(now, inboxTimer)
		return
	}
	for _, raw := range cmds {
		if raw.Kind == 0 {
			c.port.Report(Report{Kind: ReportDamaged, Partition: p.ID, Cause: fmt.Errorf("command %d: %w", raw.Seq, store.ErrCorrupt)})
			p.inbox.Skip(raw.Seq)
			continue
		}
		cmd, err := parseCommand(raw)
		if err != nil {
			c.port.Report(Report{Kind: ReportCommand, Run: cmd.To, Partition: p.ID, Cause: err})
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
	case taskRefuse:
		c.port.Refuse(p, cmd.Command, nil)
	case taskCarry:
		c.port.Carry(p, cmd.Command, cmd.Message)
	case taskDeliver:
		ev := run.Command{Command: cmd.Command, Message: cmd.Message}
		c.mem.deliver(now, p, to, Envelope{Event: ev, Early: true, Reply: func(_ run.Answer, err error) {
			outcome, answer := cmd.Delivered(err)
			c.taken(now, p, cmd, outcome, answer, err)
		}})
	}
}

// taken handles the outcome of a command that was delivered to a run. If the run took the command, the commit of its changes
// also removes the command from the inbox.
func (c *commands) taken(now int64, p *Partition, cmd inboxCommand, o outcome, answer *store.Command, err error) {
	if p.lost {
		return
	}
	if errors.Is(err, ErrLost) { // whatever the cause: the run has not answered
		o = outcomeFailed
	}
	switch o {
	case outcomeTaken:
		p.residents[cmd.To].cmds = append(p.residents[cmd.To].cmds, cmd)
		c.next(now, p, cmd.To)
	case outcomeDeferred:
		p.inbox.Defer(cmd)
		c.next(now, p, cmd.To)
	case outcomeRefused:
		c.port.Refuse(p, cmd.Command, answer)
	case outcomeFailed:
		c.carried(now, p, cmd.To, nil, nil, err)
	}
}

// carried handles the results of Port.Carry and Port.Refuse.
func (c *commands) carried(now int64, p *Partition, to store.RunKey, start *run.NewRun, free func(), err error) {
	cmd, busy := p.inbox.Busy(to)
	if p.lost || !busy {
		Envelope{Free: free}.Refuse(nil)
		return
	}
	if c.mem.fenced(p, err) {
		return
	}
	switch {
	case errors.Is(err, store.ErrUnknown): // the command may be gone and its answer sent, so it must not be repeated
		c.mem.acquireAgain(p, err)
	case err != nil:
		p.inbox.Postpone(to)
		c.port.Report(Report{Kind: ReportCommand, Run: to, Partition: p.ID, Cause: err})
		p.wakes.Again(now, CommandTimer(to))
	case start != nil:
		start.Ack = cmd.Seq
		child := run.StartChild{New: *start, Command: cmd.Command, Message: cmd.Message}
		c.mem.deliver(now, p, to, Envelope{Event: child, Early: true, Free: free, Reply: func(_ run.Answer, err error) {
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
