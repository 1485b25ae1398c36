package interpret

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/definition"
	"github.com/wfhost/wfhost/definition/expression"
	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

// receive waits for a signal until a deadline. A zero deadline means no limit.
func receive(ctx context.Context, name string, deadline time.Time) (any, error) {
	var b json.RawMessage
	var err error
	if deadline.IsZero() {
		b, err = workflow.Receive[json.RawMessage](ctx, name)
	} else {
		b, err = workflow.ReceiveTimeout[json.RawMessage](ctx, name, max(time.Until(deadline), 0))
	}
	if err != nil {
		return nil, err
	}
	return expression.Decode(b)
}

// deadline returns the end of a wait for a signal, zero if there is no limit.
func deadline(s *definition.Step) time.Time {
	if s.TimeoutMs == 0 {
		return time.Time{}
	}
	return time.Now().Add(ms(s.TimeoutMs))
}

// waiter is an event that waits for a signal. Several nodes of a graph may wait for the same signal. The node that receives it
// passes it to the first node whose condition it meets.
type waiter struct {
	s     *definition.Step
	env   map[string]any
	stop  context.CancelFunc // ends this wait after another node has received its signal
	given bool               // value is set
	value any
}

// fits reports whether a signal meets the event's condition. The error is the reason if the condition cannot be evaluated.
func (w *waiter) fits(v any) (bool, error) {
	if w.s.Where == nil {
		return true, nil
	}
	with := maps.Clone(w.env)
	with["event"] = v
	is, err := w.s.Where.Eval(with)
	return err == nil && expression.Truth(is), err
}

// event waits for a signal that meets the step's condition.
func (p *performance) event(ctx context.Context, s *definition.Step, env map[string]any) (any, error) {
	end := deadline(s)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w := &waiter{s: s, env: env, stop: stop}
	p.mu.Lock()
	p.waiting = append(p.waiting, w)
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.waiting = slices.DeleteFunc(p.waiting, func(of *waiter) bool { return of == w })
	}()
	for {
		v, err := receive(ctx, s.Signal, end)
		if err == nil {
			if taken, cause := p.hand(w, v); !taken {
				workflow.Log(ctx).Info("a signal does not fit, and is dropped", "step", s.Name, "signal", s.Signal, "cause", cause)
			}
		}
		p.mu.Lock()
		given := w.given
		p.mu.Unlock()
		switch {
		case given:
			return w.value, nil
		case errors.Is(err, workflow.ErrTimeout) && s.Continue:
			return map[string]any{"timeout": true}, nil
		case errors.Is(err, workflow.ErrTimeout):
			return nil, fmt.Errorf("no signal %q within %s", s.Signal, abi.FormatDuration(s.TimeoutMs))
		case err != nil:
			return nil, err
		}
	}
}

// hand passes a signal that the event by has received to the first event whose condition it meets. taken reports whether there
// is such an event. cause is the error of a condition that could not be evaluated.
func (p *performance) hand(by *waiter, v any) (taken bool, cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.waiting {
		if w.s.Signal != by.s.Signal || w.given {
			continue
		}
		fits, err := w.fits(v)
		if !fits {
			cause = errors.Join(cause, err)
			continue
		}
		w.given, w.value = true, v
		if w != by {
			w.stop()
		}
		return true, nil
	}
	return false, cause
}
