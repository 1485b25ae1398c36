// Command before is the workflow of examples/upgrade before its code changed.
package main

import (
	"context"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() { workflow.Register("upgrade", Order) }

func main() {}

// Order ships, and checks nothing.
func Order(ctx context.Context, address string) (string, error) {
	if err := workflow.Sleep(ctx, "packing", 24*time.Hour); err != nil {
		return "", err
	}
	return workflow.Do(ctx, "ship", func(workflow.Step) (string, error) { return "shipped to " + address, nil })
}
