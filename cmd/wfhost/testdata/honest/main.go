// Command honest is the workflow that goes on while others do their worst: it steps and sleeps until an instant.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

// input of a run.
type input struct {
	UntilUnixMs int64 `json:"untilUnixMs"`
	LongestMs   int64 `json:"longestMs"` // of its sleeps
}

func init() {
	workflow.Register("honest", func(ctx context.Context, in input) (int, error) {
		random := workflow.Rand(ctx)
		n := 0
		for time.Now().UnixMilli() < in.UntilUnixMs {
			ms := 1 + random.Int64N(in.LongestMs)
			if err := workflow.Sleep(ctx, fmt.Sprint("nap-", n), time.Duration(ms)*time.Millisecond); err != nil {
				return n, err
			}
			got, err := workflow.Do(ctx, fmt.Sprint("step-", n), func(workflow.Step) (int, error) { return n + 1, nil })
			if err != nil {
				return n, err
			}
			n = got
		}
		return n, nil
	})
}

func main() {}
