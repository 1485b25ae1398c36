package actor

import (
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// Reply tells whoever caused an event what came of it. It does not block.
type Reply func(run.Answer, error)

// Mail is an event, with its reply, which may be nil.
type Mail struct {
	Event run.Event
	Reply Reply
	Early bool   // the reply does not wait until it is durable
	Free  func() // called when what came of it is durable, or will not be; nil = nothing
}

// Refuse answers an event that does not happen.
func (m Mail) Refuse(err error) {
	if m.Free != nil {
		m.Free()
	}
	if m.Reply != nil {
		m.Reply(run.Answer{}, err)
	}
}

// done is what is done when a commit is durable.
type done struct {
	reply  Reply
	answer run.Answer
	err    error // in place of the answer
	start  []*run.Attempt
	again  *Mail
	free   func()
	stuck  bool // the run was left to a person
}

// refuse answers those who wait for a commit that will not be durable.
func (d done) refuse(err error) {
	if d.again != nil {
		d.reply, d.free = d.again.Reply, d.again.Free
	}
	Mail{Reply: d.reply, Free: d.free}.Refuse(err)
}

// answerWith calls the reply. The run that it shows is as it was committed, but running if something of it goes on.
func (d done) answerWith(state *store.RunState, running bool) {
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

// keep keeps what waits for the commit of a step, and refusals for that of the steps before. An early reply is given at once.
func (a *Actor) keep(fx *run.Effects, m Mail) {
	if m.Free != nil && fx.Err != nil {
		m.Free()
		m.Free = nil
	}
	d := done{reply: m.Reply, answer: fx.Answer, start: fx.Start, free: m.Free, stuck: fx.Stuck != ""}
	switch {
	case m.Reply == nil:
	case !m.Early && fx.Err != nil: // what a refusal says of the run is durable: that it is there, has ended, or is not there
		d.err, a.urgent = fx.Err, true
	case m.Early:
		m.Reply(fx.Answer, fx.Err)
		m.Reply, d.reply = nil, nil
	}
	if fx.Again {
		again := m // of its own, so that m is not moved to the heap at every step
		d.again, d.reply, d.free = &again, nil, nil
	}
	if d.reply != nil || len(d.start) > 0 || d.again != nil || d.free != nil || d.stuck {
		a.after = append(a.after, d)
	}
}
