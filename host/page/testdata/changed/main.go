// Command changed has a workflow of the shop that does something else than the shop's, so that its runs are stuck under it.
package main

import (
	"context"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() { workflow.Register("order", Nap) }

func main() {}

// Nap sleeps, where the shop's order charges.
func Nap(ctx context.Context, _ map[string]any) (string, error) {
	return "", workflow.Sleep(ctx, "nap", time.Hour)
}
