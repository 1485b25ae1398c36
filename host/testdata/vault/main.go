// Command vault holds a workflow that puts its input into every kind of payload, and no text of its own that is the same.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func main() {}

func init() {
	workflow.Register("vault", vault)
	workflow.Register("opened", opened)
	workflow.Register("inner", inner)
	workflow.Register("broken", broken)
	workflow.Register("kept", kept, workflow.Updates("set", "refuse"))
	workflow.Register("held", held)
	workflow.Register("gathered", held)
}

// large is more than is kept within a record.
const large = 300 << 10

// vault puts a marker everywhere, waits for a delivery, continues as new, and then for a signal.
func vault(ctx context.Context, mark string) (string, error) {
	is := func(what string) string { return fmt.Sprintf("%s-%s", mark, what) }
	if workflow.Info(ctx).Iteration > 0 {
		if _, err := workflow.Receive[string](ctx, is("name")); err != nil {
			return "", err
		}
		return "", errors.New(is("end"))
	}
	workflow.Log(ctx).Info(is("log"))
	if _, err := workflow.Call[string](ctx, is("stepname"), "host/echo", is("stepinput")); err != nil {
		return "", err
	}
	_, err := workflow.Call[string](ctx, is("failing"), "host/fail", is("failinput"), workflow.Attempts(1))
	if err == nil {
		return "", errors.New("the step has not failed")
	}
	if _, err := workflow.Do(ctx, "body", func(s workflow.Step) (string, error) {
		workflow.Log(s).Warn(is("bodylog"))
		return is("bodyresult"), nil
	}); err != nil {
		return "", err
	}
	if _, err := workflow.Call[string](ctx, "large", "host/echo", is("large")+strings.Repeat("x", large)); err != nil {
		return "", err
	}
	if _, err := workflow.Emit(ctx, is("topic"), is("output")); err != nil {
		return "", err
	}
	if err := workflow.Send(ctx, "listener", "go", is("sent")); err != nil {
		return "", err
	}
	if _, err := workflow.Child[string](ctx, is("childname"), "inner", is("childinput")); err != nil {
		return "", err
	}
	if _, err := workflow.Child[string](ctx, "bad child", "broken", is("childerror")); err == nil {
		return "", errors.New("the child has not failed")
	}
	if _, err := workflow.Hook(ctx, "delivery", "open-sesame", workflow.HookReply(200, "text/plain", is("reply"))); err != nil {
		return "", err
	}
	if _, err := workflow.Receive[string](ctx, "delivery"); err != nil {
		return "", err
	}
	return "", workflow.ContinueAsNew(ctx, is("continued"))
}

// opened waits for signals, and says what it got.
func opened(ctx context.Context, _ string) (string, error) {
	a, err := workflow.Receive[string](ctx, "go")
	if err != nil {
		return "", err
	}
	b, err := workflow.Receive[string](ctx, "go")
	return a + " " + b, err
}

// kept has a handler record how far it has come, and then answers updates until it gets a signal.
func kept(ctx context.Context, mark string) (string, error) {
	if _, err := workflow.Call[string](ctx, "walk", "host/walk", mark+"-walk", workflow.Attempts(1)); err == nil {
		return "", errors.New("the step has not failed")
	}
	workflow.OnUpdate(ctx, "set", func(_ context.Context, in string) (string, error) { return in + "-answered", nil })
	workflow.OnUpdate(ctx, "refuse", func(_ context.Context, in string) (string, error) { return "", errors.New(in + "-failed") })
	return workflow.Receive[string](ctx, "go")
}

// held waits for a signal, whatever its input says.
func held(ctx context.Context, _ map[string]string) (string, error) {
	return workflow.Receive[string](ctx, "go")
}

func inner(_ context.Context, in string) (string, error) { return in + "-result", nil }

func broken(_ context.Context, in string) (string, error) { return "", errors.New(in + "-error") }
