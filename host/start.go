package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/traceid"
	"github.com/wfhost/wfhost/store"
)

// StartOption is an option of Start.
type StartOption func(*start)

type start struct {
	id         string
	named      bool // by the caller
	version    uint32
	at         time.Time
	inMs       int64
	timeoutMs  int64
	attributes map[string]string
	memo       []byte
	trace      string // header traceparent
	signal     *run.Signal
	conflict   ConflictPolicy
	schedule   string // id of the schedule that starts the run
	nominalMs  int64  // the instant that the run is started for
	priority   int
	// incarnation is that of the new run. Zero = random.
	incarnation store.Incarnation
	err         error
}

// WithRunID names the run: 1 to 128 of A-Z a-z 0-9 . _ : ~ -. A second start with the same id, workflow and input
// returns the existing run, whatever its version is by now. With another workflow or input it is ErrConflict. Two
// inputs that are JSON are the same if they differ only in white space and in the order of the members of objects.
// Default: a UUIDv7.
func WithRunID(id string) StartOption { return func(s *start) { s.id = id } }

// WithVersion starts a version other than the latest.
func WithVersion(number uint32) StartOption { return func(s *start) { s.version = number } }

// WithStartAt delays the run's first activation until an instant. An instant in the past means now.
func WithStartAt(t time.Time) StartOption { return func(s *start) { s.at = t } }

// WithStartIn delays the run's first activation by d, by the host's clock. d is rounded up to milliseconds.
func WithStartIn(d time.Duration) StartOption { return func(s *start) { s.inMs = abi.Milliseconds(d) } }

// WithStartInText is WithStartIn with duration text, such as "1h30m" or "400000d". It may be longer than 292 years,
// the maximum of a time.Duration. Malformed text is ErrInvalid.
func WithStartInText(text string) StartOption {
	return func(s *start) { s.inMs = s.parse("start in", text, abi.ParseDuration) }
}

// WithTimeout bounds the duration of the run, counted from its start or the instant of WithStartAt. At the deadline,
// a run that takes a cancel is cancelled and has a minute to end; after that minute it fails with the kind "timeout".
// Other runs fail with that kind at the deadline. 0 means no bound. The timeout is rounded up to milliseconds. A
// negative timeout is ErrInvalid.
func WithTimeout(d time.Duration) StartOption {
	return func(s *start) {
		s.timeoutMs = abi.Milliseconds(d)
		if d < 0 {
			s.err = errors.Join(s.err, &joined{fmt.Errorf("timeout must not be negative, got %v", d), ErrInvalid})
		}
	}
}

// WithTimeoutText is WithTimeout with duration text, as in WithStartInText. A positive duration that would round to
// zero, such as "0.1ms", becomes one millisecond.
func WithTimeoutText(text string) StartOption {
	return func(s *start) { s.timeoutMs = s.parse("timeout", text, abi.ParseTimeout) }
}

// parse reads duration text. A parse error becomes the error of the start.
func (s *start) parse(what, text string, read func(string) (int64, error)) int64 {
	ms, err := read(text)
	if err != nil {
		s.err = errors.Join(s.err, &joined{fmt.Errorf("%s: %w", what, err), ErrInvalid})
	}
	return ms
}

// atUnixMs returns the earliest instant at which the run may begin, or 0 if it may begin at once.
func (s *start) atUnixMs(now time.Time) (int64, error) {
	switch {
	case s.inMs > 0:
		ms, err := abi.AddMs(now.UnixMilli(), s.inMs)
		if err != nil {
			return 0, translate(fmt.Errorf("start in %s: %w", abi.FormatDuration(s.inMs), err))
		}
		return ms, nil
	case s.inMs < 0, s.at.IsZero():
		return 0, nil
	case s.at.After(abi.TimeOf(abi.MaxUnixMs)):
		return 0, translate(abi.Errorf(abi.InvalidArgument, "start at %v: the last instant is %v", s.at,
			abi.TimeOf(abi.MaxUnixMs)))
	case s.at.Before(abi.TimeOf(abi.MinUnixMs)): // its number of milliseconds may overflow
		return abi.MinUnixMs, nil
	}
	return s.at.UnixMilli(), nil
}

// WithAttributes sets searchable attributes of the run: at most 64, with values of at most 1,024 bytes of text.
func WithAttributes(attributes map[string]string) StartOption {
	return func(s *start) { s.attributes = attributes }
}

