package shard

import (
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// Reply passes the outcome of an event to its caller. It runs on the shard's goroutine and must not block.
type Reply func(run.Answer, error)

// Envelope is an event with its reply. Reply may be nil.
type Envelope struct {
	Event run.Event
	Reply Reply
	Early bool   // reply before the result is durable
	Free  func() // called when the result is durable or was lost; may be nil
}

// Refuse answers an unprocessed event with err.
func (m Envelope) Refuse(err error) {
	if m.Free != nil {
		m.Free()
	}
	if m.Reply != nil {
		m.Reply(run.Answer{}, err)
	}
}

// afterCommit is what to do when a commit is durable.
type afterCommit struct {
	reply  Reply
	answer run.Answer
	err    error // reply with this instead of answer
	start  []*run.Attempt
	again  *Envelope
	free   func()
	stuck  bool // the run is stuck
}

// refuse answers the caller with err: the commit will not be durable.
func (d afterCommit) refuse(err error) {
	if d.again != nil {
		d.reply, d.free = d.again.Reply, d.again.Free
	}
	Envelope{Reply: d.reply, Free: d.free}.Refuse(err)
}

// answerWith calls the reply with the committed state. If running is set and the run is live, it shows the status Running.
func (d afterCommit) answerWith(state *store.RunState, running bool) {
	if d.err != nil {
		d.reply(run.Answer{}, d.err)
		return
	}
	st := *state
	if live := !st.Status.Terminal() && !st.Status.Attention(); live && running {
		st.Status, st.Reason = store.Running, ""
	}
	d.answer.State = &st
	d.reply(d.answer, nil)
}

// keep keeps the effects of an event until its commit is durable. A refusal waits for the commit of earlier events, because it
// may depend on them. If the envelope is Early, keep replies at once.
func (a *actor) keep(fx *run.Effects, m Envelope) {
	if m.Free != nil && fx.Err != nil {
		m.Free()
		m.Free = nil
	}
	d := afterCommit{reply: m.Reply, answer: fx.Answer, start: fx.Start, free: m.Free, stuck: fx.Stuck != ""}
	switch {
	case m.Reply == nil:
	case !m.Early && fx.Err != nil: // a refusal may only report durable facts, such as that the run has ended
		d.err, a.urgent = fx.Err, true
	case m.Early:
		m.Reply(fx.Answer, fx.Err)
		m.Reply, d.reply = nil, nil
	}
	if fx.Again {
		again := m // a copy, so that m does not escape to the heap at every step
		d.again, d.reply, d.free = &again, nil, nil
	}
	if d.reply != nil || len(d.start) > 0 || d.again != nil || d.free != nil || d.stuck {
		a.after = append(a.after, d)
	}
}
