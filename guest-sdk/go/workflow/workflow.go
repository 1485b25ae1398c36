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

// registry holds the workflows and step functions that the program's init functions registered. The two lists of names
// are in the order of registration.
type registry struct {
	workflows map[string]workflowFunc
	steps     map[string]stepFunc
	stepCode  map[string]any      // the functions as they were registered
	queries   map[string][]string // by workflow
	signals   map[string][]string // by workflow
	names     []string
	stepNames []string
	schemas   map[string]*schemas // by workflow
}

// schemas holds the types and texts from which the schemas of a workflow are derived.
type schemas struct {
	in, out     reflect.Type
	input       string // schema of the input; empty: derived from in
	result      string // schema of the result; empty: derived from out
	signals     map[string]reflect.Type
	signalTexts map[string]string // schemas; a text takes precedence over the type
	updates     []string
	updateTypes map[string]reflect.Type
	updateTexts map[string]string // schemas; a text takes precedence over the type
}

var registered = registry{workflows: map[string]workflowFunc{}, steps: map[string]stepFunc{}, stepCode: map[string]any{},
	queries: map[string][]string{}, signals: map[string][]string{}, schemas: map[string]*schemas{}}

// Register registers a function as a workflow of this module. Call it in an init function. It panics if the name is
// registered twice; the upload shows the panic.
//
// The module's description has JSON Schemas of In and Out. They are derived from the types, as encoding/json reads and
// writes them, and from the tags jsonschema and jsonschema_description of their fields. The keys of the tag jsonschema are
// required, title, description, format, pattern, minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf,
// minLength, maxLength, minItems, maxItems, uniqueItems, minProperties, maxProperties, enum, example and default,
// separated by commas (`jsonschema:"required,minimum=1"`). The host refuses a start whose input does not match the schema.
// InputSchema and ResultSchema set other schemas.
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

// Signals lists the signals that the workflow receives, for the module's description. The host then refuses, with 422,
// signals over HTTP and from the command line if their name is not listed or their payload is not JSON. It does not check
// signals from other workflows and from Go programs.
func Signals(names ...string) RegisterOption {
	return func(workflow string) {
		for _, name := range names {
			if !slices.Contains(registered.signals[workflow], name) { // SignalOf may list it, too
				registered.signals[workflow] = append(registered.signals[workflow], name)
			}
		}
	}
}

// SignalOf lists a signal with a payload of type T, as Signals does. The module's description has a JSON Schema of T,
// derived as Register derives the schema of the input. The host refuses signals from outside whose payload does not match
// the schema. It does not check signals from other workflows.
func SignalOf[T any](name string) RegisterOption {
	return func(workflow string) {
		Signals(name)(workflow)
		registered.schemas[workflow].signals[name] = reflect.TypeFor[T]()
	}
}

// SignalSchema lists a signal, as SignalOf does, with the text of the JSON Schema (draft 2020-12) of its payload.
func SignalSchema(name, text string) RegisterOption {
	return func(workflow string) {
		Signals(name)(workflow)
		registered.schemas[workflow].signalTexts[name] = text
	}
}

// InputSchema sets the text of the JSON Schema (draft 2020-12) of the input. By default Register derives the schema from
// the input's type. The schema "true" accepts any input. If the text is not a schema, the host refuses the upload.
func InputSchema(text string) RegisterOption {
	return func(workflow string) { registered.schemas[workflow].input = text }
}

// ResultSchema sets the text of the JSON Schema of the result. The schema is documentation: the host does not check
// results.
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

// RegisterStep registers a step function of this module. Call runs it in an instance of its own, with the real clock and
// real random numbers. Its changes to memory are lost. Use RegisterStep in an init function. It panics if the name is
// registered twice.
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

// Step describes the current step and attempt to a body or step function. It is also the context of the attempt.
type Step struct {
	context.Context
	Name     string
	Attempt  int // from 1
	Attempts int // the limit; 0 = no limit
	// IdempotencyKey is the same for all attempts of a step, and different for each step and run. Pass it to the service
	// that the step calls, so that the service recognizes a repeated attempt.
	IdempotencyKey string
	LastError      string // message of the previous attempt's failure; empty at the first attempt
}

// Do runs fn as a step, at least once, and returns its recorded result. A replay returns the result without running fn.
// The name must be unique in the iteration. fn works on a copy of the workflow: it can read all of the workflow's memory,
// but its changes are lost. If fn returns an error, it is retried according to the options, Fatal and RetryAfter. When the
// attempts are used up, Do returns a *StepError.
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

// Call asks a handler to perform a step and returns the recorded result. handler is the name of a step function of this
// module, or "host/" and the name of a handler of the host. Retries and errors are as for Do.
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

// Sleep sleeps durably. The name must be unique in the iteration. Operators see it, and can end the sleep by its name.
// Fractions of a millisecond are rounded up. A negative duration, however short, returns ErrInvalidDuration.
func Sleep(ctx context.Context, name string, d time.Duration) error {
	return sleepMs(ctx, name, millis(d))
}

// SleepUntil sleeps until t, rounded up to a millisecond. It returns at once if t has passed.
func SleepUntil(ctx context.Context, name string, t time.Time) error {
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		ms++
	}
	return sleepUntilMs(ctx, name, ms)
}

// SleepText sleeps for a duration ("1h30m", "7d", "PT5M") or until an instant in RFC 3339.
func SleepText(ctx context.Context, name, text string) error { return sleepText(ctx, name, text) }

// Rand returns a source of random numbers for this run. It returns the same numbers on each replay, and different numbers
// in each run. The global functions of math/rand and math/rand/v2 can be replayed, too, but return the same numbers in all
// runs of a module. In bodies and step functions their numbers differ between runs and between attempts.
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
	Position  uint64 // the workflow's position in its journal
	// SuggestContinue reports whether the journal has become so long that ContinueAsNew is advisable.
	SuggestContinue bool
	// Schedule is the id of the schedule that started this run, or that started the run that this run repeats. Nominal is
	// the scheduled instant. They are empty and zero if the run was started in another way.
	Schedule string
	Nominal  time.Time
	// Attributes are the attributes at the start of the run or iteration, with the workflow's changes up to now. They are
	// empty in step functions of a module. Queries may read them, too.
	Attributes map[string]string
	// Memo is the run's memo, in JSON. It is set at the start and shown to people; nil if there is none.
	Memo json.RawMessage
}

// Info describes the current run.
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

// Log returns a logger. The host stores its lines with the run. A replay does not store a line again.
func Log(ctx context.Context) *slog.Logger { return slog.New(&logHandler{ctx: ctx}) }

// logHandler passes records to the host as text: the message, then key=value pairs.
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