// WithMemo sets the run's memo: a value that lists show beside the run, such as who ordered it. It is encoded as
// JSON, of at most 2,048 bytes without white space; nil means no memo. It stays the same for the life of the run,
// over restarts and continue-as-new. Lists cannot filter by it. ErrInvalid if it cannot be encoded as JSON, ErrLimit
// if it is longer.
func WithMemo(memo any) StartOption {
	return func(s *start) {
		s.memo = nil
		if memo == nil {
			return
		}
		b, err := json.Marshal(memo)
		if err != nil {
			err = &joined{fmt.Errorf("memo: %w", err), ErrInvalid}
		} else if s.memo, err = abi.CheckMemo(b); err != nil {
			err = translate(err)
		}
		s.err = errors.Join(s.err, err)
	}
}

// WithTraceParent makes the run part of the caller's trace. header is the caller's header traceparent of W3C Trace
// Context. The trace also covers restarts of the host, continue-as-new and children of the run, and the requests of
// its steps carry it. A malformed header is ignored, as the standard demands. A start that returns an existing run
// leaves the trace of that run as it is. Default: each run has a trace of its own.
func WithTraceParent(header string) StartOption {
	return func(s *start) { s.trace = traceid.Normal(header) }
}

// WithSignal sends the run a first signal in the same commit as its start. If the start returns an existing run, the
// signal goes to that run: ErrTerminal if it has ended, unless it has accepted this signal before. The payload is
// encoded as JSON, as in Signal.
func WithSignal(name string, payload any, opts ...SignalOption) StartOption {
	return func(s *start) {
		n, err := newSignal(name, payload, opts)
		s.signal, s.err = &n, errors.Join(s.err, err)
	}
}

// ConflictPolicy says what a start does if its run id is taken: ConflictExisting, ConflictFail, ConflictTerminate or
// ConflictReplace.
type ConflictPolicy = run.ConflictPolicy

// The policies.
const (
	ConflictExisting  = run.ConflictExisting  // the default: returns the run if workflow and input are the same, else ErrConflict
	ConflictFail      = run.ConflictFail      // ErrConflict
	ConflictTerminate = run.ConflictTerminate // terminates that run and replaces its records
	ConflictReplace   = run.ConflictReplace   // replaces the records of that run if it has ended, else ErrConflict
)

// OnConflict sets what the start does if its run id is taken.
func OnConflict(p ConflictPolicy) StartOption { return func(s *start) { s.conflict = p } }

// checkAttributes returns an error if there are too many attributes, or one of them is invalid.
func (o *start) checkAttributes() error {
	if len(o.attributes) > abi.MaxAttributes {
		return abi.Errorf(abi.Limit, "%d attributes, the limit is %d", len(o.attributes), abi.MaxAttributes)
	}
	for k, v := range o.attributes {
		if err := abi.CheckAttribute(k, v); err != nil {
			return err
		}
	}
	return nil
}

// Start starts a run of a workflow. The input is encoded as JSON; a json.RawMessage or nil is taken as it is. The run
// is durable on return. ErrDiskFull if the disk has no room for new work.
func (s *scope) Start(ctx context.Context, workflow string, input any, opts ...StartOption) (Run, error) {
	b, err := encoded(fmt.Sprintf("the input of workflow %q", workflow), input)
	if err != nil {
		return Run{}, err
	}
	return s.StartRaw(ctx, workflow, b, opts...)
}

// StartRaw is Start with an input of any bytes.
func (s *scope) StartRaw(ctx context.Context, workflow string, input []byte, opts ...StartOption) (Run, error) {
	var o start
	for _, opt := range opts {
		opt(&o)
	}
	began := clock.System().Now()
	r, err := s.begin(ctx, workflow, input, &o)
	if o.schedule == "" { // schedules retry at their own pace, and a delay here would delay other work
		err = s.slowly(ctx, began, err)
	}
	return r, err
}

