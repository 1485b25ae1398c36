// Command restarts has the workflow of the tests that restart runs: it performs a program that is its input.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func main() {}

func init() {
	workflow.Register("program", program, workflow.InputSchema("true"))
	workflow.Register("kid", kid, workflow.InputSchema("true"))
}

// mended is a text of the module that tests replace.
var mended = "mended: no "

// Op is an operation of a program.
type Op struct {
	Do    string `json:"do"`
	Name  string `json:"name,omitempty"`
	Token string `json:"token,omitempty"`
	ID    string `json:"id,omitempty"`
	MS    int    `json:"ms,omitempty"`
	Ops   []Op   `json:"ops,omitempty"` // of a race, or the rest of a program that continues as new
	Undo  string `json:"undo,omitempty"`
	Fails bool   `json:"fails,omitempty"` // a failure ends the program
}

// performance is a program at work.
type performance struct {
	saga  workflow.Saga
	trace []string
}

func program(ctx context.Context, ops []Op) (_ []string, err error) {
	p := &performance{}
	defer p.saga.Compensate(ctx, &err)
	if err := p.do(ctx, ops); err != nil {
		return nil, err
	}
	return p.trace, nil
}

func (p *performance) do(ctx context.Context, ops []Op) error {
	for i, o := range ops {
		if o.Do == "continue" {
			return workflow.ContinueAsNew(ctx, ops[i+1:])
		}
		v, err := p.one(ctx, o)
		if err != nil && o.Fails {
			return err
		}
		if err != nil {
			v = "failed"
		}
		p.trace = append(p.trace, o.Name+"="+v)
	}
	return nil
}

func (p *performance) one(ctx context.Context, o Op) (string, error) {
	switch o.Do {
	case "nameless":
		return workflow.Call[string](ctx, o.Name, "host/", o.Name, workflow.Attempts(1))
	case "call":
		v, err := workflow.Call[string](ctx, o.Name, "host/note", o.Name, workflow.Attempts(1))
		if err == nil && o.Undo != "" {
			p.saga.Add(func(ctx context.Context) error {
				_, err := workflow.Call[string](ctx, o.Undo, "host/note", o.Undo)
				return err
			})
		}
		return v, err
	case "body":
		return workflow.Do(ctx, o.Name, func(workflow.Step) (string, error) { return "body " + o.Name, nil })
	case "byhand": // undoes by hand what it has done if the next step fails
		if _, err := workflow.Call[string](ctx, o.Name, "host/note", o.Name, workflow.Attempts(1)); err != nil {
			_, _ = workflow.Call[string](ctx, o.Undo, "host/note", o.Undo)
			return "", err
		}
		return o.Name, nil
	case "sleep":
		return "slept", workflow.Sleep(ctx, o.Name, time.Duration(o.MS)*time.Millisecond)
	case "hook":
		token, err := workflow.Hook(ctx, o.Name, o.Token)
		if err != nil {
			return "taken", nil
		}
		v, err := p.receive(ctx, o)
		if o.Token == "" { // what it is told differs from run to run
			token = ""
		}
		return token + ":" + v, err
	case "signal":
		return p.receive(ctx, o)
	case "child":
		return workflow.Child[string](ctx, o.Name, "kid", o.MS, workflow.OnEnd(workflow.EndPolicy(cmp.Or(o.Undo, "cancel"))))
	case "timer":
		return p.timer(o)
	case "fail":
		return "", errors.New(o.Name)
	case "emit":
		_, _ = workflow.Emit(ctx, "out", o.Name)
		return "", workflow.SetAttribute(ctx, "last", o.Name)
	case "own":
		_, err := workflow.Call[string](ctx, o.Name, "host/note", workflow.Info(ctx).RunID)
		return "own", err
	case "handler": // that is named, with further attempts
		return workflow.Call[string](ctx, o.Name, o.ID, o.Name, workflow.Attempts(9))
	case "group":
		return p.group(ctx, o)
	case "then": // one after the other
		for _, x := range o.Ops {
			if _, err := p.one(ctx, x); err != nil {
				return "", err
			}
		}
		return "done", nil
	case "race":
		return p.race(ctx, o)
	}
	return p.another(ctx, o)
}

// timer starts a timer that is open while the program goes on, and ticks if it has an id.
func (p *performance) timer(o Op) (string, error) {
	d := time.Duration(o.MS) * time.Millisecond
	if o.ID == "" {
		_ = time.AfterFunc(d, func() {})
		return "runs", nil
	}
	go func() {
		for range 5 {
			time.Sleep(d)
		}
	}()
	return "ticks", nil
}

