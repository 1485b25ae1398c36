// Command reminder reminds after seven days.
package main

import (
	"context"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() { workflow.Register("reminder", Remind) }

func main() {}

// Reminder is the input.
type Reminder struct {
	Text string `json:"text"`
}

// Remind waits a week and gives the reminder that it sent.
func Remind(ctx context.Context, r Reminder) (string, error) {
	if err := workflow.SleepText(ctx, "a week", "7d"); err != nil {
		return "", err
	}
	return workflow.Do(ctx, "remind", func(workflow.Step) (string, error) {
		return time.Now().Format(time.DateOnly) + ": " + r.Text, nil
	})
}
