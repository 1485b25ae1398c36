package shard

import (
	"encoding/json"
	"errors"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// inboxCommand is a command in memory, with its message.
type inboxCommand struct {
	store.Command
	Message run.Message
	busy    bool // it is being processed
}

// parseCommand returns a command with its decoded message. If decoding fails, it returns the error and a command with the
// task Refuse.
func parseCommand(c store.Command) (inboxCommand, error) {
	cmd := inboxCommand{Command: c}
	err := json.Unmarshal(c.Data, &cmd.Message)
	if err != nil {
		cmd.Kind = 0
	}
	return cmd, err
}

// task is how a command is processed.
type task uint8

// The tasks.
const (
	taskDeliver task = iota // the receiving run takes it
	taskCarry               // it needs more than its run: a start of a child, a token, an end for a schedule, a slot, limits
	taskRefuse              // it is refused
)

// Task returns how the command is processed: Refuse if its message could not be decoded.
func (c *inboxCommand) Task() task {
	switch c.Kind {
	case 0:
		return taskRefuse
	case store.CommandChildStart, store.CommandHookClaim, store.CommandHookRelease, store.CommandSchedule, store.CommandSlotAsk,
		store.CommandSlotReturn, store.CommandLimits:
		return taskCarry
	}
	return taskDeliver
}

// outcome is the outcome of processing a command.
type outcome uint8

// The outcomes.
const (
	outcomeTaken    outcome = iota // the run took or ignored it; the commit of the run's step deletes it from the store
	outcomeDeferred                // it stays in the store for a failed run, until the run is retried or deleted
	outcomeRefused                 // no run takes it
	outcomeFailed                  // it must be tried again
)

// Delivered returns the outcome of a command that its run has applied with err (nil = success), and the answer to the sender if
// the refused command needs one.
func (c *inboxCommand) Delivered(err error) (outcome, *store.Command) {
	switch {
	case errors.Is(err, store.ErrNotFound):
		switch c.Kind {
		case store.CommandSignal:
			a := run.Reply(&c.Command, &c.Message, abi.Errorf(abi.Conflict, "there is no run %q", c.To.ID))
			return outcomeRefused, &a
		case store.CommandChildAsk:
			a := run.ChildMissing(&c.Command, &c.Message, errors.Is(err, run.ErrDeleted))
			return outcomeRefused, &a
		}
		return outcomeRefused, nil
	case errors.Is(err, run.ErrDeferred):
		return outcomeDeferred, nil
	case unreadable(err):
		return outcomeFailed, nil
	}
	return outcomeTaken, nil
}

// unreadable reports whether err is a failure to read the run, not an answer of the run.
func unreadable(err error) bool {
	return err != nil && !errors.Is(err, run.ErrTerminal) && !errors.Is(err, run.ErrIllegal) && !errors.Is(err, run.ErrAside)
}

// Started returns the outcome of a command to start a child whose start ended with err (nil = success), and the answer to the
// parent if the refused command needs one.
func (c *inboxCommand) Started(err error) (outcome, *store.Command) {
	var refusal *abi.Error
	switch {
	case err == nil:
		return outcomeTaken, nil
	case errors.Is(err, store.ErrExists), errors.As(err, &refusal):
		answer := run.ChildFailed(&c.Command, &c.Message, err)
		return outcomeRefused, &answer
	case errors.Is(err, run.ErrStartedBefore):
		return outcomeRefused, nil
	}
	return outcomeFailed, nil
}
