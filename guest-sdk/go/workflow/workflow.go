package workflow

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"
)

// workflowFunc and stepFunc are registered functions with their types erased.
type (
	workflowFunc func(ctx context.Context, input []byte) ([]byte, error)
	stepFunc     func(s Step, input []byte) ([]byte, error)
)

// registry holds what the init functions of the program registered, in that order.
type registry struct {
	workflows map[string]workflowFunc
	steps     map[string]stepFunc
	stepCode  map[string]any      // the functions that were registered
	queries   map[string][]string // by workflow
	signals   map[string][]string // by workflow
	names     []string
	stepNames []string
	schemas   map[string]*schemas // by workflow
}

// schemas are what the schemas of a workflow are made of when it is described.
type schemas struct {
	in, out     reflect.Type
	input       string // in place of that of in
	result      string
	signals     map[string]reflect.Type
	signalTexts map[string]string // in place of these
	updates     []string
	updateTypes map[string]reflect.Type
	updateTexts map[string]string // in place of these
}

var registered = registry{workflows: map[string]workflowFunc{}, steps: map[string]stepFunc{}, stepCode: map[string]any{},
	queries: map[string][]string{}, signals: map[string][]string{}, schemas: map[string]*schemas{}}

// Register makes a function a workflow of this module, under a name. Call it in an init function. It panics if the
// name is registered twice, which the upload shows.
//
// The module's description has JSON Schemas of In and Out, as encoding/json reads and writes them, and as the tags
// jsonschema and jsonschema_description of their fields say: required, title, description, format, pattern, minimum,
// maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, minLength, maxLength, minItems, maxItems, uniqueItems,
// minProperties, maxProperties, enum, example and default, separated by commas (`jsonschema:"required,minimum=1"`). A
// start whose input does not fit is refused. InputSchema and ResultSchema set other schemas.
func Register[In, Out any](name string, fn func(ctx context.Context, in In) (Out, error), opts ...RegisterOption) {
	if registered.workflows[name] != nil {
		panic(fmt.Sprintf("workflow %q is registered twice", name))
	}
	registered.names = append(registered.names, name)
	registered.workflows[name] = erase(fn)
	noteName(name, fn)
	registered.schemas[name] = &schemas{in: reflect.TypeFor[In](), out: reflect.TypeFor[Out](), signals: map[string]reflect.Type{},
		signalTexts: map[string]string{}, updateTypes: map[string]reflect.Type{}, updateTexts: map[string]string{}}
	warm[In, Out]()
	for _, o := range opts {
		o(name)
	}
}

// RegisterOption is an option of Register.
type RegisterOption func(workflow string)

// Queries lists the queries that the workflow offers with Query, for the module's description. The host then refuses
// other queries without asking the workflow.
func Queries(names ...string) RegisterOption {
	return func(workflow string) { registered.queries[workflow] = append(registered.queries[workflow], names...) }
}

// Signals lists the signals that the workflow receives, for the module's description. The host then refuses signals
// over HTTP and from the command line that have another name, or a payload that is not JSON, with 422. It does not
// check signals from other workflows and from Go programs.
func Signals(names ...string) RegisterOption {
	return func(workflow string) {
		for _, name := range names {
			if !slices.Contains(registered.signals[workflow], name) { // SignalOf may list it, too
				registered.signals[workflow] = append(registered.signals[workflow], name)
			}
		}
	}
}

// SignalOf lists a signal, as Signals does, whose payload is a T. The module's description has a JSON Schema of T, made as
// Register makes that of the input. A signal from outside whose payload does not fit is refused; signals of other workflows
// are not checked.
func SignalOf[T any](name string) RegisterOption {
	return func(workflow string) {
		Signals(name)(workflow)
		registered.schemas[workflow].signals[name] = reflect.TypeFor[T]()
	}
}

