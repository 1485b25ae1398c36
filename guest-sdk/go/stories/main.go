// Command stories has the story workflows of docs/reference/conformance.md, in Go. Their journals are the reference for the
// journals of the other SDKs.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/stories/rules"
	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func main() {} // a host calls the registered workflows

// add registers a story as a workflow, and by its name for the tests in memory.
func add[In, Out any](name string, fn func(context.Context, In) (Out, error), opts ...workflow.RegisterOption) {
	workflow.Register(name, fn, opts...)
	told(name, fn)
}

func init() {
	rules.Register()
	add("sleeps", sleeps)
	add("steps", steps)
	add("bodies", bodies)
	add("retries", retries)
	add("failures", failures)
	add("refusals", refusals)
	add("names", names)
	add("failing", failing)
	add("signals", signals, workflow.Signals("go", "none"))
	add("race", race, workflow.Signals("stop"))
	add("parallel", parallel)
	add("cancels", cancels)
	add("parent", parent)
	add("child", child)
	add("counter", counter, workflow.Signals("add"))
	add("queries", queries, workflow.Queries("status"))
	add("updates", updates, workflow.Updates("add"))
	add("output", output)
	add("markers", markers)
	add("hooks", hooks, workflow.Signals("paid"))
	add("sender", sender)
	add("listener", listener, workflow.Signals("go"))
	add("long", long)
	add("bytes", raw)
	add("chance", chance)

	workflow.RegisterStep("greet", func(_ workflow.Step, name string) (string, error) { return "hello " + name, nil })
	workflow.RegisterStep("double", func(_ workflow.Step, n int) (int, error) { return 2 * n, nil })
	workflow.RegisterStep("flaky", func(s workflow.Step, _ any) (string, error) {
		if s.Attempt < 3 {
			return "", fmt.Errorf("attempt %d", s.Attempt)
		}
		return fmt.Sprint("ok after ", s.Attempt), nil
	})
	workflow.RegisterStep("never", func(s workflow.Step, _ any) (string, error) {
		return "", fmt.Errorf("attempt %d", s.Attempt)
	})
}

// codes maps errors in the stories to their codes.
var codes = map[error]string{
	workflow.ErrInvalidArgument: "INVALID_ARGUMENT", workflow.ErrDuplicateName: "DUPLICATE_NAME",
	workflow.ErrInvalidDuration: "INVALID_DURATION", workflow.ErrInvalidDate: "INVALID_DATE",
	workflow.ErrNotHere: "NOT_HERE", workflow.ErrStepFailed: "STEP_FAILED", workflow.ErrTimeout: "TIMEOUT",
	workflow.ErrCancelled: "CANCELLED", workflow.ErrUnknownHandler: "UNKNOWN_HANDLER", workflow.ErrDenied: "DENIED",
	workflow.ErrChildFailed: "CHILD_FAILED", workflow.ErrConflict: "CONFLICT",
}

// codeOf returns the code of an error, "OK" if there is none.
func codeOf(err error) string {
	if err == nil {
		return "OK"
	}
	for sentinel, code := range codes {
		if errors.Is(err, sentinel) {
			return code
		}
	}
	return err.Error()
}

// or returns the value, or the code of the error if there is one.
func or[T any](v T, err error) any {
	if err != nil {
		return codeOf(err)
	}
	return v
}

func sleeps(ctx context.Context, _ any) ([]int64, error) {
	began := time.Now()
	var took []int64
	for _, sleep := range []func() error{
		func() error { return workflow.Sleep(ctx, "duration", 4*time.Second) },
		func() error { return workflow.Sleep(ctx, "nothing", 0) },
		func() error { return workflow.SleepUntil(ctx, "instant", began.Add(10*time.Second)) },
		func() error { return workflow.SleepText(ctx, "text", "1h30m") },
		func() error { return workflow.SleepUntil(ctx, "past", began) },
	} {
		if err := sleep(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began).Milliseconds())
	}
	return took, nil
}

