// Command longer holds the workflow naps of clocks with another length of its time.Sleep.
package main

import (
	"context"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func main() {}

func init() { workflow.Register("naps", naps) }

func naps(ctx context.Context, how string) (int, error) {
	woken := 0
	workflow.Query(ctx, "woken", func(int) (int, error) { return woken, nil })
	workflow.OnUpdate(ctx, "echo", func(_ context.Context, n int) (int, error) { return n, nil })
	if how == "time.Sleep" {
		time.Sleep(10 * time.Hour)
		return 1, nil
	}
	if err := workflow.Sleep(ctx, "first", 15*time.Second); err != nil {
		return 0, err
	}
	woken++
	time.Sleep(time.Second)
	return woken, workflow.Sleep(ctx, "second", time.Minute)
}