// begin checks the options and starts the run, within the start window of its workflow if there is one.
func (s *nsRef) begin(ctx context.Context, workflow string, input []byte, o *start) (Run, error) {
	if o.err != nil {
		return Run{}, o.err
	}
	if err := o.checkAttributes(); err != nil {
		return Run{}, translate(err)
	}
	at, err := o.atUnixMs(s.h.cfg.Clock.Now())
	if err != nil {
		return Run{}, err
	}
	if len(input) > abi.MaxPayloadBytes {
		return Run{}, translate(abi.Errorf(abi.TooLarge, "the input has %d bytes, the limit is %d", len(input),
			abi.MaxPayloadBytes))
	}
	if err := abi.CheckWorkflow(workflow); err != nil {
		return Run{}, translate(err)
	}
	brought := len(input)
	if o.signal != nil {
		brought += len(o.signal.Data)
	}
	if err := s.h.roomOnDisk(brought); err != nil {
		return Run{}, err
	}
	o.named = o.id != ""
	if !o.named {
		o.id, err = s.ownRunID(ctx)
		if err != nil {
			return Run{}, err
		}
	} else if err := abi.CheckRunID(o.id); err != nil {
		return Run{}, translate(err)
	}
	key, err := s.key(ctx, o.id)
	if err != nil {
		return Run{}, translate(err)
	}
	if r, is, err := s.startWithin(ctx, key, workflow, input, o, at); is {
		return r, err
	}
	return s.startOf(ctx, key, workflow, input, o, at)
}

// startOf starts a run and retries while startOnce returns errStartAgain.
func (s *nsRef) startOf(ctx context.Context, key store.RunKey, workflow string, input []byte, o *start, at int64) (Run, error) {
	for {
		r, err := s.startOnce(ctx, key, workflow, input, o, at)
		if !errors.Is(err, errStartAgain) {
			return r, err
		}
	}
}

// errStartAgain: the chosen version, or the existing run that was to be returned, was replaced or deleted meanwhile.
var errStartAgain = errors.New("start again")

// startOnce chooses a version, checks the input against its schema, and starts the run. It does not hold versions
// during the check: the check may take long, and a caller that deletes a version would wait for it.
func (s *nsRef) startOnce(ctx context.Context, key store.RunKey, workflow string, input []byte, o *start, at int64) (Run, error) {
	if err := ctx.Err(); err != nil {
		return Run{}, err
	}
	n := run.NewRun{Key: key, Workflow: workflow, Input: bytes.Clone(input), InputDigest: run.InputDigest(input),
		Attributes: o.attributes, Memo: o.memo, TraceParent: o.trace, Signal: o.signal, Conflict: o.conflict, AtUnixMs: at,
		TimeoutMs: o.timeoutMs, Schedule: o.schedule, NominalMs: o.nominalMs, Priority: o.priority, Incarnation: o.incarnation}
	v, err := s.versionOf(ctx, &n, o)
	if err != nil {
		return Run{}, err
	}
	if err := s.fitting(ctx, &n, v.Module, o); err != nil {
		return Run{}, err
	}
	n.Version, n.Module = v.Number, v.Module
	if !o.named {
		n.ID = store.IDDrawn
	}
	asked := v.Number
	if o.version == 0 && !n.Existing { // the latest version
		asked = 0
	}
	free := s.h.rt.Versions.LockDeletions()
	now, err := s.h.store.Modules().Version(ctx, key.Namespace, workflow, asked)
	if err != nil || now.Number != v.Number || now.Module != v.Module {
		free()
		if err == nil || errors.Is(err, store.ErrNotFound) {
			err = errStartAgain
		}
		return Run{}, translate(err)
	}
	leave, err := s.h.admitStart(ctx, key, o.conflict)
	if err != nil {
		free()
		return Run{}, err
	}
	st, created, err := s.h.rt.Runs.Start(ctx, n, func() { free(); leave() })
	if errors.Is(err, run.ErrNoRun) {
		return Run{}, errStartAgain
	}
	if err != nil {
		return Run{}, translate(err)
	}
	r := s.h.runOf(st)
	r.Existed = !created
	return r, nil
}

// versionOf chooses the version of a start. Under ConflictExisting, if a run of the same workflow has the id, it is
// the version of that run, whatever the latest version is by now. versionOf then sets n.Existing, also if the run is
// of another workflow: that run is returned or conflicts with the start, and its input was checked when it started.
func (s *nsRef) versionOf(ctx context.Context, n *run.NewRun, o *start) (store.Version, error) {
	number := o.version
	if o.named && o.conflict == ConflictExisting {
		st, err := s.h.rt.Runs.State(ctx, n.Key)
		n.Existing = err == nil
		switch {
		case n.Existing && st.Workflow == n.Workflow:
			number = st.Version
		case n.Existing:
			number = 0
		}
	}
	v, err := s.h.store.Modules().Version(ctx, n.Key.Namespace, n.Workflow, number)
	if n.Existing && number != 0 && errors.Is(err, store.ErrNotFound) { // versions that runs use are kept, so the run was deleted
		return v, errStartAgain
	}
	return v, translate(err)
}
