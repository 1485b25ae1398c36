package inbox

import (
	"encoding/json"
	"errors"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// Command is a command in memory, with its message.
type Command struct {
	store.Command
	Message run.Message
	busy    bool // it is being carried out
}

// Parse returns a command with its message. With an error it is one that is to be refused.
func Parse(c store.Command) (Command, error) {
	cmd := Command{Command: c}
	err := json.Unmarshal(c.Data, &cmd.Message)
	if err != nil {
		cmd.Kind = 0
	}
	return cmd, err
}

// Task is what is to be done with a command.
type Task uint8

// The tasks.
const (
	Deliver Task = iota // its run takes it
	Carry               // it needs more than its run: the start of a child, a token, the end of a run of a schedule, a slot
	Refuse              // nobody takes it
)

// Task returns what is to be done with the command.
func (c *Command) Task() Task {
	switch c.Kind {
	case 0:
		return Refuse
	case store.CommandChildStart, store.CommandHookClaim, store.CommandHookRelease, store.CommandSchedule, store.CommandSlotAsk,
		store.CommandSlotReturn, store.CommandLimits:
		return Carry
	}
	return Deliver
}

// Outcome is what came of a command that a run was given.
type Outcome uint8

// The outcomes.
const (
	Taken   Outcome = iota // or of no consequence: it leaves the store with the commit of what the run did with it
	Left                   // to a run that has failed, until that is retried or deleted
	Refused                // there is no run that takes it
	Failed                 // it is to be tried again
)

// Delivered returns what came of a command whose run has stepped it with an error, and the answer of one that is refused, if
// there is one.
func (c *Command) Delivered(err error) (Outcome, *store.Command) {
	switch {
	case errors.Is(err, store.ErrNotFound):
		switch c.Kind {
		case store.CommandSignal:
			a := run.Reply(&c.Command, &c.Message, abi.Errorf(abi.Conflict, "there is no run %q", c.To.ID))
			return Refused, &a
		case store.CommandChildAsk:
			a := run.ChildMissing(&c.Command, &c.Message, errors.Is(err, run.ErrDeleted))
			return Refused, &a
		}
		return Refused, nil
	case errors.Is(err, run.ErrLeft):
		return Left, nil
	case unreadable(err):
		return Failed, nil
	}
	return Taken, nil
}

// unreadable reports whether an error is one of reading a run, and not one that the run has answered.
func unreadable(err error) bool {
	return err != nil && !errors.Is(err, run.ErrTerminal) && !errors.Is(err, run.ErrIllegal) && !errors.Is(err, run.ErrAside)
}

// Started returns what came of a command to start a child, whose start has ended with an error, and the answer of one that
// is refused, if there is one.
func (c *Command) Started(err error) (Outcome, *store.Command) {
	var refusal *abi.Error
	switch {
	case err == nil:
		return Taken, nil
	case errors.Is(err, store.ErrExists), errors.As(err, &refusal):
		answer := run.ChildFailed(&c.Command, &c.Message, err)
		return Refused, &answer
	case errors.Is(err, run.ErrStartedBefore):
		return Refused, nil
	}
	return Failed, nil
}
