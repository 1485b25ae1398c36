//go:build !wasip1

package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/wfhost/wfhost/abi"
)

// run is what the environment keeps of the primitives beside steps and sleeps.
type envRun struct {
	signals    map[string][][]byte
	arrived    chan struct{} // closed and replaced when a signal comes
	sent       []string
	tokens     map[string]string // hook name by token, of the iteration
	hooks      int               // tokens that were made
	output     []string
	attributes map[string]string
	versions   map[string]int
	queries    map[string]queryFunc
	children   map[int64]*envChild
	policy     CancelPolicy
	channels   *channelSet // of the iteration
	updates    envUpdates
}

type envChild struct {
	done    chan struct{}
	b       []byte
	err     error
	refused *StepError // it was not started
}

// envRunID is the id of the run under test.
const envRunID = "test"

func newEnvRun() envRun {
	return envRun{signals: map[string][][]byte{}, arrived: make(chan struct{}), tokens: map[string]string{},
		attributes: map[string]string{}, versions: map[string]int{}, queries: map[string]queryFunc{},
		children: map[int64]*envChild{}, channels: &channelSet{},
		updates: envUpdates{set: &updateSet{}, sent: map[string][]chan envAnswer{}}}
}

// channelsOf returns the channels of the current iteration; ones of nobody outside of a workflow, where none ever
// receives.
func channelsOf(ctx context.Context) *channelSet {
	e, _ := ctx.Value(envKey{}).(*Env)
	if e == nil {
		return &channelSet{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.run.channels
}

// SendSignal sends a signal to the workflow under test, as Host.Signal would.
func (e *Env) SendSignal(name string, payload any) error {
	if err := abi.CheckName("signal name", name); err != nil {
		return err
	}
	b, err := encode(payload)
	if err != nil {
		return err
	}
	e.give(name, b)
	return nil
}

func (e *Env) give(name string, b []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.giveLocked(name, b)
}

func (e *Env) giveLocked(name string, b []byte) {
	e.run.signals[name] = append(e.run.signals[name], b)
	close(e.run.arrived)
	e.run.arrived = make(chan struct{})
}

// Deliver delivers to a hook of the workflow under test by its token.
func (e *Env) Deliver(token string, payload any) error {
	e.mu.Lock()
	name, ok := e.run.tokens[token]
	e.mu.Unlock()
	if !ok {
		return fmt.Errorf("no hook has the token %q", token)
	}
	return e.SendSignal(name, payload)
}

// Sent returns the signals that the workflow has sent to other runs, as "run name payload". Those to children, and of
// these to each other and to the run under test, are delivered; one that has ended is ErrConflict.
func (e *Env) Sent() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.run.sent...)
}

// Output returns what the workflow has emitted, as "topic payload".
func (e *Env) Output() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.run.output...)
}

// Attributes returns the attributes of the run.
func (e *Env) Attributes() map[string]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.run.attributes)
}

// SetVersion makes Version give a number for a marker, as in a run whose journal is older.
func (e *Env) SetVersion(id string, number int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.run.versions[id] = number
}

// Ask asks the workflow under test a query, and decodes its answer into out unless that is nil.
func (e *Env) Ask(name string, input, out any) error {
	b, err := encode(input)
	if err != nil {
		return err
	}
	e.mu.Lock()
	fn := e.run.queries[name]
	e.mu.Unlock()
	if fn == nil {
		return fmt.Errorf("the workflow does not offer query %s", name)
	}
	if b, err = fn(b); err != nil || out == nil {
		return err
	}
	return decode(b, out)
}

// continueError carries the input of the next iteration to Run, which begins it.
type continueError struct{ input []byte }

func (e *continueError) Error() string { return "the run continues as new" }

// enter says whether a call that takes no name may be made.
func enter(ctx context.Context) (*Env, error) {
	e, _ := ctx.Value(envKey{}).(*Env)
	switch {
	case e == nil:
		return nil, errNoEnv
	case inBody(ctx):
		return nil, ErrNotHere
	}
	return e, nil
}

func signalWait(ctx context.Context, name string, timeoutMs int64) ([]byte, error) {
	return signalTake(ctx, name, timeoutMs, nil)
}

