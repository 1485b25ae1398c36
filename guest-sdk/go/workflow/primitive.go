package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// Receive waits for the next signal of a name and returns its payload. The host keeps signals until the workflow
// receives them, first in, first out for each name. If the context ends, the wait ends; a signal that comes later
// stays for the next one.
func Receive[T any](ctx context.Context, name string) (v T, err error) {
	return receive[T](ctx, name, -1)
}

// ReceiveTimeout is Receive with a timeout, after which it returns ErrTimeout. Fractions of a millisecond are rounded
// up.
func ReceiveTimeout[T any](ctx context.Context, name string, d time.Duration) (v T, err error) {
	return receive[T](ctx, name, max(millis(d), 0))
}

func receive[T any](ctx context.Context, name string, timeoutMs int64) (v T, err error) {
	b, err := signalWait(ctx, name, timeoutMs)
	if err != nil {
		return v, err
	}
	if err := decode(b, &v); err != nil {
		return v, fmt.Errorf("payload of signal %q: %w", name, err)
	}
	return v, nil
}

// channelSet is the channels of Signal of one iteration of a run. Its zero value is empty.
type channelSet struct {
	mu     sync.Mutex // guards byName
	byName map[string]any
}

// Signal returns a channel for the signals of a name, for use in a select. It is the same channel for each call with
// the name, and holds back at most one signal that nobody has received; payloads that cannot be decoded are logged
// and dropped. It ends with the context of the first call. A workflow that continues as new loses a signal that the
// channel holds back: receive such signals by Receive.
func Signal[T any](ctx context.Context, name string) <-chan T {
	set := channelsOf(ctx)
	set.mu.Lock()
	defer set.mu.Unlock()
	if c, ok := set.byName[name]; ok {
		typed, ok := c.(chan T)
		if !ok {
			panic(fmt.Sprintf("signal %q is received as two types", name))
		}
		return typed
	}
	c := make(chan T)
	if set.byName == nil {
		set.byName = map[string]any{}
	}
	set.byName[name] = c
	go func() {
		for {
			v, err := Receive[T](ctx, name)
			var syntax *json.SyntaxError
			var mistyped *json.UnmarshalTypeError
			switch {
			case errors.As(err, &syntax), errors.As(err, &mistyped):
				Log(ctx).Error("signal dropped", "name", name, "cause", err)
				continue
			case err != nil:
				return
			}
			select {
			case c <- v:
			case <-ctx.Done():
				return
			}
		}
	}()
	return c
}

// Send sends a signal to another run, and waits until it is durable there. A run that has ended, or that does not
// exist, is ErrConflict.
func Send(ctx context.Context, runID, name string, payload any) error {
	b, err := encode(payload)
	if err != nil {
		return fmt.Errorf("payload of signal %q: %w", name, err)
	}
	return signalSend(ctx, runID, name, b)
}

// HookOption is an option of Hook.
type HookOption func(map[string]any)

// HookReply sets the answer to a delivery: an HTTP status from 200 to 299, its content type and body. The default is
// 202 with an empty body.
func HookReply(status int, contentType, body string) HookOption {
	return func(o map[string]any) { o["status"], o["content_type"], o["body"] = status, contentType, body }
}

// Hook opens a hook and returns its token, by which somebody outside reaches this run without knowing it: what is
// posted to /v1/hooks/ and the token is received as a signal of the hook's name. If token is empty, the host makes
// one that cannot be guessed. A token that you choose is unique among live runs; if another run has it, Hook returns
// ErrConflict. A token ends with its iteration.
func Hook(ctx context.Context, name, token string, opts ...HookOption) (string, error) {
	o := map[string]any{}
	for _, f := range opts {
		f(o)
	}
	b, err := hookStart(ctx, name, token, jsonText(o))
	return string(b), err
}

// ChildOption says how a child run is started.
type ChildOption func(map[string]any)

// ChildID sets the run id of a child. The default is the parent's id and the number of the call.
func ChildID(id string) ChildOption { return func(o map[string]any) { o["id"] = id } }

// ChildVersion starts a certain version of the child's workflow. The default is the version that came with the same module
// as the parent's, so that both understand each other whatever is uploaded meanwhile. If that module does not have the
// workflow, it is the latest version.
func ChildVersion(number uint32) ChildOption { return func(o map[string]any) { o["version"] = number } }

