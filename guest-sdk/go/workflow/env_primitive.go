//go:build !wasip1

package workflow

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/wfhost/wfhost/abi"
)

// envRun is the state of a run and its current iteration.
type envRun struct {
	names      map[string]bool // of sleeps, steps and children, of the iteration
	open       int             // calls of the iteration without an outcome
	signals    map[string][]envSignal
	waits      map[string][]*envWait // of the iteration, oldest first
	sent       []string
	absent     map[string]bool   // runs that do not exist
	tokens     map[string]string // hook name by token, of the iteration
	hooks      int               // tokens made so far
	output     []string
	attributes map[string]string
	versions   map[string]int // set by SetVersion
	markers    map[string]int // answers of Version in the iteration
	queries    map[string]queryFunc
	children   map[int64]*envChild
	policy     CancelPolicy
	channels   *channelSet // of the iteration
	updates    envUpdates
}

// envSignal is a received signal or update. answer is nil unless it is an update.
type envSignal struct {
	payload []byte
	answer  chan envAnswer
}

// envWait is a wait for a signal. The next signal goes to the oldest wait.
type envWait struct {
	call  *EnvCall
	taken chan struct{} // closed when envSignal is set
	due   time.Time     // end of the timeout; zero if there is none
	envSignal

	update int64 // the handle, from 1, of the update that was taken; 0 for a signal
}

// envRunID is the default id of the run under test.
const envRunID = "test"

func newEnvRun() envRun {
	return envRun{names: map[string]bool{}, signals: map[string][]envSignal{}, waits: map[string][]*envWait{},
		absent: map[string]bool{}, tokens: map[string]string{}, attributes: map[string]string{}, versions: map[string]int{},
		markers: map[string]int{}, queries: map[string]queryFunc{}, children: map[int64]*envChild{}, channels: &channelSet{},
		updates: envUpdates{set: &updateSet{}}}
}

// channelsOf returns the channels of the iteration that a context belongs to. Outside of a workflow, and for goroutines that an
// earlier iteration has left, it returns an empty set.
func channelsOf(ctx context.Context) *channelSet {
	e, _ := ctx.Value(envKey{}).(*Env)
	if e == nil {
		return &channelSet{}
	}
	cut := e.cutOf(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	if cut != e.cut {
		return &channelSet{}
	}
	return e.run.channels
}

// SendSignal sends a signal to the workflow under test, as Host.Signal does. It returns an error after the run has ended,
// until the next call of Run.
func (e *Env) SendSignal(name string, payload any) error {
	if err := abi.CheckName("signal name", name); err != nil {
		return err
	}
	b, err := encode(payload)
	err = cmp.Or(err, checkPayload("the payload of signal", name, b))
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return fmt.Errorf("run %q takes no signals: %w", e.id, errEnded)
	}
	if err := e.run.roomFor(name, len(b)); err != nil {
		return err
	}
	e.giveLocked(name, envSignal{payload: b})
	return nil
}

// roomFor returns an error if so many signals, or bytes of signals, are pending that no other can be accepted.
func (r *envRun) roomFor(name string, bytes int) error {
	if r.oldestWait(name) != nil { // it takes the signal at once
		return nil
	}
	var of, all abi.Untaken
	for n, queue := range r.signals {
		p := abi.Untaken{N: int64(len(queue))}
		for _, s := range queue {
			p.Bytes += int64(len(s.payload))
		}
		all.N, all.Bytes = all.N+p.N, all.Bytes+p.Bytes
		if n == name {
			of = p
		}
	}
	return abi.CheckPending(name, of, all, int64(bytes))
}

// giveLocked delivers a signal to the oldest wait for it, or queues it for the next wait.
func (e *Env) giveLocked(name string, s envSignal) {
	w := e.run.oldestWait(name)
	if w == nil {
		e.run.signals[name] = append(e.run.signals[name], s)
		return
	}
	e.run.remove(w)
	e.takeLocked(w, s)
}

// oldestWait returns the wait that takes the next signal of a name, nil if there is none. It skips waits whose timeout has
// passed: on a host, due timers come before signals.
func (r *envRun) oldestWait(name string) *envWait {
	for _, w := range r.waits[name] {
		if w.due.IsZero() || time.Now().Before(w.due) {
			return w
		}
	}
	return nil
}

// remove removes a wait that has ended.
func (r *envRun) remove(w *envWait) {
	name := w.call.Name
	r.waits[name] = slices.DeleteFunc(r.waits[name], func(other *envWait) bool { return other == w })
}