// SignalSchema lists a signal with the JSON Schema (draft 2020-12) of its payload, as text, in place of a type.
func SignalSchema(name, text string) RegisterOption {
	return func(workflow string) {
		Signals(name)(workflow)
		registered.schemas[workflow].signalTexts[name] = text
	}
}

// InputSchema sets the JSON Schema (draft 2020-12) of the input, as text, in place of the one that Register makes of
// its type. The schema "true" takes anything. If the text is not a schema, the upload is refused.
func InputSchema(text string) RegisterOption {
	return func(workflow string) { registered.schemas[workflow].input = text }
}

// ResultSchema sets the JSON Schema of the result, as InputSchema sets that of the input. It documents: results are not
// checked.
func ResultSchema(text string) RegisterOption {
	return func(workflow string) { registered.schemas[workflow].result = text }
}

func erase[In, Out any](fn func(ctx context.Context, in In) (Out, error)) workflowFunc {
	return func(ctx context.Context, input []byte) ([]byte, error) {
		var in In
		if err := decode(input, &in); err != nil {
			return nil, fmt.Errorf("input: %w", err)
		}
		out, err := fn(ctx, in)
		if err != nil {
			return nil, err
		}
		return encode(out)
	}
}

// RegisterStep makes a function a step function of this module. Call runs it in an instance of its own, with the real
// clock and real random numbers: what it changes in memory is lost. Call RegisterStep in an init function.
func RegisterStep[In, Out any](name string, fn func(s Step, in In) (Out, error)) {
	if registered.steps[name] != nil {
		panic(fmt.Sprintf("step function %q is registered twice", name))
	}
	registered.stepNames, registered.stepCode[name] = append(registered.stepNames, name), fn
	registered.steps[name] = func(s Step, input []byte) ([]byte, error) {
		var in In
		if err := decode(input, &in); err != nil {
			return nil, Fatal(fmt.Errorf("input of step function %q: %w", name, err))
		}
		out, err := fn(s, in)
		if err != nil {
			return nil, err
		}
		return encodeResult("step function", name, out)
	}
	warm[In, Out]()
}

// Step is passed to a body or step function: a context, and the step for which the function runs.
type Step struct {
	context.Context
	Name     string
	Attempt  int // from 1
	Attempts int // at most; 0 = no limit
	// IdempotencyKey is the same over all attempts, and differs between steps and runs. Hand it to whatever the
	// step changes, so that a repeated attempt is recognized.
	IdempotencyKey string
	LastError      string // message of the failure of the attempt before
}

// Do runs fn as a step, at least once, and returns its recorded result; on a replay it returns the result without
// running fn. The name is unique in an iteration of the run. fn works on a copy of the workflow: it may read
// everything, and what it changes is lost. If fn returns an error, the options say when it is retried; Fatal and
// RetryAfter control that. When the attempts are used up, Do returns a *StepError.
func Do[T any](ctx context.Context, name string, fn func(s Step) (T, error), opts ...Option) (v T, err error) {
	if err := checkBody(ctx, name, fn); err != nil {
		return v, err
	}
	b, err := doBody(ctx, name, options(ctx, opts), func(s Step) ([]byte, error) {
		v, err := fn(s)
		if err != nil {
			return nil, err
		}
		return encodeResult("step", name, v)
	})
	if err != nil {
		return v, err
	}
	succeeded(name)
	if err := decode(b, &v); err != nil {
		return v, fmt.Errorf("result of step %q: %w", name, err)
	}
	return v, nil
}

// Call has a handler perform a step and returns the recorded result. The handler is a step function of this module,
// by its name, or a handler of the host, by "host/" and its name. Retries and errors are as for Do.
func Call[T any](ctx context.Context, name, handler string, in any, opts ...Option) (v T, err error) {
	input, err := encode(in)
	if err != nil {
		return v, fmt.Errorf("input of step %q: %w", name, err)
	}
	b, err := doCall(ctx, name, handler, input, options(ctx, opts))
	if err != nil {
		return v, err
	}
	succeeded(name)
	if err := decode(b, &v); err != nil {
		return v, fmt.Errorf("result of step %q: %w", name, err)
	}
	return v, nil
}

