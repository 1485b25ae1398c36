// Command grown has a workflow of the shop that does the same as the shop's until it waits, so that runs can be migrated to it.
package main

import (
	"context"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() { workflow.Register("order", Place) }

func main() {}

// Place charges and cools down, and ends there.
func Place(ctx context.Context, in struct {
	Item   string `json:"item"`
	Amount int    `json:"amount"`
	Gift   bool   `json:"gift"`
}) (string, error) {
	workflow.Log(ctx).Info("order comes in", "item", in.Item)
	if err := workflow.SetAttribute(ctx, "item", in.Item); err != nil {
		return "", err
	}
	_, err := workflow.Call[string](ctx, "charge", "host/charge", in, workflow.Attempts(3), workflow.Delay(time.Minute))
	if err != nil {
		return "", err
	}
	if _, err := workflow.Emit(ctx, "progress", map[string]string{"stage": "charged"}); err != nil {
		return "", err
	}
	return "at once", workflow.Sleep(ctx, "cool-down", 3*24*time.Hour)
}
