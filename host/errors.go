package host

import (
	"errors"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/archive"
	"github.com/wfhost/wfhost/host/internal/datadir"
	"github.com/wfhost/wfhost/host/internal/guest"
	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/module"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/runtime"
	"github.com/wfhost/wfhost/host/internal/shard"
	"github.com/wfhost/wfhost/host/internal/wasm/validate"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/backup"
)

// Errors to test with errors.Is.
var (
	ErrNotFound    = errors.New("not found")                 // no such run, workflow or version
	ErrConflict    = errors.New("conflict")                  // an id is taken by another run, or a version is in use
	ErrTerminal    = errors.New("run has ended")             // an end is final
	ErrMismatch    = errors.New("replay differs")            // the run is stuck
	ErrLimit       = errors.New("limit exceeded")            // a size or number is over a limit
	ErrBusy        = errors.New("busy")                      // over a quota, or too much is pending for a run or upload; try later
	ErrInvalid     = errors.New("invalid argument")          // a name, id or input is not allowed
	ErrClosed      = errors.New("host is closed")            // Close was called
	ErrFenced      = errors.New("data is owned by another")  // another host owns the run, or has just taken it over
	ErrLocked      = errors.New("data is locked")            // another process has the data open
	ErrUnavailable = errors.New("store cannot be reached")   // the database; what the call asks for may have happened or not
	ErrStoreFailed = errors.New("store has failed")          // a write or fsync failed; open the data again
	ErrDiskFull    = errors.New("disk is nearly full")       // new work is refused until there is room; also ErrBusy
	ErrCopy        = errors.New("data is a copy")            // refused until the copy is released
	ErrKey         = errors.New("the data is encrypted")     // the key is missing or wrong
	ErrVersion     = errors.New("written by a newer wfhost") // the data is from a newer release
	ErrRejected    = errors.New("module rejected")           // the module cannot be a workflow
)

// RejectError says why an upload refused a module. errors.Is(err, ErrRejected) is true.
//
//	Rule       string // the rule that the module breaks
//	Limit, Got int64  // both zero if the rule has no number
//	Offset     int64  // of the byte in the module
//	Detail     string
type RejectError = validate.RejectError

// RunError is the error of a run that did not complete, as Result returns it.
type RunError struct {
	RunID  string
	Status Status
	// Failure is the failure from the workflow or the host; nil for cancelled and terminated runs.
	Failure *abi.Error
	// JSON is the failure as it was recorded.
	JSON []byte
}

// Error says how the run ended.
func (e *RunError) Error() string {
	if e.Failure == nil || e.Failure.Message == "" {
		if len(e.JSON) > 0 {
			return fmt.Sprintf("run %s %s: %s", e.RunID, e.Status, e.JSON)
		}
		return fmt.Sprintf("run %s %s", e.RunID, e.Status)
	}
	return fmt.Sprintf("run %s %s: %s", e.RunID, e.Status, e.Failure.Message)
}

// joined is an error with the text of its cause that also matches a sentinel in errors.Is.
type joined struct {
	cause    error
	sentinel error
}

func (e *joined) Error() string   { return e.cause.Error() }
func (e *joined) Unwrap() []error { return []error{e.cause, e.sentinel} }

// translate joins an internal error with the public sentinel for it.
func translate(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*validate.RejectError](err); ok {
		return &joined{err, ErrRejected}
	}
	if _, ok := errors.AsType[*datadir.FullError](err); ok || errors.Is(err, store.ErrFull) {
		return &joined{&joined{err, ErrDiskFull}, ErrBusy}
	}
	if a, ok := errors.AsType[*abi.Error](err); ok {
		switch a.Code {
		case abi.TooLarge, abi.Limit:
			return &joined{err, ErrLimit}
		case abi.Conflict:
			return &joined{err, ErrConflict}
		}
		return &joined{err, ErrInvalid}
	}
	if _, ok := errors.AsType[*module.InUseError](err); ok {
		return &joined{err, ErrConflict}
	}
	for _, pair := range []struct{ inner, outer error }{
		{run.ErrTerminal, ErrTerminal}, {guest.ErrClosed, ErrClosed}, {store.ErrClosed, ErrClosed},
		{store.ErrExists, ErrConflict}, {run.ErrIllegal, ErrConflict}, {run.ErrAside, ErrConflict}, {store.ErrNotFound, ErrNotFound},
		{store.ErrFenced, ErrFenced}, {store.ErrOwned, ErrFenced},
		{store.ErrFailed, ErrStoreFailed}, {store.ErrLocked, ErrLocked}, {store.ErrVersion, ErrVersion},
		{store.ErrCopy, ErrCopy}, {store.ErrKey, ErrKey}, {backup.ErrPlace, ErrInvalid},
		{archive.ErrInvalid, ErrInvalid}, {shard.ErrNotOwned, ErrFenced},
		{runtime.ErrReleased, ErrFenced}, {runtime.ErrGivenUp, ErrUnavailable},
		{store.ErrUnavailable, ErrUnavailable}, {store.ErrUnknown, ErrUnavailable},
		{shard.ErrLost, ErrUnavailable},
	} {
		if errors.Is(err, pair.inner) {
			return &joined{err, pair.outer}
		}
	}
	return err
}

// Fatal wraps a handler's error that must not be retried. Fatal(nil) is nil.
func Fatal(err error) error {
	if err == nil {
		return nil
	}
	return &handler.FatalError{Err: err}
}

// RetryAfter wraps a handler's error with the delay before the next attempt, in place of the step's backoff. The
// number of attempts still counts. RetryAfter(nil, d) is nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &handler.RetryAfterError{Err: err, After: d}
}

// busy turns the temporary limits of a run into ErrBusy.
func busy(err error) error {
	if a, ok := errors.AsType[*abi.Error](err); ok && a.Code == abi.Limit {
		return &joined{err, ErrBusy}
	}
	return err
}

func isNotFound(err error) bool { return errors.Is(err, ErrNotFound) }

func isEnded(err error) bool { return errors.Is(err, ErrTerminal) || isNotFound(err) }

func checkRunID(id string) error { return translate(abi.CheckRunID(id)) }
