package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/query"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// UpdateStatus is what has become of an update.
type UpdateStatus string

// The statuses of updates. There is none of one that was refused: nothing of it is recorded.
const (
	UpdateAccepted  UpdateStatus = "accepted" // durable; the workflow has not answered yet
	UpdateCompleted UpdateStatus = "completed"
	UpdateFailed    UpdateStatus = "failed" // by the workflow, or because the run ended before it answered
)

// Update is an update that a run has accepted.
type Update struct {
	Run    string       `json:"run"`
	Name   string       `json:"name"`
	ID     string       `json:"id"` // by which its answer is requested again
	Status UpdateStatus `json:"status"`
	// Result is the answer of one that is completed: JSON, unless the workflow has another codec.
	Result []byte `json:"-"`
	// Failure is what is said of one that failed, and JSON the same as it was recorded.
	Failure *abi.Error `json:"-"`
	JSON    []byte     `json:"-"`
}

// UpdateError says that a workflow has refused an update, or that an accepted one has failed.
type UpdateError struct {
	Update Update
	// Refused says that nothing was recorded: the workflow does not take the update as it stands now.
	Refused bool
	Cause   error // why the workflow could not be asked; nil if it has answered
}

// Error names the update and says what the workflow said.
func (e *UpdateError) Error() string {
	what, said := "failed", string(e.Update.JSON)
	if e.Refused {
		what = "was refused"
	}
	if f := e.Update.Failure; f != nil && f.Message != "" {
		said = f.Message
	}
	if e.Cause != nil {
		said = e.Cause.Error()
	}
	return fmt.Sprintf("update %q of run %q %s: %s", e.Update.Name, e.Update.Run, what, said)
}

// Unwrap returns the cause.
func (e *UpdateError) Unwrap() error { return e.Cause }

// UpdateOption is an option of Update.
type UpdateOption func(*updating)

// updating is an update that is to be accepted.
type updating struct {
	Update
	key    store.RunKey
	signal run.Signal
	early  bool
}

// WithUpdateID sets the id of an update, by which a repeated one is recognized: the same name, id and input are the
// same update, and get its answer; the same name and id with another input are ErrConflict. A run remembers its newest
// 10,000 ids, those of signals included. Default: a random one, which the Update has.
func WithUpdateID(id string) UpdateOption { return func(u *updating) { u.ID = id } }

// UntilAccepted has Update return when the update is accepted, and not wait for the answer.
func UntilAccepted() UpdateOption { return func(u *updating) { u.early = true } }

// updateTries is how often a workflow is asked whether it accepts an update, when it has continued by the time that it has
// answered. Each is a replay; a run that makes so many commits meanwhile is busy for some time.
const updateTries = 20

// Update asks a run to do something and returns its answer. The input is encoded as JSON (json.RawMessage and nil are
// taken as they are).
//
// First the workflow is asked whether it accepts the update, as it stands where it waits; nothing of that is recorded.
// A workflow that refuses, or has no handler of that name there, is an *UpdateError with Refused; an input that does
// not fit the schema that it gives is a *SchemaError. An accepted update is durable. The workflow performs it in its
// own code, and its answer is durable when Update returns it. An error of the workflow is an *UpdateError, too, and the
// same one each time it is asked for.
//
// If ctx ends before the answer, the error is that of ctx. The Update has its ID in each case. Its Status is
// UpdateAccepted if that is known, and empty if it may have been accepted or not; Update with the same ID settles that,
// and UpdateResult waits again, in another process as well. ErrTerminal if the run has ended before it accepted the
// update. A run that ends, or continues as new, while it performs an update fails it. ErrBusy if the run has too many
// that it has not answered, has not begun, or does not come to rest within ten seconds; ErrNotFound if there is no such
// run, or its workflow lists its updates without this one.
func (s *scope) Update(ctx context.Context, id, name string, input any, opts ...UpdateOption) (Update, error) {
	data, err := encoded(fmt.Sprintf("the input of update %q", name), input)
	if err != nil {
		return Update{}, err
	}
	u := updating{Update: Update{Run: id, Name: name}}
	for _, o := range opts {
		o(&u)
	}
	if u.ID == "" {
		u.ID = newRunID(s.h.cfg.Clock.Now())
	}
	u.signal = run.Signal{Name: abi.UpdatePrefix + name, Data: bytes.Clone(data), Key: u.ID}
	err = errors.Join(abi.CheckUpdate(name), abi.CheckName("update id", u.ID))
	if err == nil && len(data) > abi.MaxPayloadBytes {
		err = abi.Errorf(abi.TooLarge, "the input of update %q has %d bytes, the limit is %d", name, len(data), abi.MaxPayloadBytes)
	}
	if err == nil {
		err = s.h.roomOnDisk(len(data))
	}
	if err == nil {
		u.key, err = s.key(ctx, id)
	}
	if err == nil {
		err = s.accept(ctx, &u)
	}
	if err != nil {
		return u.Update, busy(translate(err))
	}
	u.Status = UpdateAccepted
	return s.updated(ctx, u.key, u.Update, !u.early)
}

