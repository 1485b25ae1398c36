//go:build !wasip1

package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

// run runs a workflow in memory and prints its result.
func run[In, Out any](env *workflow.Env, fn func(context.Context, In) (Out, error), in In) {
	out, err := workflow.Run(context.Background(), env, fn, in)
	fmt.Println(out, err)
}

// A workflow that charges a card, waits for a decision, and ships.
func Example() {
	process := func(ctx context.Context, item string) (string, error) {
		payment, err := workflow.Do(ctx, "charge", func(s workflow.Step) (string, error) {
			return "payment for " + item, nil // hand s.IdempotencyKey to the payment service
		})
		if err != nil {
			return "", err
		}
		approved, err := workflow.ReceiveTimeout[bool](ctx, "decision", 48*time.Hour)
		if err != nil || !approved {
			return "not shipped", err
		}
		return "shipped, " + payment, nil
	}
	env := workflow.NewEnv()
	_ = env.SendSignal("decision", true)
	run(env, process, "a lamp")
	// Output: shipped, payment for a lamp <nil>
}

func ExampleDo() {
	run(workflow.NewEnv(), func(ctx context.Context, name string) (string, error) {
		return workflow.Do(ctx, "greet", func(s workflow.Step) (string, error) {
			if s.Attempt == 1 {
				return "", errors.New("nobody hears") // tried again
			}
			return fmt.Sprintf("hello %s, at attempt %d", name, s.Attempt), nil
		}, workflow.Delay(time.Millisecond), workflow.Attempts(5))
	}, "Ada")
	// Output: hello Ada, at attempt 2 <nil>
}

func ExampleFatal() {
	run(workflow.NewEnv(), func(ctx context.Context, card string) (string, error) {
		_, err := workflow.Do(ctx, "charge", func(workflow.Step) (string, error) {
			return "", workflow.Fatal(errors.New("the card is stolen")) // no other attempt can succeed
		})
		failed, ok := errors.AsType[*workflow.StepError](err)
		if !ok {
			return "", err
		}
		return fmt.Sprintf("%s after %d attempt: %s", failed.Code, failed.Attempts, failed.Message), nil
	}, "1234")
	// Output: STEP_FAILED after 1 attempt: the card is stolen <nil>
}

func ExampleCall() {
	env := workflow.NewEnv()
	workflow.Handle(env, "host/charge", func(s workflow.Step, cents int) (string, error) {
		return fmt.Sprintf("charged %d", cents), nil
	})
	run(env, func(ctx context.Context, cents int) (string, error) {
		return workflow.Call[string](ctx, "charge", "host/charge", cents)
	}, 1200)
	// Output: charged 1200 <nil>
}

func ExampleSleep() {
	run(workflow.NewEnv(), func(ctx context.Context, _ any) (string, error) {
		// On a host this may be a year: the workflow holds no instance in the meantime.
		return "good morning", workflow.Sleep(ctx, "night", time.Millisecond)
	}, nil)
	// Output: good morning <nil>
}

func ExampleReceive() {
	env := workflow.NewEnv()
	_ = env.SendSignal("line", "the first")
	_ = env.SendSignal("line", "the second")
	run(env, func(ctx context.Context, n int) (lines []string, err error) {
		for range n {
			line, err := workflow.Receive[string](ctx, "line")
			if err != nil {
				return nil, err
			}
			lines = append(lines, line)
		}
		return lines, nil
	}, 2)
	// Output: [the first the second] <nil>
}

func ExampleSignal() {
	env := workflow.NewEnv()
	_ = env.SendSignal("stop", "enough")
	run(env, func(ctx context.Context, _ any) (string, error) {
		select {
		case why := <-workflow.Signal[string](ctx, "stop"):
			return "stopped: " + why, nil
		case <-time.After(time.Hour):
			return "nobody stopped it", nil
		}
	}, nil)
	// Output: stopped: enough <nil>
}

func ExampleHook() {
	env := workflow.NewEnv()
	run(env, func(ctx context.Context, _ any) (string, error) {
		token, err := workflow.Hook(ctx, "decision", "invoice-7-please", workflow.HookReply(200, "text/plain", "Thank you."))
		if err != nil {
			return "", err
		}
		// A step would mail the link https://flows.example.com/v1/hooks/ and the token.
		if err := env.Deliver(token, "approved"); err != nil { // somebody follows it
			return "", err
		}
		return workflow.Receive[string](ctx, "decision")
	}, nil)
	// Output: approved <nil>
}

func ExampleChild() {
	env := workflow.NewEnv()
	workflow.HandleChild(env, "square", func(_ context.Context, n int) (int, error) { return n * n, nil })
	run(env, func(ctx context.Context, n int) (sum int, err error) {
		for i := range n {
			square, err := workflow.Child[int](ctx, fmt.Sprint("square ", i), "square", i)
			if err != nil {
				return 0, err
			}
			sum += square
		}
		return sum, nil
	}, 4)
	// Output: 14 <nil>
}