// ChildLatest starts the latest version of the child's workflow.
func ChildLatest() ChildOption { return func(o map[string]any) { o["version"] = "latest" } }

// ChildTimeout bounds the child run.
func ChildTimeout(d time.Duration) ChildOption {
	return func(o map[string]any) { o["timeout"] = text(d) }
}

// ChildAttributes sets attributes of the child.
func ChildAttributes(a map[string]string) ChildOption {
	return func(o map[string]any) { o["attributes"] = a }
}

// ChildMemo sets the child's memo: what people see with the run, such as who ordered it. It is encoded as JSON, of at
// most 2,048 bytes without white space, and is not searched. The child reads it as RunInfo.Memo. nil gives it none.
func ChildMemo(memo any) ChildOption {
	return func(o map[string]any) {
		if delete(o, "memo"); memo != nil {
			o["memo"] = memo
		}
	}
}

// EndPolicy says what becomes of a child that lives when its parent ends, or stops waiting for it.
type EndPolicy string

// The policies.
const (
	EndCancel    EndPolicy = "cancel" // the default
	EndTerminate EndPolicy = "terminate"
	EndAbandon   EndPolicy = "abandon" // it continues
)

// OnEnd sets what becomes of a child that lives when its parent ends.
func OnEnd(p EndPolicy) ChildOption { return func(o map[string]any) { o["on_end"] = string(p) } }

// ChildRun is a run that this run has started.
type ChildRun[T any] struct {
	ID     string // of the run
	name   string
	handle int64
}

// StartChild starts a run of a workflow. The name is unique in this run. It returns ErrLimit if the run has too many live
// children; Wait returns ErrLimit if a quota of the namespace has refused the start. Both may pass, as other runs end.
func StartChild[T any](ctx context.Context, name, workflow string, in any, opts ...ChildOption) (*ChildRun[T], error) {
	o := map[string]any{}
	if of := undoes(ctx); of != "" {
		o["undoes"] = of
	}
	for _, f := range opts {
		f(o)
	}
	input, err := encode(in)
	if err != nil {
		return nil, fmt.Errorf("input of child %q: %w", name, err)
	}
	h, id, err := childStart(ctx, name, workflow, input, jsonText(o))
	if err != nil {
		return nil, err
	}
	return &ChildRun[T]{ID: id, name: name, handle: h}, nil
}

// Wait waits until the child has ended and returns its result. A child that did not complete is a *StepError that is
// ErrChildFailed, with what it said. If the context ends, the child is withdrawn: OnEnd decides what becomes of it.
func (c *ChildRun[T]) Wait(ctx context.Context) (v T, err error) {
	b, err := childWait(ctx, c.handle)
	if err != nil {
		return v, err
	}
	succeeded(c.name)
	if err := decode(b, &v); err != nil {
		return v, fmt.Errorf("result of child %q: %w", c.name, err)
	}
	return v, nil
}

// Child starts a run of a workflow and waits for its result.
func Child[T any](ctx context.Context, name, workflow string, in any, opts ...ChildOption) (v T, err error) {
	c, err := StartChild[T](ctx, name, workflow, in, opts...)
	if err != nil {
		return v, err
	}
	return c.Wait(ctx)
}

// ContinueOption says how a run continues as new.
type ContinueOption func(map[string]any)

// ContinueLatest begins the next iteration under the latest version of the workflow; the default is the same one.
func ContinueLatest() ContinueOption { return func(o map[string]any) { o["version"] = "latest" } }

// ContinueAsNew ends this iteration of the run and begins the next one, with a new input and an empty journal. It is
// for workflows without an end. Output, attributes and signals that nobody has received stay; everything that is open
// is dropped. It returns only if there is an error:
//
//	return workflow.ContinueAsNew(ctx, state)
func ContinueAsNew(ctx context.Context, in any, opts ...ContinueOption) error {
	o := map[string]any{}
	for _, f := range opts {
		f(o)
	}
	input, err := encode(in)
	if err != nil {
		return fmt.Errorf("input of the next iteration: %w", err)
	}
	return continueAsNew(ctx, input, jsonText(o))
}

