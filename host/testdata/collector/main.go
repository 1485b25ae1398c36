// Command collector adds up the signals that it takes, until one that is negative.
package main

import (
	"context"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() {
	workflow.Register("collector", func(ctx context.Context, _ any) (int, error) {
		n := 0
		workflow.Query(ctx, "n", func(any) (int, error) { return n, nil })
		for {
			v, err := workflow.Receive[int](ctx, "s")
			if err != nil || v < 0 {
				return n, err
			}
			n++
		}
	})
}

func main() {}
