// Command order is a workflow whose card is charged by a worker: a process of its own.
package main

import (
	"context"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

// Charge is the input of the handler.
type Charge struct {
	Order string `json:"order"`
	Cents int    `json:"cents"`
}

// Receipt is its result.
type Receipt struct {
	ID    string `json:"id"`
	Cents int    `json:"cents"`
}

func init() { workflow.Register("order", Order) }

func main() {}

// Order charges the card. If the worker is lost, another one charges it, with the same idempotency key.
func Order(ctx context.Context, in Charge) (Receipt, error) {
	return workflow.Call[Receipt](ctx, "charge", "host/charge", in, workflow.Timeout(time.Minute))
}
