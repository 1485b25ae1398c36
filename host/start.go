package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/budget"
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
	nominalMs  int64  // the instant for which it does
	priority   int
	err        error
}

// WithRunID names the run: 1 to 128 of A-Z a-z 0-9 . _ : ~ -. A second start with the same id, workflow and input
// returns the existing run, whatever its version is by now; with others it is ErrConflict. Two inputs that are
// JSON are the same if they differ in white space and in the order of the members of objects. Default: a UUIDv7.
func WithRunID(id string) StartOption { return func(s *start) { s.id = id } }

// WithVersion starts a version other than the latest.
func WithVersion(number uint32) StartOption { return func(s *start) { s.version = number } }

// WithStartAt starts the run's first activation at an instant; one that has passed is now.
func WithStartAt(t time.Time) StartOption { return func(s *start) { s.at = t } }

// WithStartIn is WithStartAt with the time from now, by the host's clock, rounded up to milliseconds.
func WithStartIn(d time.Duration) StartOption { return func(s *start) { s.inMs = abi.Milliseconds(d) } }

// WithStartInText is WithStartIn with duration text, such as "1h30m" or "400000d", which may be longer than what a
// time.Duration holds, 292 years. Text that is no duration is ErrInvalid.
func WithStartInText(text string) StartOption {
	return func(s *start) { s.inMs = s.parse("start in", text, abi.ParseDuration) }
}

// WithTimeout bounds the run, from its start or the instant of WithStartAt: a run that takes a cancel gets one then, and
// a minute to end; after that, and others at once, it fails with the kind "timeout". 0 is no bound. It is rounded up to
// milliseconds; a negative one is ErrInvalid.
func WithTimeout(d time.Duration) StartOption {
	return func(s *start) {
		s.timeoutMs = abi.Milliseconds(d)
		if d < 0 {
			s.err = errors.Join(s.err, &joined{fmt.Errorf("timeout must not be negative, got %v", d), ErrInvalid})
		}
	}
}

// WithTimeoutText is WithTimeout with duration text, as WithStartInText takes it. What rounds to nothing, such as
// "0.1ms", is a millisecond.
func WithTimeoutText(text string) StartOption {
	return func(s *start) { s.timeoutMs = s.parse("timeout", text, abi.ParseTimeout) }
}

// parse reads duration text. What is wrong with it is the error of the start.
func (s *start) parse(what, text string, read func(string) (int64, error)) int64 {
	ms, err := read(text)
	if err != nil {
		s.err = errors.Join(s.err, &joined{fmt.Errorf("%s: %w", what, err), ErrInvalid})
	}
	return ms
}

// atUnixMs returns the instant before which the run does not begin, 0 for at once.
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
	case s.at.Before(abi.TimeOf(abi.MinUnixMs)): // whose number of milliseconds may not fit
		return abi.MinUnixMs, nil
	}
	return s.at.UnixMilli(), nil
}

// WithAttributes sets searchable attributes of the run: at most 64, with values of at most 1,024 bytes of text.
func WithAttributes(attributes map[string]string) StartOption {
	return func(s *start) { s.attributes = attributes }
}

// WithMemo sets the run's memo: what people see beside the run in each list, such as who ordered it. It is encoded as
// JSON, of at most 2,048 bytes without white space; nil means none. It stays the same for as long as the run is there, over
// restarts and continue-as-new, and no list selects by it. ErrInvalid if it is no JSON, ErrLimit if it is longer.
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

// WithTraceParent has the run belong to a trace: header is what the caller's span says of itself in the header
// traceparent of W3C Trace Context. The run's trace is the caller's then, after a restart of the host, over
// continue-as-new and in its children, too, and requests of its steps say so. What is no such header is ignored, as the
// standard demands. A start that answers a run which is there changes nothing. Default: a trace of its own.
func WithTraceParent(header string) StartOption {
	return func(s *start) { s.trace = traceid.Normal(header) }
}