// signalTake is signalWait that calls taken, unless it is nil, before anybody else can take a signal or end the
// iteration: the environment's lock is held.
func signalTake(ctx context.Context, name string, timeoutMs int64, taken func(r *envRun)) ([]byte, error) {
	e, err := enter(ctx)
	if err != nil {
		return nil, err
	}
	if err := abi.CheckReceived(name); err != nil {
		return nil, refusal(name, err)
	}
	var over <-chan time.Time
	if timeoutMs >= 0 {
		t := time.NewTimer(fromMillis(timeoutMs))
		defer t.Stop()
		over = t.C
	}
	for {
		e.mu.Lock()
		if ctx.Err() != nil { // the queue belongs to the next iteration
			e.mu.Unlock()
			return nil, context.Cause(ctx)
		}
		if queue := e.run.signals[name]; len(queue) > 0 {
			e.run.signals[name] = queue[1:]
			if taken != nil {
				taken(&e.run)
			}
			e.mu.Unlock()
			return queue[0], nil
		}
		arrived := e.run.arrived
		e.mu.Unlock()
		select {
		case <-arrived:
		case <-over:
			return nil, &StepError{Code: "TIMEOUT", Name: name, Message: "no signal came in time"}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func signalSend(ctx context.Context, runID, name string, payload []byte) error {
	e, err := enter(ctx)
	if err != nil {
		return err
	}
	if err := cmp.Or(abi.CheckRunID(runID), abi.CheckName("signal name", name)); err != nil {
		return refusal(name, err)
	}
	e.mu.Lock()
	e.run.sent = append(e.run.sent, fmt.Sprintf("%s %s %s", runID, name, payload))
	e.mu.Unlock()
	return e.sendTo(runID, name, payload)
}

func hookStart(ctx context.Context, name, token, opts string) ([]byte, error) {
	e, err := enter(ctx)
	if err != nil {
		return nil, err
	}
	_, err = abi.ParseHookOptions([]byte(opts))
	if err = cmp.Or(abi.CheckName("hook name", name), err); err != nil {
		return nil, refusal(name, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if token == "" {
		e.run.hooks++
		token = fmt.Sprintf("token-%d", e.run.hooks)
	} else if _, taken := e.run.tokens[token]; taken {
		return nil, &StepError{Code: "CONFLICT", Name: name, Message: fmt.Sprintf("token %q is held by run %q", token, e.id)}
	} else if err := abi.CheckToken(token); err != nil {
		return nil, refusal(name, err)
	}
	e.run.tokens[token] = name
	return []byte(token), nil
}

// iterate runs a workflow function over all its iterations. The context of each ends with it, as its goroutines do in
// the host.
func iterate(ctx context.Context, fn workflowFunc, input []byte) ([]byte, error) {
	for {
		own, cancel := context.WithCancel(ctx)
		b, err := fn(own, input)
		next, again := errors.AsType[*continueError](err)
		if e, ok := ctx.Value(envKey{}).(*Env); ok {
			e.end(again, err, cancel)
		}
		cancel()
		if !again {
			return b, err
		}
		input = next.input
	}
}

// end ends an iteration, and the run unless it continues again. The iteration's context ends after its updates have: what
// handlers answer because of that is no answer.
func (e *Env) end(again bool, err error, cancel context.CancelFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer cancel()
	switch {
	case again:
		e.names = map[string]bool{}
		e.run.channels = &channelSet{}
		e.run.queries = map[string]queryFunc{}
		e.run.tokens = map[string]string{}
		e.iteration++
		e.run.updates.over("continued as new", false)
	case err != nil:
		e.ended = true
		e.run.updates.over("failed", true)
	default:
		e.ended = true
		e.run.updates.over("completed", true)
	}
}

func continueAsNew(ctx context.Context, input []byte, _ string) error {
	if _, err := enter(ctx); err != nil {
		return err
	}
	return &continueError{input}
}

func emit(ctx context.Context, topic string, b []byte) (int64, error) {
	e, err := enter(ctx)
	if err != nil {
		return 0, err
	}
	if err := abi.CheckName("topic", topic); err != nil {
		return 0, refusal(topic, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.run.output = append(e.run.output, fmt.Sprintf("%s %s", topic, b))
	return int64(len(e.run.output) - 1), nil
}

func setAttribute(ctx context.Context, key, value string) error {
	e, err := enter(ctx)
	if err != nil {
		return err
	}
	if err := abi.CheckAttribute(key, value); err != nil {
		return refusal(key, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.run.attributes[key] = value
	return nil
}

func version(ctx context.Context, id string, newest int) int {
	e, err := enter(ctx)
	if err != nil {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if n, ok := e.run.versions[id]; ok {
		return n
	}
	return newest
}

func setCancelPolicy(ctx context.Context, p CancelPolicy) error {
	e, err := enter(ctx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.run.policy = p
	return nil
}

func setQuery(ctx context.Context, name string, fn queryFunc) {
	if e, err := enter(ctx); err == nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.run.queries[name] = fn
	}
}
