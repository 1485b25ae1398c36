// Command shop has a workflow with one of everything that a client asks for.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() {
	workflow.Register("order", order, workflow.Queries("total"), workflow.Signals("pay"), workflow.Updates("add", "break"))
	workflow.Register("fails", fails)
	workflow.Register("sleeps", func(ctx context.Context, _ any) (any, error) {
		return nil, workflow.Sleep(ctx, "nap", time.Hour)
	})
}

func main() {}

// Order is the input of order.
type Order struct {
	Customer int `json:"customer"`
}

// order counts what is added until it is paid.
func order(ctx context.Context, in Order) (string, error) {
	total := 0
	workflow.Query(ctx, "total", func(factor int) (int, error) {
		if factor < 0 {
			return 0, errors.New("the factor is negative")
		}
		return total * max(factor, 1), nil
	})
	workflow.OnUpdate(ctx, "add", func(_ context.Context, n int) (int, error) {
		total += n
		return total, nil
	}, workflow.Validate(func(n int) error {
		if n < 0 {
			return errors.New("less than nothing")
		}
		return nil
	}))
	workflow.OnUpdate(ctx, "break", func(context.Context, any) (int, error) { return 0, errors.New("it broke") })
	slog.Info("ordered", "customer", in.Customer)
	if _, err := workflow.Emit(ctx, "progress", map[string]int{"of": in.Customer}); err != nil {
		return "", err
	}
	if _, err := workflow.Hook(ctx, "confirm", token(in), workflow.HookReply(200, "text/plain", "Thank you.")); err != nil {
		return "", err
	}
	said, err := workflow.Receive[string](ctx, "confirm")
	if err != nil {
		return "", err
	}
	by, err := workflow.Receive[string](ctx, "pay")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s by %s: %d", said, by, total), workflow.UpdatesDone(ctx)
}

// token is that of the order's hook, which a test knows.
func token(in Order) string { return fmt.Sprintf("confirmation-of-%016d", in.Customer) }

func fails(ctx context.Context, _ any) (any, error) {
	return workflow.Do(ctx, "charge", func(workflow.Step) (any, error) { return nil, errors.New("card declined") },
		workflow.Attempts(2), workflow.Delay(time.Second))
}