func steps(ctx context.Context, name string) ([]any, error) {
	greeting, err := workflow.Call[string](ctx, "greet", "greet", name)
	if err != nil {
		return nil, err
	}
	a := workflow.Async(ctx, func(ctx context.Context) (int, error) { return workflow.Call[int](ctx, "a", "double", 21) })
	runtime.Gosched() // a is called first
	b := workflow.Async(ctx, func(ctx context.Context) (int, error) { return workflow.Call[int](ctx, "b", "double", 4) })
	x, err := a.Get(ctx)
	if err != nil {
		return nil, err
	}
	y, err := b.Get(ctx)
	return []any{greeting, x, y}, err
}

// changed is changed by bodies. The workflow must not see the changes.
var changed int

func bodies(ctx context.Context, name string) ([]any, error) {
	one, err := workflow.Do(ctx, "one", func(workflow.Step) (string, error) {
		changed++ //workflow:lost the story shows that it is
		return "body of " + name, nil
	})
	if err != nil {
		return nil, err
	}
	plain := func(name string) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			return workflow.Do(ctx, name, func(workflow.Step) (string, error) { return name, nil })
		}
	}
	a := workflow.Async(ctx, plain("a"))
	runtime.Gosched()
	b := workflow.Async(ctx, plain("b"))
	x, err := a.Get(ctx)
	if err != nil {
		return nil, err
	}
	y, err := b.Get(ctx)
	if err != nil {
		return nil, err
	}
	inside, err := workflow.Do(ctx, "inside", func(s workflow.Step) (string, error) {
		return codeOf(workflow.Sleep(s, "nap", time.Second)), nil
	})
	return []any{one, x, y, inside, changed}, err
}

func retries(ctx context.Context, _ any) ([]string, error) {
	flaky, err := workflow.Call[string](ctx, "flaky", "flaky", nil, workflow.Attempts(3), workflow.Delay(100*time.Millisecond))
	if err != nil {
		return nil, err
	}
	body, err := workflow.Do(ctx, "body", func(s workflow.Step) (string, error) {
		if s.Attempt == 1 {
			return "", errors.New("not yet")
		}
		return fmt.Sprint("ok after ", s.Attempt), nil
	}, workflow.Attempts(2))
	if err != nil {
		return nil, err
	}
	later, err := workflow.Do(ctx, "later", func(s workflow.Step) (string, error) {
		if s.Attempt == 1 {
			return "", workflow.RetryAfter(errors.New("busy"), 5*time.Second)
		}
		return fmt.Sprint("ok after ", s.Attempt), nil
	})
	return []string{flaky, body, later}, err
}

// failure describes a failed call in the result of a story.
type failure struct {
	Code     string `json:"code"`
	Kind     string `json:"kind"`
	Attempts int    `json:"attempts"`
	Message  string `json:"message"`
}

func failureOf(err error) failure {
	e, ok := errors.AsType[*workflow.StepError](err)
	if !ok {
		return failure{Code: codeOf(err)}
	}
	return failure{e.Code, e.Kind, e.Attempts, e.Message}
}

func failures(ctx context.Context, _ any) ([]failure, error) {
	_, never := workflow.Call[any](ctx, "never", "never", nil, workflow.Attempts(2), workflow.Delay(10*time.Millisecond))
	_, fatal := workflow.Do(ctx, "fatal", func(workflow.Step) (any, error) {
		return nil, workflow.Fatal(errors.New("out of stock"))
	})
	return []failure{failureOf(never), failureOf(fatal)}, nil
}

func refusals(ctx context.Context, _ any) ([]string, error) {
	call := func(name, handler string) error {
		_, err := workflow.Call[any](ctx, name, handler, nil)
		return err
	}
	var list []string
	for _, err := range []error{
		workflow.Sleep(ctx, "negative", -time.Millisecond), workflow.SleepText(ctx, "bare", "5"),
		workflow.SleepText(ctx, "date", "2026-13-01"), call("nobody", "nobody"), call("denied", "host/vault"),
		workflow.Sleep(ctx, "", 0),
	} {
		list = append(list, codeOf(err))
	}
	return list, nil
}

func names(ctx context.Context, _ any) ([]string, error) {
	first := workflow.Sleep(ctx, "x", 0)
	return []string{codeOf(first), codeOf(workflow.Sleep(ctx, "x", 0))}, nil
}

func failing(ctx context.Context, _ any) (any, error) {
	if err := workflow.Sleep(ctx, "nap", time.Second); err != nil {
		return nil, err
	}
	return nil, errors.New("nothing in stock")
}