// Sleep sleeps durably. Operators see the name, and can end the sleep by it; it is unique in an iteration of the run.
// Fractions of a millisecond are rounded up. A negative duration is ErrInvalidDuration, however short it is.
func Sleep(ctx context.Context, name string, d time.Duration) error {
	return sleepMs(ctx, name, millis(d))
}

// SleepUntil sleeps until an instant. It returns at once if the instant has passed.
func SleepUntil(ctx context.Context, name string, t time.Time) error {
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		ms++
	}
	return sleepUntilMs(ctx, name, ms)
}

// SleepText sleeps for a duration in text ("1h30m", "7d", "PT5M"), or until an instant of RFC 3339.
func SleepText(ctx context.Context, name, text string) error { return sleepText(ctx, name, text) }

// Rand returns a source of random numbers of this run: the same numbers on each replay, others in other runs. The
// global functions of math/rand and math/rand/v2 are replayed as well, but return the same numbers in all runs of a
// module; in bodies and step functions they differ from run to run, and from attempt to attempt.
func Rand(ctx context.Context) *rand.Rand {
	var seed [16]byte
	random(ctx, seed[:])
	return rand.New(rand.NewPCG(binary.LittleEndian.Uint64(seed[:]), binary.LittleEndian.Uint64(seed[8:])))
}

// RunInfo describes the run to its workflow.
type RunInfo struct {
	RunID     string
	Workflow  string
	Version   uint32
	Module    string // SHA-256
	StartedAt time.Time
	Iteration uint32
	Position  uint64 // of the workflow in its journal
	// SuggestContinue says that the journal has become long: a good time for ContinueAsNew.
	SuggestContinue bool
	// Schedule is the id of the schedule that started the run, or the run that this one repeats, and Nominal the
	// instant for which it did; empty and zero if none did.
	Schedule string
	Nominal  time.Time
	// Attributes are those with which the run, or its iteration, was started and what the workflow has set up to here;
	// empty in step functions of a module. A query may read them, too.
	Attributes map[string]string
	// Memo is the JSON with which the run was started for people to see; nil if there is none.
	Memo json.RawMessage
}

// Info returns what the workflow may know about its run.
func Info(ctx context.Context) RunInfo {
	i := readInfo(ctx)
	info := RunInfo{RunID: i.RunID, Workflow: i.Workflow, Version: i.Version, Module: i.Module,
		StartedAt: time.UnixMilli(i.StartedAt), Iteration: i.Iteration, Position: i.Position,
		SuggestContinue: i.SuggestContinue, Schedule: i.Schedule,
		Attributes: i.Attributes, Memo: i.Memo}
	if i.Schedule != "" {
		info.Nominal = time.UnixMilli(i.Nominal)
	}
	return info
}

// Log returns a logger whose lines the host keeps with the run. A line that was stored is not stored again on a
// replay.
func Log(ctx context.Context) *slog.Logger { return slog.New(&logHandler{ctx: ctx}) }

// logHandler hands records to the host as text: the message, then key=value.
type logHandler struct {
	ctx   context.Context
	attrs string
	group string
}

func (h *logHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	line := r.Message + h.attrs
	r.Attrs(func(a slog.Attr) bool {
		line += " " + h.group + a.String()
		return true
	})
	level := int32(1)
	switch {
	case r.Level < slog.LevelInfo:
		level = 0
	case r.Level >= slog.LevelError:
		level = 3
	case r.Level >= slog.LevelWarn:
		level = 2
	}
	logLine(h.ctx, level, line)
	return nil
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	n := *h
	for _, a := range attrs {
		n.attrs += " " + h.group + a.String()
	}
	return &n
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	n := *h
	n.group += name + "."
	return &n
}