func ExampleContinueAsNew() {
	run(workflow.NewEnv(), func(ctx context.Context, days int) (string, error) {
		if days == 0 {
			return "over", nil
		}
		// Work for a day, then continue with an empty journal.
		return "", workflow.ContinueAsNew(ctx, days-1)
	}, 3)
	// Output: over <nil>
}

func ExampleVersion() {
	work := func(ctx context.Context, _ any) (string, error) {
		if workflow.Version(ctx, "check the address", 1) >= 1 {
			return "checked", nil
		}
		return "as before", nil // a run whose journal was written before the code had the marker
	}
	run(workflow.NewEnv(), work, nil)
	older := workflow.NewEnv()
	older.SetVersion("check the address", 0)
	run(older, work, nil)
	// Output:
	// checked <nil>
	// as before <nil>
}

func ExampleSaga() {
	env := workflow.NewEnv()
	run(env, func(ctx context.Context, _ any) (_ string, err error) {
		var saga workflow.Saga
		defer saga.Compensate(ctx, &err)
		if _, err := workflow.Do(ctx, "book", func(workflow.Step) (bool, error) { return true, nil }); err != nil {
			return "", err
		}
		saga.Add(func(ctx context.Context) error {
			_, err := workflow.Do(ctx, "cancel the booking", func(workflow.Step) (bool, error) { return true, nil })
			return err
		})
		return "", errors.New("the plane is full")
	}, nil)
	fmt.Println(env.Steps())
	// Output:
	//  the plane is full
	// [book cancel the booking]
}

func ExampleEmit() {
	env := workflow.NewEnv()
	run(env, func(ctx context.Context, n int) (string, error) {
		for i := range n {
			if _, err := workflow.Emit(ctx, "progress", i+1); err != nil {
				return "", err
			}
		}
		return "done", workflow.SetAttribute(ctx, "pages", n)
	}, 2)
	fmt.Println(env.Output(), env.Attributes())
	// Output:
	// done <nil>
	// [progress 1 progress 2] map[pages:2]
}

func ExampleQuery() {
	env := workflow.NewEnv()
	run(env, func(ctx context.Context, in string) (string, error) {
		workflow.Query(ctx, "status", func(string) (string, error) { return "packing " + in, nil })
		var status string
		err := env.Ask("status", nil, &status) // a caller asks
		return status, err
	}, "a lamp")
	// Output: packing a lamp <nil>
}

func ExampleOnUpdate() {
	env := workflow.NewEnv()
	ready := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(env, func(ctx context.Context, _ any) (int, error) {
			sum := 0
			workflow.OnUpdate(ctx, "add", func(_ context.Context, n int) (int, error) { sum += n; return sum, nil },
				workflow.Validate(func(n int) error {
					if n < 0 {
						return errors.New("only adds")
					}
					return nil
				}))
			close(ready)
			_, err := workflow.Receive[string](ctx, "end")
			return sum, errors.Join(err, workflow.UpdatesDone(ctx))
		}, nil)
	}()
	<-ready
	var sum int
	fmt.Println(env.Update(context.Background(), "add", 2, &sum), sum)
	fmt.Println(errors.Is(env.Update(context.Background(), "add", -2, nil), workflow.ErrUpdateRefused))
	_ = env.SendSignal("end", "")
	<-done
	// Output:
	// <nil> 2
	// true
	// 2 <nil>
}

func ExampleAsync() {
	run(workflow.NewEnv(), func(ctx context.Context, _ any) (int, error) {
		a := workflow.Async(ctx, func(context.Context) (int, error) { return 40, nil })
		b := workflow.Async(ctx, func(context.Context) (int, error) { return 2, nil })
		x, err := a.Get(ctx)
		if err != nil {
			return 0, err
		}
		y, err := b.Get(ctx)
		return x + y, err
	}, nil)
	// Output: 42 <nil>
}

func ExampleInfo() {
	run(workflow.NewEnv(), func(ctx context.Context, _ any) (string, error) {
		return workflow.Info(ctx).RunID, nil
	}, nil)
	// Output: test <nil>
}

func ExampleSetCancelPolicy() {
	_ = func(ctx context.Context, _ any) (string, error) {
		if err := workflow.SetCancelPolicy(ctx, workflow.CooperativeCancel); err != nil {
			return "", err
		}
		if err := workflow.Sleep(ctx, "a month", 30*24*time.Hour); err != nil {
			clean := context.WithoutCancel(ctx)
			_, undo := workflow.Call[bool](clean, "clean up", "host/clean", nil)
			return "", errors.Join(err, undo) // the run ends as cancelled
		}
		return "done", nil
	}
}