func (e *Env) takeLocked(w *envWait, s envSignal) {
	w.envSignal = s
	if s.answer != nil {
		u := &e.run.updates
		u.answers = append(u.answers, envTaken{w.call.Name, s.answer})
		w.update = int64(len(u.answers))
	}
	e.endLocked(w.call, s.payload, nil)
	close(w.taken)
}

// Deliver delivers a payload to a hook of the workflow under test by its token.
func (e *Env) Deliver(token string, payload any) error {
	e.mu.Lock()
	name, ok := e.run.tokens[token]
	e.mu.Unlock()
	if !ok {
		return fmt.Errorf("no hook has the token %q", token)
	}
	return e.SendSignal(name, payload)
}

// Absent declares that there is no run with this id. A signal to it fails with ErrConflict, as on a host.
func (e *Env) Absent(runID string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.run.absent[runID] = true
}

// Sent returns the signals that the workflow has sent to other runs, as "run name payload". Signals between the runs of the
// test are delivered, or fail with ErrConflict if the receiver has ended. Signals to other runs succeed, unless Absent was
// called for the run.
func (e *Env) Sent() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.run.sent...)
}

// Output returns the values that the workflow has emitted, as "topic payload".
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

// SetVersion sets the number that Version returns for a marker, to test a run with an older journal.
func (e *Env) SetVersion(id string, number int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.run.versions[id] = number
}

// continueError is the reason for cutting an iteration that continues as new. It has the input of the next iteration.
type continueError struct{ input []byte }

func (e *continueError) Error() string { return "the run continues as new" }

// enter returns the environment, or an error if no call may be made. It does not check whether ctx has ended.
func enter(ctx context.Context) (*Env, error) {
	e, _ := ctx.Value(envKey{}).(*Env)
	switch {
	case e == nil:
		return nil, errNoEnv
	case inBody(ctx):
		return nil, ErrNotHere
	}
	return e, e.stopIfCut(ctx)
}

func signalWait(ctx context.Context, name string, timeoutMs int64) ([]byte, error) {
	w, err := signalTake(ctx, name, timeoutMs)
	if err != nil {
		return nil, err
	}
	return w.payload, nil
}

// signalTake waits for a signal. A pending signal goes to the oldest wait at once, before its goroutine notices.
func signalTake(ctx context.Context, name string, timeoutMs int64) (*envWait, error) {
	e, err := ready(ctx)
	if err != nil {
		return nil, err
	}
	w := &envWait{call: &EnvCall{Kind: "signal_wait", Name: name}, taken: make(chan struct{})}
	if timeoutMs >= 0 {
		w.due = time.Now().Add(fromMillis(timeoutMs))
	}
	var over <-chan time.Time
	e.mu.Lock()
	err = e.makeLocked(ctx, w.call, func() error {
		if err := abi.CheckReceived(name); err != nil || timeoutMs < 0 {
			return err
		}
		_, err := abi.AddMs(time.Now().UnixMilli(), timeoutMs)
		return err
	})
	if queue := e.run.signals[name]; err == nil && len(queue) > 0 {
		e.run.signals[name] = queue[1:]
		e.takeLocked(w, queue[0])
	} else if err == nil {
		e.run.waits[name] = append(e.run.waits[name], w)
	}
	e.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if timeoutMs >= 0 {
		t := time.NewTimer(time.Until(w.due))
		defer t.Stop()
		over = t.C
	}
	select {
	case <-w.taken:
		return w, nil
	case <-over:
		err = &StepError{Code: abi.Timeout.String(), Name: name, Message: "no signal came in time"}
	case <-e.cutOf(ctx).done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if cut := e.stopIfCut(ctx); cut != nil {
		return nil, cut
	}
	return w, e.giveUp(w, err)
}

// giveUp ends a wait with err, unless it has received a signal meanwhile.
func (e *Env) giveUp(w *envWait, err error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-w.taken:
		return nil
	default:
	}
	e.run.remove(w)
	e.endLocked(w.call, nil, err)
	return err
}

func signalSend(ctx context.Context, runID, name string, payload []byte) error {
	c := &EnvCall{Kind: "signal_send", Name: name, Target: runID, Input: payload}
	e, err := begin(ctx, c, func(*Env) error {
		return cmp.Or(abi.CheckName("name", name), abi.CheckRunID(runID), abi.CheckName("signal name", name),
			checkPayload("payload of signal", name, payload))
	})
	if err != nil {
		return err
	}
	e.mu.Lock()
	e.run.sent = append(e.run.sent, fmt.Sprintf("%s %s %s", runID, name, payload))
	absent := e.run.absent[runID]
	e.mu.Unlock()
	_, err = e.outcome(c, nil, e.sendTo(runID, name, payload, absent))
	return err
}