func signals(ctx context.Context, _ any) ([]any, error) {
	first, err := workflow.ReceiveTimeout[json.RawMessage](ctx, "go", 3*time.Second)
	list := []any{or(first, err)}
	second, err := workflow.Receive[json.RawMessage](ctx, "go")
	list = append(list, or(second, err))
	none, err := workflow.ReceiveTimeout[json.RawMessage](ctx, "none", 100*time.Millisecond)
	return append(list, or(none, err)), nil
}

func race(ctx context.Context, _ any) ([]any, error) {
	both, withdraw := context.WithCancel(ctx)
	stop := workflow.Async(both, func(ctx context.Context) (string, error) { return workflow.Receive[string](ctx, "stop") })
	runtime.Gosched() // the wait is called first
	limit := workflow.Async(both, func(ctx context.Context) (any, error) {
		return nil, workflow.Sleep(ctx, "limit", 5*time.Second)
	})
	var list []any
	select {
	case <-stop.Done():
		v, err := stop.Get(ctx)
		list = append(list, "stop", or(v, err))
	case <-limit.Done():
		list = append(list, "limit")
	}
	withdraw()
	runtime.Gosched() // the loser is withdrawn here
	if err := workflow.Sleep(ctx, "after", time.Second); err != nil {
		return nil, err
	}
	v, err := workflow.ReceiveTimeout[string](ctx, "stop", 10*time.Second)
	return append(list, or(v, err)), nil
}

func parallel(ctx context.Context, _ any) ([]string, error) {
	woke := make(chan string)
	for _, s := range []struct {
		name string
		d    time.Duration
	}{{"c", 3 * time.Second}, {"a", time.Second}, {"b", 2 * time.Second}} {
		go func() {
			if err := workflow.Sleep(ctx, s.name, s.d); err != nil {
				panic(err)
			}
			woke <- s.name
		}()
		runtime.Gosched()
	}
	return []string{<-woke, <-woke, <-woke}, nil
}

func cancels(ctx context.Context, how string) (string, error) {
	if how != "final" {
		if err := workflow.SetCancelPolicy(ctx, workflow.CooperativeCancel); err != nil {
			return "", err
		}
	}
	err := workflow.Sleep(ctx, "long", time.Hour)
	if err == nil {
		return "slept", nil
	}
	if _, err := workflow.Call[string](context.WithoutCancel(ctx), "clean up", "greet", "cleaner"); err != nil {
		return "", err
	}
	if how == "ignore" {
		return codeOf(err) + ", but done", nil
	}
	return "", err
}

func parent(ctx context.Context, _ any) ([]any, error) {
	first, err := workflow.Child[int](ctx, "first", "child", 20)
	if err != nil {
		return nil, err
	}
	second, err := workflow.StartChild[int](ctx, "second", "child", 40, workflow.ChildID("parent-second"))
	if err != nil {
		return nil, err
	}
	n, err := second.Wait(ctx)
	if err != nil {
		return nil, err
	}
	_, failed := workflow.Child[int](ctx, "third", "child", -1)
	f := failureOf(failed)
	return []any{first, second.ID, n, f.Code, f.Kind}, nil
}

func child(ctx context.Context, n int) (int, error) {
	if n < 0 {
		return 0, errors.New("negative")
	}
	return n + 1, workflow.Sleep(ctx, "nap", time.Second)
}

func counter(ctx context.Context, n int) (int, error) {
	v, err := workflow.Receive[int](ctx, "add")
	if err != nil {
		return 0, err
	}
	n += v
	if n < 10 {
		return 0, workflow.ContinueAsNew(ctx, n)
	}
	return n, nil
}

func queries(ctx context.Context, _ any) (string, error) {
	at := "start"
	workflow.Query(ctx, "status", func(in string) (map[string]string, error) {
		if in == "refuse" {
			return nil, errors.New("refused")
		}
		return map[string]string{"at": at}, nil
	})
	at = "nap"
	if err := workflow.Sleep(ctx, "nap", 10*time.Second); err != nil {
		return "", err
	}
	at = "end"
	return "done", nil
}

