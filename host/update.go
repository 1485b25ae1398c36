package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/guest"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// UpdateStatus is the status of an update.
type UpdateStatus string

// The statuses of updates. A refused update has none: it is not recorded.
const (
	UpdateAccepted  UpdateStatus = "accepted" // durable; the workflow has not answered yet
	UpdateCompleted UpdateStatus = "completed"
	UpdateFailed    UpdateStatus = "failed" // by the workflow, or because the run ended before it answered
)

// Update is an update that a run has accepted.
type Update struct {
	Run    string       `json:"run"`
	Name   string       `json:"name"`
	ID     string       `json:"id"` // identifies the update in UpdateResult
	Status UpdateStatus `json:"status"`
	// Result is the answer of a completed update: JSON, unless the workflow has another codec.
	Result []byte `json:"-"`
	// Failure is the error of a failed update, and JSON the same as it was recorded.
	Failure *abi.Error `json:"-"`
	JSON    []byte     `json:"-"`
}

// UpdateError says that a workflow has refused an update, or that an accepted one has failed.
type UpdateError struct {
	Update Update
	// Refused says that nothing was recorded: the workflow does not take the update in its current state.
	Refused bool
	Cause   error // why the workflow could not be asked; nil if it has answered
}

// Error names the update and quotes the answer of the workflow, or the cause.
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

// updating is an update in the process of being accepted.
type updating struct {
	Update
	key    store.RunKey
	signal run.Signal
	early  bool
}

// WithUpdateID sets the id of an update, by which a repeated update is recognized. The same name, id and input are
// the same update, and get its answer. The same name and id with another input are ErrConflict. A run remembers its
// newest 10,000 ids, including those of signals. Default: a random id, found in Update.ID.
func WithUpdateID(id string) UpdateOption { return func(u *updating) { u.ID = id } }

// UntilAccepted makes Update return when the update is accepted, without waiting for the answer.
func UntilAccepted() UpdateOption { return func(u *updating) { u.early = true } }

// updateTries is how often a workflow is asked whether it accepts an update, if the run advances during each
// question. Each question is a replay. A run that commits that often meanwhile is busy for some time.
const updateTries = 20

// Update asks a run to do something and returns its answer. The input is encoded as JSON (json.RawMessage and nil are
// taken as they are).
//
// First the host asks the workflow whether it accepts the update where it waits now; this is not recorded. If the
// workflow refuses, or has no handler of that name, the error is an *UpdateError with Refused. If the input does not
// fit the workflow's schema, it is a *SchemaError. An accepted update is durable. The workflow performs it in its own
// code, and its answer is durable when Update returns it. An error of the workflow is an *UpdateError, too, and the
// same one for each repetition.
//
// If ctx ends before the answer, the error is that of ctx. The Update has its ID in each case. Its Status is
// UpdateAccepted if it is known to be accepted, and empty if that is unknown. Update with the same ID settles that,
// and UpdateResult waits again, in another process as well. ErrTerminal if the run ended before it accepted the
// update. A run that ends, or continues as new, while it performs an update fails the update. ErrBusy if the run has
// too many unanswered updates, has not begun, or does not come to rest within ten seconds. ErrNotFound if the run
// does not exist, or its workflow lists its updates without this one.
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
	u.signal = run.Signal{Name: abi.UpdatePrefix + name, Data: bytes.Clone(data), IdempotencyKey: u.ID}
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

// UpdateResult returns an accepted update, by its name and id. If wait is true, it waits for the answer until ctx
// ends. An error of the workflow is an *UpdateError, as in Update. ErrNotFound if the run has not accepted such an
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

// accept makes a run accept an update, unless the run has accepted the same update before.
func (s *nsRef) accept(ctx context.Context, u *updating) error {
	for range updateTries {
		known, err := s.knownUpdate(ctx, u)
		if err != nil || known {
			return err
		}
		_, asked, err := s.ask(ctx, u.key, u.signal.Name, u.signal.Data)
		if q, ok := errors.AsType[*QueryError](err); ok {
			if errors.Is(q.Cause, guest.ErrOnItsWay) || errors.Is(q.Cause, guest.ErrNotBegun) {
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

// mayAccept returns an error if the run has advanced since its workflow was asked, or has no room for another update.
func mayAccept(j *journal.Journal, asked *store.RunState) error {
	if j.Started().Iteration != asked.Iteration || store.Seq(j.Len()) != asked.Length {
		return run.ErrMoved
	}
	if n := j.PendingUpdates(); n >= abi.MaxPendingUpdates {
		return abi.Errorf(abi.Limit, "the run has %d updates that it has not answered, the limit is %d", n, abi.MaxPendingUpdates)
	}
	return nil
}

// knownUpdate reports whether a run has accepted an update before. It returns an error if the run cannot accept it
// whatever the workflow says: the run has ended, the input does not fit the schema, the workflow does not list the
// update, or the id came with another input before.
func (s *nsRef) knownUpdate(ctx context.Context, u *updating) (known bool, err error) {
	var seen struct { // separate, because the writer continues to fill it in if ctx ends
		st           store.RunState
		known, ended bool
	}
	signal := u.signal
	err = s.h.rt.Runs.Look(ctx, u.key, func(r *run.Run) (err error) {
		seen.st, seen.ended = r.State(), r.Journal().Ended() != store.KindInvalid
		seen.known, err = r.Journal().CheckSignal(signal.Name, signal.IdempotencyKey, signal.Data)
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

// updated returns the state of an accepted update. If wait is set, it waits for the answer.
func (s *nsRef) updated(ctx context.Context, key store.RunKey, u Update, wait bool) (Update, error) {
	changed, stop := s.h.rt.Watchers.Watch(key)
	defer stop()
	for {
		now := struct { // separate, because the writer continues to fill it in if ctx ends
			Update
			known journal.Key
			aside bool
		}{Update: u}
		err := s.h.rt.Runs.Look(ctx, key, func(r *run.Run) (err error) {
			now.known, err = now.read(r.Journal())
			now.aside = r.State().Aside != store.NotAside
			return err
		})
		if err == nil && now.Status == "" { // accepted by an earlier iteration
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

// earlier reads the outcome of an update from the journal of a past iteration.
func (s *nsRef) earlier(ctx context.Context, key store.RunKey, iteration uint32, u *Update) error {
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

// read sets the status and answer of the update from a journal. If an earlier iteration accepted the update and this
// one did not, the status stays empty, and known names that iteration.
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

// endWords describes how a run has ended.
var endWords = map[store.Kind]string{store.KindCompleted: "completed", store.KindFailed: "failed",
	store.KindCancelled: "was cancelled", store.KindTerminated: "was terminated", store.KindContinued: "continued as new"}

// failedUpdate returns an update that failed, or was refused, with the error in b.
func failedUpdate(u Update, b []byte) Update {
	u.Status, u.JSON = UpdateFailed, b
	var f abi.Error
	if json.Unmarshal(b, &f) == nil {
		u.Failure = &f
	}
	return u
}