// UpdateResult returns an update that was accepted, by its name and id, and waits for its answer until ctx ends if wait
// is true. An error of the workflow is an *UpdateError, as of Update. ErrNotFound if the run has accepted no such
// update, or has forgotten it.
func (s *scope) UpdateResult(ctx context.Context, id, name, updateID string, wait bool) (Update, error) {
	key, err := s.key(ctx, id)
	if err == nil {
		err = errors.Join(abi.CheckUpdate(name), abi.CheckName("update id", updateID))
	}
	if err != nil {
		return Update{}, translate(err)
	}
	return s.updated(ctx, key, Update{Run: id, Name: name, ID: updateID}, wait)
}

// accept has a run accept an update, unless it has accepted the very same one before.
func (s *scope) accept(ctx context.Context, u *updating) error {
	for range updateTries {
		known, err := s.knownUpdate(ctx, u)
		if err != nil || known {
			return err
		}
		_, asked, err := s.ask(ctx, u.key, u.signal.Name, u.signal.Data)
		if q, ok := errors.AsType[*QueryError](err); ok {
			if errors.Is(q.Cause, query.ErrOnItsWay) || errors.Is(q.Cause, query.ErrNotBegun) {
				return &joined{fmt.Errorf("run %q cannot be asked whether it accepts update %q: %w; try again", u.Run, u.Name, q.Cause),
					ErrBusy}
			}
			return &UpdateError{Update: failedUpdate(u.Update, q.JSON), Refused: true, Cause: q.Cause}
		}
		if err != nil {
			return err
		}
		u.signal.If = func(j *journal.Journal) error { return mayAccept(j, &asked) }
		_, err = s.h.rt.Runs.Signal(ctx, u.key, u.signal)
		if !errors.Is(err, run.ErrMoved) {
			return err
		}
	}
	return &joined{fmt.Errorf("run %q has gone on each of the %d times that its workflow was asked whether it accepts update %q; "+
		"try again", u.Run, updateTries, u.Name), ErrBusy}
}

// mayAccept returns an error unless a run is as it was when its workflow was asked, and has room for another update.
func mayAccept(j *journal.Journal, asked *store.RunState) error {
	if j.Started().Iteration != asked.Iteration || store.Seq(j.Len()) != asked.Length {
		return run.ErrMoved
	}
	if n := j.PendingUpdates(); n >= abi.MaxPendingUpdates {
		return abi.Errorf(abi.Limit, "the run has %d updates that it has not answered, the limit is %d", n, abi.MaxPendingUpdates)
	}
	return nil
}

// knownUpdate reports whether a run has accepted an update before. Its error says why it cannot be accepted whatever
// the workflow says: the run has ended, its input does not fit, its workflow does not list it, or it came with another
// input before.
func (s *scope) knownUpdate(ctx context.Context, u *updating) (known bool, err error) {
	var seen struct { // which the writer continues to fill in if ctx ends
		st           store.RunState
		known, ended bool
	}
	signal := u.signal
	err = s.h.rt.Runs.Look(ctx, u.key, func(r *run.Run) (err error) {
		seen.st, seen.ended = r.State(), r.Journal().Ended() != store.KindInvalid
		seen.known, err = r.Journal().CheckSignal(signal.Name, signal.Key, signal.Data)
		if a, ok := errors.AsType[*abi.Error](err); ok && a.Code == abi.Limit && seen.ended {
			err = nil
		}
		return err
	})
	if err != nil {
		return false, err
	}
	st := seen.st
	if seen.known {
		return true, nil
	}
	if seen.ended {
		return false, fmt.Errorf("run %q: %w: it takes no update", u.Run, run.ErrTerminal)
	}
	if d := s.names(ctx, st.Workflow, st.Module); len(d.Updates) > 0 && !slices.Contains(d.Updates, u.Name) {
		return false, fmt.Errorf("update %q of run %q: %w: workflow %q has no such update, it has %q", u.Name, u.Run, store.ErrNotFound,
			st.Workflow, d.Updates)
	}
	return false, s.fittingTo(ctx, u.key, u.signal)
}