func updates(ctx context.Context, _ any) (int, error) {
	total, done := 0, make(chan struct{})
	workflow.OnUpdate(ctx, "add", func(_ context.Context, n int) (int, error) {
		total += n
		if total >= 10 {
			close(done)
		}
		return total, nil
	}, workflow.Validate(func(n int) error {
		if n <= 0 {
			return errors.New("only more can be added")
		}
		return nil
	}))
	<-done
	return total, workflow.UpdatesDone(ctx)
}

func output(ctx context.Context, _ any) ([]int64, error) {
	first, err := workflow.Emit(ctx, "progress", "started")
	if err != nil {
		return nil, err
	}
	if err := workflow.SetAttribute(ctx, "customer", "ada"); err != nil {
		return nil, err
	}
	version := workflow.Version(ctx, "change", 2)
	if err := workflow.Sleep(ctx, "nap", time.Second); err != nil {
		return nil, err
	}
	second, err := workflow.Emit(ctx, "progress", map[string]int{"percent": 100})
	return []int64{first, int64(version), second}, err
}

func markers(ctx context.Context, newest int) ([]int, error) {
	var got []int
	for range 3 {
		got = append(got, workflow.Version(ctx, "tax", newest))
	}
	if err := workflow.Sleep(ctx, "tax", time.Second); err != nil {
		return nil, err
	}
	got = append(got, workflow.Version(ctx, "tax", newest+1), workflow.Version(ctx, "nap", 1))
	if err := workflow.Sleep(ctx, "nap", time.Second); err != nil {
		return nil, err
	}
	got = append(got, workflow.Version(ctx, "nap", 5))
	if _, err := workflow.Emit(ctx, "tax", got); err != nil {
		return nil, err
	}
	if newest < 3 {
		return nil, workflow.ContinueAsNew(ctx, newest+1)
	}
	return got, nil
}

func hooks(ctx context.Context, _ any) ([]string, error) {
	token, err := workflow.Hook(ctx, "paid", "token-of-the-story", workflow.HookReply(200, "text/plain", "thanks"))
	if err != nil {
		return nil, err
	}
	_, taken := workflow.Hook(ctx, "paid", "token-of-the-story")
	by, err := workflow.Receive[string](ctx, "paid")
	return []string{token, codeOf(taken), by}, err
}

func sender(ctx context.Context, _ any) ([]string, error) {
	nobody := workflow.Send(ctx, "nobody-is-there", "go", "hello")
	c, err := workflow.StartChild[string](ctx, "listener", "listener", nil, workflow.ChildID("sender-listener"))
	if err != nil {
		return nil, err
	}
	if err := workflow.Sleep(ctx, "nap", time.Second); err != nil { // the child has begun by then
		return nil, err
	}
	sent := workflow.Send(ctx, c.ID, "go", "hello")
	heard, err := c.Wait(ctx)
	return []string{codeOf(nobody), codeOf(sent), heard}, err
}

func listener(ctx context.Context, _ any) (string, error) { return workflow.Receive[string](ctx, "go") }

func long(ctx context.Context, n int) (int, error) {
	sum := 0
	for i := range n {
		v, err := workflow.Do(ctx, fmt.Sprint("body ", i), func(workflow.Step) (int, error) { return sum + i, nil })
		if err != nil {
			return 0, err
		}
		sum = v
		if i%10 == 9 {
			if err := workflow.Sleep(ctx, fmt.Sprint("sleep ", i), time.Minute); err != nil {
				return 0, err
			}
		}
	}
	return sum, nil
}

func raw(ctx context.Context, in workflow.Bytes) (workflow.Bytes, error) {
	out, err := workflow.Do(ctx, "twice", func(workflow.Step) (workflow.Bytes, error) {
		return append(append(workflow.Bytes{}, in...), in...), nil
	})
	return out, err
}

// chance draws random numbers, keeps them over a sleep, and draws more. A replay must draw the same numbers; the comparison of
// memory checks this.
func chance(ctx context.Context, _ any) ([]bool, error) {
	before := workflow.Rand(ctx).Uint64()
	if err := workflow.Sleep(ctx, "nap", time.Second); err != nil {
		return nil, err
	}
	after := workflow.Rand(ctx).Uint64()
	return []bool{before != after, workflow.Info(ctx).RunID == "chance"}, nil
}
