// Command killed is the workflow of the kill test: three steps with two sleeps between them.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() {
	workflow.Register("killed", func(ctx context.Context, ms int64) (int, error) {
		for i := range 3 {
			n, err := workflow.Do(ctx, fmt.Sprint("step-", i), func(workflow.Step) (int, error) {
				return i + 1, nil
			}, workflow.Attempts(0))
			if err != nil || n == 3 {
				return n, err
			}
			if err := workflow.Sleep(ctx, fmt.Sprint("sleep-", i), time.Duration(ms)*time.Millisecond); err != nil {
				return n, err
			}
		}
		return 0, nil
	})
}

func main() {}
