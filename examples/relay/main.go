// Command relay lets two runs talk to each other by signals.
package main

import (
	"context"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() { workflow.Register("relay", Relay) }

func main() {}

// Peer is the input: the other run, who begins, and how long.
type Peer struct {
	Other  string // run id
	Begins bool
	Rounds int
}

// Relay sends a number back and forth, adding one, and gives what it had last.
func Relay(ctx context.Context, p Peer) (n int, err error) {
	if p.Begins {
		if err := workflow.Send(ctx, p.Other, "ball", 1); err != nil {
			return 0, err
		}
	}
	for i := range p.Rounds {
		n, err = workflow.Receive[int](ctx, "ball")
		if err != nil {
			return n, err
		}
		if p.Begins && i == p.Rounds-1 {
			return n, nil
		}
		if err := workflow.Send(ctx, p.Other, "ball", n+1); err != nil {
			return n, err
		}
	}
	return n, nil
}
