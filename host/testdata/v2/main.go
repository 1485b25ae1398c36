// Command v2 is another version of the workflow s01, with its calls in another order.
package main

import (
	"context"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() {
	workflow.Register("s01", func(ctx context.Context, ms int64) (string, error) {
		if err := workflow.Sleep(ctx, "nap", time.Duration(ms)*time.Millisecond); err != nil {
			return "", err
		}
		return workflow.Do(ctx, "a", func(workflow.Step) (string, error) { return "v2", nil })
	})
}

func main() {}
