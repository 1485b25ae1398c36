// Command ticker sleeps again and again: a guest for measurements.
package main

import (
	"context"
	"strconv"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

// wakes is how many sleeps there are before a run continues as new, so that its journal stays short.
const wakes = 8

func init() {
	workflow.Register("ticker", func(ctx context.Context, handler string) (string, error) {
		for i := range wakes {
			if err := workflow.Sleep(ctx, "s"+strconv.Itoa(i), time.Millisecond); err != nil {
				return "", err
			}
			if handler != "" {
				if _, err := workflow.Call[int](ctx, "step"+strconv.Itoa(i), handler, 1); err != nil {
					return "", err
				}
			}
		}
		return "", workflow.ContinueAsNew(ctx, handler)
	})
}

func main() {}
