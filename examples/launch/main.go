// Command launch launches at a given date.
package main

import (
	"context"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() { workflow.Register("launch", Launch) }

func main() {}

// Launch waits until a date and gives the time at which it launched.
func Launch(ctx context.Context, at time.Time) (string, error) {
	if err := workflow.SleepUntil(ctx, "until launch", at); err != nil {
		return "", err
	}
	if _, err := workflow.Do(ctx, "launch", func(workflow.Step) (bool, error) { return true, nil }); err != nil {
		return "", err
	}
	return "launched at " + time.Now().UTC().Format(time.RFC3339), nil
}
