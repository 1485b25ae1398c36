package run

import (
	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// apply applies a command of another run. The effect, the acknowledgement and the answer are one commit.
func (e Command) apply(t *transition) error {
	cmd, m := &e.Command, &e.Message
	another := cmd.ToIncarnation != (store.Incarnation{}) && cmd.ToIncarnation != t.rec.State.Incarnation // of this id
	if !another && m.Needed(t.rec.Journal, cmd.Kind) {
		return ErrDeferred
	}
	t.rec.Draft.Ack(cmd.Seq)
	if another {
		return nil
	}
	switch cmd.Kind {
	case store.CommandChildEnd, store.CommandReply:
		if again := t.rec.Sender().StartAgain(t.rec.Journal, m); len(again) > 0 {
			t.rec.Draft.Send(again[0])
			return nil
		}
		if answer, ok := m.Answer(t.rec.Journal, cmd.Kind); ok {
			if err := t.append(answer); !t.rec.Ended() { // otherwise this answer ended the run, whose journal had no room for it
				return err
			}
		}
	case store.CommandSignal:
		err := Signal{Name: m.Signal, Data: m.Payload}.apply(t)
		t.rec.Draft.Send(Reply(cmd, m, err))
	case store.CommandCancel:
		return e.cancel(t)
	case store.CommandChildAsk:
		t.rec.TellEnd(cmd, m)
	case store.CommandSlotGive:
		t.rec.TakeSlot(cmd.ID)
	}
	return nil
}

// cancel ends a child whose parent has ended or has withdrawn it.
func (e *Command) cancel(t *transition) error {
	p := t.rec.Journal.Started().Parent
	if t.rec.Ended() || p == nil || p.RunID != e.Command.From.ID || store.Incarnation(p.Incarnation) != e.Message.Sender {
		return nil
	}
	if e.Command.Name == abi.OnEndTerminate {
		return Terminate{}.apply(t)
	}
	return Cancel{}.apply(t)
}
