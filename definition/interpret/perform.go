package interpret

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/cron"
	"github.com/wfhost/wfhost/definition"
	"github.com/wfhost/wfhost/definition/expression"
	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

// name returns a name that is not in the journal yet: an auxiliary step may be performed more than once.
func (p *performance) name(of string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := of
	for i := 2; p.names[name]; i++ {
		name = of + " #" + strconv.Itoa(i)
	}
	p.names[name] = true
	return name
}

// perform performs a step, without its handling of failures. given is the default input, for steps without a config. If a map
// fails, perform also returns the outputs of completed items.
func (p *performance) perform(ctx context.Context, s *definition.Step, env map[string]any, given any) (any, error) {
	if s.Config != nil && s.Type != definition.Map && s.Type != definition.Loop {
		v, err := s.Config.Eval(env)
		if err != nil {
			return nil, fmt.Errorf("step %q: %w", s.Name, err)
		}
		given = v
	}
	var out any
	var err error
	switch s.Type {
	case definition.Task, definition.HTTP:
		return p.call(ctx, p.name(s.Name), s, given)
	case definition.Workflow:
		return p.child(ctx, p.name(s.Name), s, given)
	case definition.Wait:
		out, err = p.wait(ctx, s, env)
	case definition.Event:
		out, err = p.event(ctx, s, env)
	case definition.Approval:
		out, err = p.approval(ctx, s, env, given)
	case definition.Map:
		return p.fan(ctx, s, env, given)
	case definition.Loop:
		return p.loop(ctx, s, env, given)
	case definition.Set:
		return given, nil
	case definition.Emit:
		_, err = workflow.Emit(ctx, s.Topic, given)
		out = given
	case definition.Fail:
		var message string
		message, err = definition.Written(given)
		if err == nil {
			err = errors.New(message)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("step %q: %w", s.Name, err)
	}
	return out, nil
}

// call performs a step by a handler.
func (p *performance) call(ctx context.Context, name string, s *definition.Step, given any) (any, error) {
	b, err := workflow.Call[json.RawMessage](ctx, name, s.Handler, given, options(s)...)
	if err != nil {
		return nil, err
	}
	return decode(name, b)
}

func decode(name string, b []byte) (any, error) {
	v, err := expression.Decode(b)
	if err != nil {
		return nil, fmt.Errorf("result of step %q: %w", name, err)
	}
	return v, nil
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// options returns the options for the attempts of a step.
func options(s *definition.Step) (opts []workflow.Option) {
	if r := s.Retry; r != nil {
		opts = append(opts, workflow.Attempts(r.Attempts), workflow.Delay(ms(r.DelayMs)), workflow.Backoff(workflow.Growth(r.Backoff)),
			workflow.Factor(r.Factor), workflow.Jitter(r.Jitter))
		if r.MaxDelayMs > 0 {
			opts = append(opts, workflow.MaxDelay(ms(r.MaxDelayMs)))
		}
		if r.MaxElapsedMs > 0 {
			opts = append(opts, workflow.MaxElapsed(ms(r.MaxElapsedMs)))
		}
	}
	if s.TimeoutMs > 0 {
		opts = append(opts, workflow.Timeout(ms(s.TimeoutMs)))
	}
	return opts
}

// child performs a step by a run of another workflow.
func (p *performance) child(ctx context.Context, name string, s *definition.Step, given any) (any, error) {
	var opts []workflow.ChildOption
	if s.TimeoutMs > 0 {
		opts = append(opts, workflow.ChildTimeout(ms(s.TimeoutMs)))
	}
	if s.Detach {
		opts = append(opts, workflow.OnEnd(workflow.EndAbandon))
		c, err := workflow.StartChild[json.RawMessage](ctx, name, s.Workflow, given, opts...)
		if err != nil {
			return nil, fmt.Errorf("step %q: %w", name, err)
		}
		return map[string]any{"run": c.ID}, nil
	}
	b, err := workflow.Child[json.RawMessage](ctx, name, s.Workflow, given, opts...)
	if err != nil {
		return nil, fmt.Errorf("step %q: %w", name, err)
	}
	return decode(name, b)
}

// wait sleeps until the latest of the instants that a step names.
func (p *performance) wait(ctx context.Context, s *definition.Step, env map[string]any) (any, error) {
	now := time.Now()
	w := s.Wait
	until := now
	later := func(at time.Time) {
		if at.After(until) {
			until = at
		}
	}
	if w.Duration != nil {
		v, err := w.Duration.Eval(env)
		if err != nil {
			return nil, err
		}
		d, err := duration(v)
		if err != nil {
			return nil, err
		}
		if w.Until == nil && w.Cron == "" && d <= ms(w.MaxMs) {
			return nil, workflow.Sleep(ctx, p.name(s.Name), d)
		}
		later(now.Add(d))
	}
	if w.Until != nil {
		v, err := w.Until.Eval(env)
		if err != nil {
			return nil, err
		}
		at, err := instant(v, now, w.UntilMs)
		if err != nil {
			return nil, err
		}
		later(at)
	}
	if w.Cron != "" {
		times, err := cron.Parse(w.Cron, w.Zone)
		if err != nil {
			return nil, err
		}
		at, ok := times.Next(now)
		if !ok {
			return nil, fmt.Errorf("%q is never due after %s", w.Cron, now.UTC().Format(time.RFC3339))
		}
		later(at)
	}
	if d := until.Sub(now); d > ms(w.MaxMs) {
		return nil, fmt.Errorf("it would wait until %s, which is longer than the limit of %s", until.UTC().Format(time.RFC3339),
			abi.FormatDuration(w.MaxMs))
	}
	return nil, workflow.SleepUntil(ctx, p.name(s.Name), until)
}

// duration converts text, or a number of milliseconds, to a duration.
func duration(v any) (time.Duration, error) {
	n := 0.0
	switch v := v.(type) {
	case int:
		n = float64(v)
	case float64:
		n = v
	case string:
		parsed, err := abi.ParseDuration(v)
		if err != nil {
			return 0, err
		}
		n = float64(parsed)
	default:
		return 0, fmt.Errorf("a duration is a text or a number of milliseconds, got %s", shown(v))
	}
	const most = 100 * 366 * 24 * 3600 * 1000 // far above any limit, and fits into a time.Duration
	if !(n >= 0 && n <= most) {
		return 0, fmt.Errorf("a duration is from 0 to 100 years, got %s", shown(v))
	}
	return time.Duration(n * float64(time.Millisecond)), nil
}

// instant converts text or, if numbers is set, a number of milliseconds from now to an instant.
func instant(v any, now time.Time, numbers bool) (time.Time, error) {
	if text, ok := v.(string); ok {
		at, err := abi.ParseInstant(text)
		return time.UnixMilli(at), err
	}
	switch v.(type) {
	case int, float64:
		if numbers {
			d, err := duration(v)
			return now.Add(d), err
		}
	}
	return time.Time{}, fmt.Errorf("an instant is a text of RFC 3339, got %s", shown(v))
}

// shown returns a value as text for an error.
func shown(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("a %T", v)
	}
	return fmt.Sprintf("%.60s", b)
}

// approval emits a request with the token of a hook to the output of the run, and waits for a person's decision.
func (p *performance) approval(ctx context.Context, s *definition.Step, env map[string]any, given any) (any, error) {
	prompt, err := s.Prompt.Eval(env)
	if err != nil {
		return nil, err
	}
	if s.Content != "" {
		given = p.state[s.Content]
	} else if s.Config == nil {
		given = nil
	}
	token, err := workflow.Hook(ctx, s.Signal, "", workflow.HookReply(200, "text/plain", "Thank you.\n"))
	if err != nil {
		return nil, err
	}
	topic := s.Topic
	if topic == "" {
		topic = "approval"
	}
	ask := map[string]any{"step": s.Name, "signal": s.Signal, "prompt": prompt, "content": given, "token": token}
	if _, err := workflow.Emit(ctx, topic, ask); err != nil {
		return nil, err
	}
	end := deadline(s)
	for {
		v, err := receive(ctx, s.Signal, end)
		switch {
		case errors.Is(err, workflow.ErrTimeout):
			v = map[string]any{"decision": "rejected", "timeout": true}
			err = fmt.Errorf("nobody decided within %s", abi.FormatDuration(s.TimeoutMs))
			if s.Continue {
				return v, nil
			}
			return nil, err
		case err != nil:
			return nil, err
		}
		fields, decision := decided(v)
		switch {
		case decision == "rejected" && !s.Continue:
			if by, ok := fields["decidedBy"].(string); ok {
				return nil, fmt.Errorf("it was rejected by %s", by)
			}
			return nil, errors.New("it was rejected")
		case decision != "":
			return fields, nil
		}
		workflow.Log(ctx).Warn("a signal is no decision, and is dropped", "step", s.Name, "payload", shown(v))
	}
}

// decided reads the decision in a payload. It returns the fields, with the decision in them, and the decision, "" if there is
// none.
func decided(v any) (map[string]any, string) {
	fields, ok := v.(map[string]any)
	if !ok {
		return nil, ""
	}
	decision, _ := fields["decision"].(string)
	if yes, ok := fields["approved"].(bool); ok && decision == "" {
		decision = "rejected"
		if yes {
			decision = "approved"
		}
	}
	switch decision {
	case "approved", "rejected", "edited":
	default:
		return nil, ""
	}
	fields = maps.Clone(fields)
	fields["decision"] = decision
	return fields, decision
}

// fan performs a step for each element of a list, several at a time, and returns the outputs in the order of the list. If it
// fails, it returns the outputs of completed elements, with nil for the rest; nil if no element completed.
func (p *performance) fan(ctx context.Context, s *definition.Step, env map[string]any, given any) (any, error) {
	v := given
	if s.Items != nil {
		var err error
		v, err = s.Items.Eval(env)
		if err != nil {
			return nil, fmt.Errorf("step %q: %w", s.Name, err)
		}
	}
	items, ok := v.([]any)
	switch {
	case !ok:
		return nil, fmt.Errorf("step %q: its items must be a list, got %s", s.Name, shown(v))
	case len(items) > s.MaxItems:
		return nil, fmt.Errorf("step %q has %d items, the limit is %d", s.Name, len(items), s.MaxItems)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := make([]any, len(items))
	var mu sync.Mutex // guards next, done and first
	var first error
	next, done := 0, 0
	take := func(err error) int {
		mu.Lock()
		defer mu.Unlock()
		if err != nil && first == nil {
			first = err
			cancel(err)
		}
		if first != nil {
			return len(items)
		}
		next++
		return next - 1
	}
	var all sync.WaitGroup
	for range min(s.Parallel, len(items)) {
		all.Go(func() {
			var err error
			for i := take(nil); i < len(items); i = take(err) {
				out[i], err = p.item(ctx, s, env, i, items[i])
				if err == nil {
					mu.Lock()
					done++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	switch {
	case first == nil:
		return out, nil
	case done == 0:
		return nil, first
	}
	return out, first
}

// item performs a step for an element.
func (p *performance) item(ctx context.Context, s *definition.Step, env map[string]any, i int, item any) (any, error) {
	name := p.name(s.Name + "[" + strconv.Itoa(i) + "]")
	given := item
	if s.Config != nil {
		with := maps.Clone(env)
		with["item"], with["index"] = item, i
		var err error
		given, err = s.Config.Eval(with)
		if err != nil {
			return nil, fmt.Errorf("step %q: %w", name, err)
		}
	}
	if s.Workflow != "" {
		return p.child(ctx, name, s, given)
	}
	return p.call(ctx, name, s, given)
}

// loop calls a handler repeatedly until finished returns true. The input of a call is the config, or else the previous output.
// loop fails if the limits of the step are reached.
func (p *performance) loop(ctx context.Context, s *definition.Step, env map[string]any, given any) (any, error) {
	begin := time.Now()
	var out any
	for i := range s.Bounds.MaxIterations {
		with := maps.Clone(env)
		with["output"], with["iteration"] = out, i
		if s.Config != nil {
			var err error
			given, err = s.Config.Eval(with)
			if err != nil {
				return nil, fmt.Errorf("step %q: %w", s.Name, err)
			}
		}
		var err error
		out, err = p.call(ctx, p.name(s.Name+"["+strconv.Itoa(i)+"]"), s, given)
		if err != nil {
			return nil, err
		}
		done, err := finished(s, with, out)
		if err != nil {
			return nil, fmt.Errorf("step %q: %w", s.Name, err)
		}
		if done {
			return out, nil
		}
		given = out
		if d := s.Bounds.MaxDurationMs; d > 0 && time.Since(begin)+ms(s.Bounds.DelayMs) > ms(d) {
			return nil, fmt.Errorf("step %q is not done after %d iterations in %s, its limit", s.Name, i+1, abi.FormatDuration(d))
		}
		if s.Bounds.DelayMs > 0 && i+1 < s.Bounds.MaxIterations {
			if err := workflow.Sleep(ctx, p.name(s.Name+"["+strconv.Itoa(i)+"] delay"), ms(s.Bounds.DelayMs)); err != nil {
				return nil, fmt.Errorf("step %q: %w", s.Name, err)
			}
		}
	}
	return nil, fmt.Errorf("step %q is not done after %d iterations, its limit", s.Name, s.Bounds.MaxIterations)
}

// finished reports whether a loop is done.
func finished(s *definition.Step, env map[string]any, out any) (bool, error) {
	if s.Bounds.Until == nil {
		fields, _ := out.(map[string]any)
		again, _ := fields["continue"].(bool)
		return !again, nil
	}
	env["output"] = out
	v, err := s.Bounds.Until.Eval(env)
	return expression.Truth(v), err
}