func hookStart(ctx context.Context, name, token, opts string) ([]byte, error) {
	c := &EnvCall{Kind: "hook", Name: name, Target: token, Options: opts}
	e, err := begin(ctx, c, func(*Env) error {
		if err := abi.CheckName("hook name", name); err != nil {
			return err
		}
		if _, err := abi.ParseHookOptions([]byte(opts)); err != nil || token == "" {
			return err
		}
		return abi.CheckToken(token)
	})
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	if token == "" {
		e.run.hooks++
		token = fmt.Sprintf("token-%d.%s", e.run.hooks, e.id)
	}
	if holder := e.runs.claim(token, e); holder != nil {
		err = &StepError{Code: abi.Conflict.String(), Message: fmt.Sprintf("token %q is held by run %q", token, holder.id),
			Details: map[string]any{"holder": holder.id}}
	}
	if err == nil {
		e.run.tokens[token] = name
	}
	e.mu.Unlock()
	if err != nil {
		return e.outcome(c, nil, err)
	}
	return e.outcome(c, []byte(token), nil)
}

func continueAsNew(ctx context.Context, input []byte, opts string) error {
	e, err := enter(ctx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	c := &EnvCall{Kind: "continue_as_new", Input: input, Options: opts}
	err = e.makeLocked(ctx, c, func() error {
		if err := checkPayload("input of", "continue_as_new", input); err != nil {
			return err
		}
		_, err := abi.ParseContinueOptions([]byte(opts))
		return err
	})
	if err != nil { // on a host the call does not return
		e.cutLocked(err)
	} else {
		e.endLocked(c, nil, nil)
		e.cutLocked(&continueError{input}) // ends the iteration even if the workflow ignores the error
	}
	e.mu.Unlock()
	return e.stopIfCut(ctx)
}

// now makes a call whose outcome is immediate: the result of do.
func (e *Env) now(ctx context.Context, c *EnvCall, check func() error, do func() []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	err := e.makeLocked(ctx, c, check)
	if err == nil {
		e.endLocked(c, do(), nil)
	}
	return err
}

func emit(ctx context.Context, topic string, b []byte) (n int64, err error) {
	e, err := enter(ctx)
	if err != nil {
		return 0, err
	}
	err = e.now(ctx, &EnvCall{Kind: "emit", Name: topic, Input: b}, func() error {
		return cmp.Or(abi.CheckName("topic", topic), checkPayload("output of topic", topic, b))
	}, func() []byte {
		n = int64(len(e.run.output))
		e.run.output = append(e.run.output, fmt.Sprintf("%s %s", topic, b))
		return strconv.AppendInt(nil, n, 10)
	})
	return n, err
}

func setAttribute(ctx context.Context, key, value string) error {
	e, err := enter(ctx)
	if err != nil {
		return err
	}
	return e.now(ctx, &EnvCall{Kind: "set_attribute", Name: key, Input: []byte(value)}, func() error {
		if err := abi.CheckAttribute(key, value); err != nil {
			return err
		}
		if _, set := e.run.attributes[key]; !set && len(e.run.attributes) >= abi.MaxAttributes {
			return abi.Errorf(abi.Limit, "the run has %d attributes, the limit is %d", len(e.run.attributes), abi.MaxAttributes)
		}
		return nil
	}, func() []byte {
		e.run.attributes[key] = value
		return nil
	})
}

func version(ctx context.Context, id string, newest int) int {
	e, err := enter(ctx)
	if err != nil {
		return 0
	}
	e.mu.Lock()
	n, set := e.run.versions[id]
	if !set {
		n, set = e.run.markers[id]
	}
	e.mu.Unlock()
	if set {
		return n
	}
	err = e.now(ctx, &EnvCall{Kind: "version", Name: id}, func() error { return abi.CheckMarker(id, int64(newest)) }, func() []byte {
		e.run.markers[id] = newest
		return strconv.AppendInt(nil, int64(newest), 10)
	})
	if err != nil {
		Log(ctx).Error(markerRefused, "id", id, "cause", err)
		return 0
	}
	return newest
}

func setCancelPolicy(ctx context.Context, p CancelPolicy) error {
	e, err := enter(ctx)
	if err != nil {
		return err
	}
	return e.now(ctx, &EnvCall{Kind: "cancel_policy"}, func() error {
		if p != FinalCancel && p != CooperativeCancel {
			return abi.Errorf(abi.InvalidArgument, "cancel policy must be %d or %d, got %d", FinalCancel, CooperativeCancel, p)
		}
		return nil
	}, func() []byte {
		e.run.policy = p
		return strconv.AppendInt(nil, int64(p), 10)
	})
}

func setQuery(ctx context.Context, name string, fn queryFunc) {
	if e, err := enter(ctx); err == nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.run.queries[name] = fn
	}
}
