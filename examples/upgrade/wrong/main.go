// Command wrong is the workflow of examples/upgrade with the new step but without the marker: runs that are past that step
// diverge from it.
package main

import (
	"context"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() { workflow.Register("upgrade", Order) }

func main() {}

// Order checks the address before it ships, even in old runs that are already past that point.
func Order(ctx context.Context, address string) (string, error) {
	checked, err := workflow.Do(ctx, "check", func(workflow.Step) (string, error) { return "checked, ", nil })
	if err != nil {
		return "", err
	}
	if err := workflow.Sleep(ctx, "packing", 24*time.Hour); err != nil {
		return "", err
	}
	return workflow.Do(ctx, "ship", func(workflow.Step) (string, error) { return checked + "shipped to " + address, nil })
}