// WithSignal sends the run a first signal in the same commit as its start. Where a run of the id is there already
// and the start answers that one, the signal goes to it: ErrTerminal if it has ended, unless it has taken this very signal
// before. The payload is encoded as JSON, as that of Signal.
func WithSignal(name string, payload any, opts ...SignalOption) StartOption {
	return func(s *start) {
		n, err := newSignal(name, payload, opts)
		s.signal, s.err = &n, errors.Join(s.err, err)
	}
}

// ConflictPolicy says what a start does if a run has its id already: ConflictExisting, ConflictFail,
// ConflictTerminate or ConflictReplace.
type ConflictPolicy = run.ConflictPolicy

// The policies.
const (
	ConflictExisting  = run.ConflictExisting  // the same workflow and input give that run, others are ErrConflict; the default
	ConflictFail      = run.ConflictFail      // ErrConflict
	ConflictTerminate = run.ConflictTerminate // that run is terminated, and its records are replaced
	ConflictReplace   = run.ConflictReplace   // its records are replaced if it has ended, else ErrConflict
)

// OnConflict says what the start does when there is a run of its id.
func OnConflict(p ConflictPolicy) StartOption { return func(s *start) { s.conflict = p } }

// checkAttributes returns what is wrong with the attributes.
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

// Start starts a run of a workflow with an input, which is encoded as JSON; a json.RawMessage or nil is taken as
// it is. The run is durable on return. ErrDiskFull if the disk has no room for new work.
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
	began := budget.Clock.Now()
	r, err := s.begin(ctx, workflow, input, &o)
	if o.schedule == "" { // a schedule asks again at a pace of its own, and others wait for it
		err = s.slowly(ctx, began, err)
	}
	return r, err
}

// begin starts a run as its options say.
func (s *scope) begin(ctx context.Context, workflow string, input []byte, o *start) (Run, error) {
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
		o.id = newRunID(s.h.cfg.Clock.Now())
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

// startOf starts the run of a start.
func (s *scope) startOf(ctx context.Context, key store.RunKey, workflow string, input []byte, o *start, at int64) (Run, error) {
	for {
		r, err := s.startOnce(ctx, key, workflow, input, o, at)
		if !errors.Is(err, errStartAgain) {
			return r, err
		}
	}
}

// errStartAgain is of a start whose version, or the run that it answers, is another one, or deleted, by now.
var errStartAgain = errors.New("start again")

// startOnce chooses a version, checks the input against its schema, and starts the run. Versions are not held while it
// checks, as that may take long, and who deletes one waits.
func (s *scope) startOnce(ctx context.Context, key store.RunKey, workflow string, input []byte, o *start, at int64) (Run, error) {
	if err := ctx.Err(); err != nil {
		return Run{}, err
	}
	n := run.NewRun{Key: key, Workflow: workflow, Input: bytes.Clone(input), InputDigest: run.InputDigest(input),
		Attributes: o.attributes, Memo: o.memo, TraceParent: o.trace, Signal: o.signal, Conflict: o.conflict, AtUnixMs: at,
		TimeoutMs: o.timeoutMs, Schedule: o.schedule, NominalMs: o.nominalMs, Priority: o.priority}
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
	if o.version == 0 && !n.Existing { // the latest one
		asked = 0
	}
	free := s.h.rt.Versions.Hold()
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

// versionOf chooses the version of a start: that of the existing run if the start is of the same workflow,
// whatever the latest version is by now. It sets n.Existing where such a run decides: it is answered, or is in conflict
// with the start, and was checked when it started.
func (s *scope) versionOf(ctx context.Context, n *run.NewRun, o *start) (store.Version, error) {
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
	if n.Existing && number != 0 && errors.Is(err, store.ErrNotFound) { // versions of runs stay: the run was deleted, and it
		return v, errStartAgain
	}
	return v, translate(err)
}
