// Command cleanup takes a cancel: it gives back what it has taken before it ends.
package main

import (
	"context"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() { workflow.Register("cleanup", Rent) }

func main() {}

// Rent takes a machine for some days, and gives it back, cancelled or not.
func Rent(ctx context.Context, days int) (string, error) {
	if err := workflow.SetCancelPolicy(ctx, workflow.CooperativeCancel); err != nil {
		return "", err
	}
	machine, err := workflow.Do(ctx, "take", func(workflow.Step) (string, error) { return "machine-7", nil })
	if err != nil {
		return "", err
	}
	wait := workflow.Sleep(ctx, "rented", time.Duration(days)*24*time.Hour)
	// The context may be cancelled by now; the clean-up is not.
	if _, err := workflow.Do(context.WithoutCancel(ctx), "give back", func(s workflow.Step) (string, error) {
		workflow.Log(s).Info("gave back", "machine", machine)
		return machine, nil
	}); err != nil {
		return "", err
	}
	return machine, wait
}