func (p *performance) receive(ctx context.Context, o Op) (string, error) {
	within, cancel := context.WithTimeout(ctx, time.Duration(o.MS)*time.Millisecond)
	defer cancel()
	v, err := workflow.Receive[string](within, o.Name)
	if errors.Is(err, context.DeadlineExceeded) {
		return "nobody", nil
	}
	return v, err
}

// group performs operations at once. If one fails, the others are cancelled and waited for.
func (p *performance) group(ctx context.Context, o Op) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	texts := make([]string, len(o.Ops))
	for i, x := range o.Ops {
		all.Go(func() {
			v, err := p.one(ctx, x)
			if err != nil {
				cancel(err)
			}
			texts[i] = v
		})
	}
	all.Wait()
	return strings.Join(texts, ","), context.Cause(ctx)
}

// race takes what comes first of several operations, which all go on.
func (p *performance) race(ctx context.Context, o Op) (string, error) {
	won := make(chan string, len(o.Ops))
	for _, x := range o.Ops {
		go func() {
			v, err := p.one(ctx, x)
			if err != nil {
				v = "failed"
			}
			won <- x.Name + "=" + v
		}()
	}
	return <-won, nil
}

// kid sleeps, and says so.
func kid(ctx context.Context, ms int) (string, error) {
	if err := workflow.Sleep(ctx, "nap", time.Duration(ms)*time.Millisecond); err != nil {
		return "", err
	}
	return workflow.Call[string](ctx, "kid's", "host/note", "kid's")
}

// another performs the operations that one does not know.
func (p *performance) another(ctx context.Context, o Op) (string, error) {
	switch o.Do {
	case "start": // and is not awaited
		opts := []workflow.ChildOption{workflow.OnEnd(workflow.EndPolicy(o.Undo))}
		if o.ID != "" {
			opts = append(opts, workflow.ChildID(o.ID))
		}
		if _, err := workflow.StartChild[string](ctx, o.Name, "kid", o.MS, opts...); err != nil {
			return "", err
		}
		return "started", workflow.Sleep(ctx, o.Name+" and a nap", time.Millisecond)
	case "pause":
		time.Sleep(time.Duration(o.MS) * time.Millisecond)
		_, err := workflow.Emit(ctx, "out", o.Name)
		return "paused", err
	case "mended": // fails, but in the module that tests make of this one
		if mended != "mended: yes" {
			return "", errors.New(mended)
		}
		o.Do = "pause"
		return p.one(ctx, o)
	case "late": // an operation whose failure counts after a sleep
		v, failed := p.one(ctx, o.Ops[0])
		if err := workflow.Sleep(ctx, o.Name, time.Duration(o.MS)*time.Millisecond); err != nil {
			return "", err
		}
		return v, failed
	case "within": // operations with a time-out
		within, cancel := context.WithTimeout(ctx, time.Duration(o.MS)*time.Millisecond)
		defer cancel()
		o.Do = "then"
		return p.one(within, o)
	case "select":
		return p.selects(ctx, o)
	case "many": // until the journal has become long, most of it with records that cost less than steps
		for range abi.SuggestContinueEntries * 3 / 4 {
			if _, err := workflow.Emit(ctx, o.Name, ""); err != nil {
				return "", err
			}
		}
		i := 0
		for ; !workflow.Info(ctx).SuggestContinue; i++ {
			_, err := workflow.Call[string](ctx, fmt.Sprint(o.Name, i), o.ID, o.Name, workflow.Attempts(2),
				workflow.Delay(time.Millisecond))
			if err != nil {
				return "", err
			}
		}
		return fmt.Sprint(i), nil
	case "marker":
		return fmt.Sprint(workflow.Version(ctx, o.Name, 1)), nil
	}
	return "", fmt.Errorf("there is no %q", o.Do)
}

// selects waits for two timers, while another goroutine waits for a signal.
func (p *performance) selects(ctx context.Context, o Op) (string, error) {
	workflow.Async(ctx, func(ctx context.Context) (string, error) { return workflow.Receive[string](ctx, o.Name) })
	d := time.Duration(o.MS) * time.Millisecond
	short, long := time.After(d), time.NewTicker(2*d)
	defer long.Stop()
	text := ""
	for range 2 {
		select {
		case <-short:
			text += "short"
		case <-long.C:
			text += "long"
		case <-ctx.Done():
			return text, context.Cause(ctx)
		}
	}
	return text, nil
}
