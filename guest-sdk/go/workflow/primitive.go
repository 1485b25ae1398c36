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

// Receive waits for the next signal of a name and returns its payload. The host keeps signals until the workflow receives
// them, first in, first out for each name. If the context ends, Receive returns its cause; a later signal stays for the
// next Receive.
func Receive[T any](ctx context.Context, name string) (v T, err error) {
	return receive[T](ctx, name, -1)
}

// ReceiveTimeout is like Receive, but returns ErrTimeout after d. Fractions of a millisecond are rounded up, and a negative
// d is 0.
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

// channelSet holds the channels that Signal has returned in one iteration of a run. Its zero value is empty.
type channelSet struct {
	mu     sync.Mutex // guards byName
	byName map[string]any
}

// Signal returns a channel for the signals of a name, for use in a select. Each call with the same name returns the same
// channel. A goroutine receives signals and holds at most one until it is taken from the channel. Payloads that cannot be
// decoded are logged and dropped. When the context of the first call ends, the channel gets no more signals; it is not
// closed. A workflow that continues as new loses the signal that is held: use Receive if that must not happen. Signal
// panics if the name is used with two types.
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

// Send sends a signal to another run, and waits until it is durable there. It returns ErrConflict if the run has ended or
// does not exist.
func Send(ctx context.Context, runID, name string, payload any) error {
	b, err := encode(payload)
	if err != nil {
		return fmt.Errorf("payload of signal %q: %w", name, err)
	}
	return signalSend(ctx, runID, name, b)
}

// HookOption is an option of Hook.
type HookOption func(map[string]any)

// HookReply sets the HTTP response to a delivery: a status from 200 to 299, the content type and the body. The default is
// 202 with an empty body.
func HookReply(status int, contentType, body string) HookOption {
	return func(o map[string]any) { o["status"], o["content_type"], o["body"] = status, contentType, body }
}

// Hook opens a hook and returns its token. A caller that knows the token, but not the run, can send signals to the run: a
// POST to /v1/hooks/TOKEN arrives as a signal with the hook's name. If token is empty, the host chooses a token that cannot
// be guessed. A token that you choose must be unique among live runs: if another run has it, Hook returns ErrConflict. A
// token is valid until the end of the iteration.
func Hook(ctx context.Context, name, token string, opts ...HookOption) (string, error) {
	o := map[string]any{}
	for _, f := range opts {
		f(o)
	}
	b, err := hookStart(ctx, name, token, jsonText(o))
	return string(b), err
}

// ChildOption is an option of StartChild and Child.
type ChildOption func(map[string]any)

// ChildID sets the run id of a child. The default consists of the parent's id and the number of the call.
func ChildID(id string) ChildOption { return func(o map[string]any) { o["id"] = id } }

// ChildVersion selects the version of the child's workflow. The default is the version from the parent's module, so that
// both stay compatible when new versions are uploaded. If that module does not have the workflow, the default is the latest
// version.
func ChildVersion(number uint32) ChildOption { return func(o map[string]any) { o["version"] = number } }

// ChildLatest selects the latest version of the child's workflow.
func ChildLatest() ChildOption { return func(o map[string]any) { o["version"] = "latest" } }

// ChildTimeout limits the duration of the child run.
func ChildTimeout(d time.Duration) ChildOption {
	return func(o map[string]any) { o["timeout"] = text(d) }
}

// ChildAttributes sets attributes of the child.
func ChildAttributes(a map[string]string) ChildOption {
	return func(o map[string]any) { o["attributes"] = a }
}

// ChildMemo sets the child's memo, which is shown to people with the run but cannot be searched. It is encoded as JSON, of
// at most 2,048 bytes without white space. The child reads it as RunInfo.Memo. With nil, the child has no memo.
func ChildMemo(memo any) ChildOption {
	return func(o map[string]any) {
		if delete(o, "memo"); memo != nil {
			o["memo"] = memo
		}
	}
}

// EndPolicy sets what happens to a live child when its parent ends or stops waiting for it.
type EndPolicy string

// The policies.
const (
	EndCancel    EndPolicy = "cancel" // the default
	EndTerminate EndPolicy = "terminate"
	EndAbandon   EndPolicy = "abandon" // the child continues
)

