// Command trial accompanies a trial of fourteen days, which ends early when the customer subscribes or leaves.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() { workflow.Register("trial", Trial) }

func main() {}

// Trial sends mails at days 0, 7 and 12, and says how the trial ended.
func Trial(ctx context.Context, customer string) (string, error) {
	start := time.Now()
	for _, day := range []int{0, 7, 12, 14} {
		until := time.After(time.Until(start.Add(time.Duration(day) * 24 * time.Hour)))
		select {
		case plan := <-workflow.Signal[string](ctx, "subscribed"):
			return fmt.Sprintf("%s took the %s plan", customer, plan), workflow.SetAttribute(ctx, "trial", "won")
		case <-workflow.Signal[string](ctx, "left"):
			return customer + " left", workflow.SetAttribute(ctx, "trial", "lost")
		case <-until:
		}
		if day == 14 {
			break
		}
		if _, err := workflow.Do(ctx, fmt.Sprint("mail of day ", day), func(workflow.Step) (bool, error) {
			return true, nil // a real one sends mail
		}); err != nil {
			return "", err
		}
	}
	return customer + " did not subscribe", workflow.SetAttribute(ctx, "trial", "expired")
}
