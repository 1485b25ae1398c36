// Command upgrade is code that has changed while runs of it were alive: a marker tells the old ones from the new.
package main

import (
	"context"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() { workflow.Register("upgrade", Order) }

func main() {}

// Order checks the address before it ships; runs that had come past this point without the check go on without it.
func Order(ctx context.Context, address string) (string, error) {
	checked := ""
	if workflow.Version(ctx, "check the address", 1) >= 1 {
		var err error
		checked, err = workflow.Do(ctx, "check", func(workflow.Step) (string, error) { return "checked, ", nil })
		if err != nil {
			return "", err
		}
	}
	if err := workflow.Sleep(ctx, "packing", 24*time.Hour); err != nil {
		return "", err
	}
	return workflow.Do(ctx, "ship", func(workflow.Step) (string, error) { return checked + "shipped to " + address, nil })
}