// updated returns what has become of an accepted update, and waits for its answer.
func (s *scope) updated(ctx context.Context, key store.RunKey, u Update, wait bool) (Update, error) {
	changed, stop := s.h.rt.Watchers.Watch(key)
	defer stop()
	for {
		now := struct { // which the writer continues to fill in if ctx ends
			Update
			known journal.Key
			aside bool
		}{Update: u}
		err := s.h.rt.Runs.Look(ctx, key, func(r *run.Run) (err error) {
			now.known, err = now.read(r.Journal())
			now.aside = r.State().Aside != store.NotAside
			return err
		})
		if err == nil && now.Status == "" { // an earlier iteration has accepted it, and no later one has
			err = s.earlier(ctx, key, now.known.Iteration, &now.Update)
		}
		if err != nil {
			return u, translate(err)
		}
		switch u = now.Update; {
		case u.Status == UpdateFailed:
			return u, &UpdateError{Update: u}
		case u.Status == UpdateCompleted || !wait:
			return u, nil
		case now.aside:
			return u, translate(fmt.Errorf("%w: update %q has no answer, and gets none here", run.ErrAside, u.Name))
		}
		select {
		case <-changed:
		case <-s.h.closed:
			return u, ErrClosed
		case <-ctx.Done():
			return u, ctx.Err()
		}
	}
}

// earlier reads what has become of an update from the journal of an iteration that is over.
func (s *scope) earlier(ctx context.Context, key store.RunKey, iteration uint32, u *Update) error {
	st, err := s.h.store.State(ctx, key)
	if err == nil {
		err = st.Removed(iteration)
	}
	if err != nil {
		return fmt.Errorf("the answer to update %q with the id %q: %w", u.Name, u.ID, err)
	}
	j := &journal.Journal{}
	for e, err := range s.h.store.Load(ctx, key, iteration, 0) {
		if err == nil {
			err = j.Load(e)
		}
		if err != nil {
			return err
		}
	}
	_, err = u.read(j)
	if err == nil && u.Status == "" {
		err = fmt.Errorf("update %q with the id %q: %w in iteration %d", u.Name, u.ID, store.ErrNotFound, iteration)
	}
	return err
}

// read takes what a journal says of the update. If an earlier iteration has accepted it, and this one has not, the
// status stays empty, and the key says which.
func (u *Update) read(j *journal.Journal) (known journal.Key, err error) {
	signal := abi.UpdatePrefix + u.Name
	at, here := j.Update(signal, u.ID)
	if !here {
		known, ok := j.Known(signal, u.ID)
		if !ok || known.Iteration == j.Started().Iteration {
			return known, fmt.Errorf("run %q: %w: it has accepted no update %q with the id %q, or has forgotten it", u.Run,
				store.ErrNotFound, u.Name, u.ID)
		}
		u.Status = ""
		return known, nil
	}
	entries := j.Entries()
	switch e := &entries[at.Reply]; {
	case at.Reply != 0 && e.Code == 0:
		u.Status, u.Result = UpdateCompleted, e.Input
	case at.Reply != 0:
		*u = failedUpdate(*u, e.Input)
	case j.Ended() != store.KindInvalid:
		text := fmt.Sprintf("the run %s before it had answered the update", endWords[j.Ended()])
		b, err := json.Marshal(abi.Error{Code: abi.Conflict, Kind: j.Ended().String(), Message: text})
		if err != nil {
			return known, err
		}
		*u = failedUpdate(*u, b)
	default:
		u.Status = UpdateAccepted
	}
	return known, nil
}

// endWords says how a run has ended, in words.
var endWords = map[store.Kind]string{store.KindCompleted: "completed", store.KindFailed: "failed",
	store.KindCancelled: "was cancelled", store.KindTerminated: "was terminated", store.KindContinued: "continued as new"}

// failedUpdate returns an update that failed as error JSON says, or was refused so.
func failedUpdate(u Update, b []byte) Update {
	u.Status, u.JSON = UpdateFailed, b
	var f abi.Error
	if json.Unmarshal(b, &f) == nil {
		u.Failure = &f
	}
	return u
}
