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
	busy    bool // it is being processed
}

// Parse returns a command with its decoded message. If decoding fails, it returns the error and a command with the task Refuse.
func Parse(c store.Command) (Command, error) {
	cmd := Command{Command: c}
	err := json.Unmarshal(c.Data, &cmd.Message)
	if err != nil {
		cmd.Kind = 0
	}
	return cmd, err
}

// Task is how a command is processed.
type Task uint8

// The tasks.
const (
	Deliver Task = iota // its run takes it
	Carry               // it needs more than its run: the start of a child, a token, the end of a run of a schedule, a slot, limits
	Refuse              // it is refused
)

// Task returns how the command is processed: Refuse if its message could not be decoded.
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

// Outcome is the outcome of processing a command.
type Outcome uint8

// The outcomes.
const (
	Taken   Outcome = iota // the run took or ignored it; the commit of the run's step deletes it from the store
	Left                   // it stays in the store for a failed run, until the run is retried or deleted
	Refused                // no run takes it
	Failed                 // it must be tried again
)

// Delivered returns the outcome of a command whose run stepped it with err (nil = success), and the answer to the sender if the
// refused command needs one.
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

// unreadable reports whether err is a failure to read the run, not an answer of the run.
func unreadable(err error) bool {
	return err != nil && !errors.Is(err, run.ErrTerminal) && !errors.Is(err, run.ErrIllegal) && !errors.Is(err, run.ErrAside)
}

// Started returns the outcome of a command to start a child whose start ended with err (nil = success), and the answer to the
// parent if the refused command needs one.
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