// OnEnd sets what happens to a live child when its parent ends or stops waiting for it.
func OnEnd(p EndPolicy) ChildOption { return func(o map[string]any) { o["on_end"] = string(p) } }

// ChildRun is a child run. Wait returns its result.
type ChildRun[T any] struct {
	ID     string // of the run
	name   string
	handle int64
}

// StartChild starts a child run of a workflow. The name must be unique in the iteration. StartChild returns ErrLimit if
// this run has too many live children. Wait returns ErrLimit if a quota of the namespace refused the start. Both errors may
// disappear when other runs end.
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

// Wait waits until the child has ended and returns its result. If the child did not complete, Wait returns a *StepError
// with its message, for which errors.Is reports ErrChildFailed. If the context ends, the child is withdrawn: OnEnd decides
// what happens to it.
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

// ContinueOption is an option of ContinueAsNew.
type ContinueOption func(map[string]any)

// ContinueLatest begins the next iteration with the latest version of the workflow. The default is the current version.
func ContinueLatest() ContinueOption { return func(o map[string]any) { o["version"] = "latest" } }

// ContinueAsNew ends this iteration of the run and begins the next one, with a new input and an empty journal. Use it in
// workflows without an end. Output, attributes and signals that the workflow has not received are kept. Calls in progress
// are dropped. ContinueAsNew returns only if there is an error:
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

// Emit appends a value to the run's output under a topic, exactly once over all replays, and returns its index. Clients
// that follow the output see the value when it is durable.
func Emit(ctx context.Context, topic string, v any) (index int64, err error) {
	b, err := encode(v)
	if err != nil {
		return 0, fmt.Errorf("output of topic %q: %w", topic, err)
	}
	return emit(ctx, topic, b)
}

// SetAttribute sets an attribute of the run, for searches. Searches can compare integers and instants (amount>=100).
// Instants are recorded in UTC, truncated to milliseconds.
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

// Version marks a change of the code, so that older runs continue with the old code. When a run reaches a marker for the
// first time, Version records newest and returns it; later replays return the recorded number. If a replayed journal passed
// this place before the marker existed, Version returns 0. Further calls with the same id in an iteration return the
// first answer, whatever their newest. Ids are independent of other names: a step may have the same name.
//
//	if workflow.Version(ctx, "check address first", 1) >= 1 {
//		…
//	}
//
// If id is not a valid name, newest is not in 0 to 2,147,483,647, or the journal is full, Version logs an error and
// returns 0.
func Version(ctx context.Context, id string, newest int) int { return version(ctx, id, newest) }

// markerRefused is the message of the line that Version logs.
const markerRefused = "version marker refused"

// CancelPolicy sets what happens when the run is cancelled.
type CancelPolicy int32

// The policies.
const (
	// FinalCancel ends the run where it waits, without executing any more of its code. It is the default.
	FinalCancel CancelPolicy = 0
	// CooperativeCancel cancels the workflow's context, with ErrCancelled as its cause. The workflow cleans up with
	// context.WithoutCancel and returns an error, which ends the run as cancelled.
	CooperativeCancel CancelPolicy = 1
)

// SetCancelPolicy sets the cancel policy of this run from now on.
func SetCancelPolicy(ctx context.Context, p CancelPolicy) error { return setCancelPolicy(ctx, p) }

// queryFunc is the handler of a query with its types erased.
type queryFunc func(input []byte) ([]byte, error)

// Query sets the function that answers queries of a name, while the run lives and after its end. The host calls fn on a
// copy of the workflow at the point where it waits or has returned. fn can read all of the workflow's memory, but its
// changes are lost, and workflow calls in it return ErrNotHere. List the name in Register with Queries, so that the
// module's description shows it.
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

// Async runs a function in a new goroutine and returns its outcome as a Future. It is an alternative to channels.
func Async[T any](ctx context.Context, fn func(context.Context) (T, error)) *Future[T] {
	f := &Future[T]{done: make(chan struct{})}
	go func() {
		defer close(f.done)
		f.v, f.err = fn(ctx)
	}()
	return f
}

// Get waits for the outcome and returns it. If ctx ends first, it returns the cause.
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
