// Command shop holds the workflows of the page's tests.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() {
	workflow.Register("order", Place, workflow.SignalOf[Approval]("approve"))
	workflow.Register("many", Many)
	workflow.Register("naps", Naps)
	workflow.Register("parent", Parent)
	workflow.Register("hostile", Hostile)
	workflow.Register("forever", Forever)
	workflow.Register("invoice", Invoice)
	workflow.Register("report", Report)
}

func main() {}

// Order is the input of order.
type Order struct {
	Item   string `json:"item" jsonschema:"required,minLength=1,description=What is ordered."`
	Amount int    `json:"amount" jsonschema:"minimum=0"`
	Gift   bool   `json:"gift"`
}

// Approval is what the signal brings.
type Approval struct {
	By string `json:"by"`
}

// Place charges, cools down, and waits for an approval.
func Place(ctx context.Context, in Order) (string, error) {
	workflow.Log(ctx).Info("order comes in", "item", in.Item)
	if err := workflow.SetAttribute(ctx, "item", in.Item); err != nil {
		return "", err
	}
	_, err := workflow.Call[string](ctx, "charge", "host/charge", in, workflow.Attempts(3), workflow.Delay(time.Minute))
	if err != nil {
		workflow.Log(ctx).Error("charging failed", "cause", err)
		return "", err
	}
	if _, err := workflow.Emit(ctx, "progress", map[string]string{"stage": "charged"}); err != nil {
		return "", err
	}
	if err := workflow.Sleep(ctx, "cool-down", 3*24*time.Hour); err != nil {
		return "", err
	}
	a, err := workflow.ReceiveTimeout[Approval](ctx, "approve", 7*24*time.Hour)
	if errors.Is(err, workflow.ErrTimeout) {
		return "", errors.New("nobody approved")
	}
	if err != nil {
		return "", err
	}
	shipped, err := workflow.Do(ctx, "ship", func(workflow.Step) (string, error) { return "parcel of " + in.Item, nil })
	return shipped + ", approved by " + a.By, err
}

// Many makes n steps.
func Many(ctx context.Context, n int) (int, error) {
	for i := range n {
		if _, err := workflow.Do(ctx, fmt.Sprint("step-", i), func(workflow.Step) (int, error) { return i, nil }); err != nil {
			return 0, err
		}
	}
	if err := workflow.Sleep(ctx, "rest", time.Hour); err != nil {
		return 0, err
	}
	return n, nil
}

// Naps sleeps five times, and then with the clock of Go.
func Naps(ctx context.Context, _ any) (string, error) {
	for i := range 5 {
		if err := workflow.Sleep(ctx, fmt.Sprint("nap-", i), time.Hour); err != nil {
			return "", err
		}
	}
	time.Sleep(time.Hour)
	return "rested", nil
}

// Parent starts a child that waits for ever.
func Parent(ctx context.Context, _ any) (string, error) {
	return workflow.Child[string](ctx, "kid", "forever", nil, workflow.ChildID("the-child"))
}

// Hostile writes what a page could take for its own.
func Hostile(ctx context.Context, text string) (string, error) {
	workflow.Log(ctx).Info(text)
	if err := workflow.SetAttribute(ctx, "note", text); err != nil {
		return "", err
	}
	if _, err := workflow.Emit(ctx, "out", text); err != nil {
		return "", err
	}
	if _, err := workflow.Do(ctx, text, func(workflow.Step) (string, error) { return text, nil }); err != nil {
		return "", err
	}
	return "", errors.New(text)
}

// Invoice prints at once, or fails if there is no paper.
func Invoice(_ context.Context, paper bool) (string, error) {
	if !paper {
		return "", errors.New("the printer is out of paper")
	}
	return "printed", nil
}

// Report waits for the numbers.
func Report(ctx context.Context, _ any) (string, error) {
	return workflow.Receive[string](ctx, "numbers")
}

// Forever waits for a signal that nobody sends.
func Forever(ctx context.Context, _ any) (string, error) {
	return workflow.Receive[string](ctx, "never")
}