// Emit appends to the output of the run, under a topic, exactly once over all replays, and returns the index. A caller that
// follows the run's output sees it when it is durable.
func Emit(ctx context.Context, topic string, v any) (index int64, err error) {
	b, err := encode(v)
	if err != nil {
		return 0, fmt.Errorf("output of topic %q: %w", topic, err)
	}
	return emit(ctx, topic, b)
}

// SetAttribute sets an attribute of the run, by which it is found in listings. Integers and instants can be compared there
// (amount>=100); instants are recorded in UTC, to the millisecond.
func SetAttribute[T string | bool | int | int64 | time.Time](ctx context.Context, key string, value T) error {
	switch v := any(value).(type) {
	case string:
		return setAttribute(ctx, key, v)
	case bool:
		return setAttribute(ctx, key, strconv.FormatBool(v))
	case int:
		return setAttribute(ctx, key, strconv.Itoa(v))
	case int64:
		return setAttribute(ctx, key, strconv.FormatInt(v, 10))
	default:
		return setAttribute(ctx, key, any(value).(time.Time).UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano))
	}
}

// Version marks a change of the code, so that older runs continue as they began. It returns 0 when it replays a
// journal that passed this place before the marker existed. When a run reaches it for the first time, Version records
// newest and returns it; later replays return the recorded number. Each further call with the id, in the same iteration of
// the run, returns what the first one did, whatever its newest. Ids are names of their own: a step may have the same.
//
//	if workflow.Version(ctx, "check address first", 1) >= 1 {
//		…
//	}
//
// If the id is not a name, newest is not 0 to 2,147,483,647, or the journal is full, Version logs that and returns 0.
func Version(ctx context.Context, id string, newest int) int { return version(ctx, id, newest) }

// markerRefused is the message of the line that Version logs.
const markerRefused = "version marker refused"

// CancelPolicy says what a cancel of the run does.
type CancelPolicy int32

// The policies.
const (
	// FinalCancel ends the run where it waits; none of its code runs any more. The default.
	FinalCancel CancelPolicy = 0
	// CooperativeCancel cancels the workflow's context, with ErrCancelled as its cause; the workflow cleans up
	// under context.WithoutCancel and returns an error, which ends the run as cancelled.
	CooperativeCancel CancelPolicy = 1
)

// SetCancelPolicy sets what a cancel of this run does from now on.
func SetCancelPolicy(ctx context.Context, p CancelPolicy) error { return setCancelPolicy(ctx, p) }

// queryFunc is the handler of a query with its types erased.
type queryFunc func(input []byte) ([]byte, error)

// Query offers a question that callers can ask while the run lives, and after its end. The host calls fn on a copy of
// the workflow, where it waits or where it returned. fn may read everything; workflow calls return ErrNotHere, and
// what fn changes is lost. List the name in Register with Queries, so that the module's description shows it.
func Query[In, Out any](ctx context.Context, name string, fn func(in In) (Out, error)) {
	setQuery(ctx, name, func(input []byte) ([]byte, error) {
		var in In
		if err := decode(input, &in); err != nil {
			return nil, fmt.Errorf("input of query %q: %w", name, err)
		}
		out, err := fn(in)
		if err != nil {
			return nil, err
		}
		return encode(out)
	})
}

// Future is the outcome of a function that Async runs.
type Future[T any] struct {
	done chan struct{}
	v    T
	err  error
}

// Async runs a function in a goroutine of its own and returns its outcome as a Future, if you prefer futures to
// channels.
func Async[T any](ctx context.Context, fn func(context.Context) (T, error)) *Future[T] {
	f := &Future[T]{done: make(chan struct{})}
	go func() {
		defer close(f.done)
		f.v, f.err = fn(ctx)
	}()
	return f
}

// Get waits for the outcome, or for the end of ctx.
func (f *Future[T]) Get(ctx context.Context) (v T, err error) {
	select {
	case <-f.done:
		return f.v, f.err
	case <-ctx.Done():
		return v, context.Cause(ctx)
	}
}

// Done returns a channel that is closed when the outcome is known.
func (f *Future[T]) Done() <-chan struct{} { return f.done }

func jsonText(o map[string]any) string {
	if len(o) == 0 {
		return ""
	}
	b, err := json.Marshal(o)
	if err != nil {
		return "{\"error\":\"options cannot be encoded\"}" // refused by the host, which names the field
	}
	return string(b)
}
