// Command campaign sends three mails over five days, by a handler of the program that embeds the host.
package main

import (
	"context"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() { workflow.Register("campaign", Campaign) }

func main() {}

// Campaign sends its mails and gives their number.
func Campaign(ctx context.Context, to string) (int, error) {
	type mail struct {
		To      string `json:"to"`
		Subject string `json:"subject"`
	}
	for i, m := range []struct {
		subject string
		pause   time.Duration
	}{{"welcome", 72 * time.Hour}, {"tips", 48 * time.Hour}, {"offer", 0}} {
		if _, err := workflow.Call[string](ctx, m.subject, "host/mail", mail{to, m.subject}); err != nil {
			return i, err
		}
		if err := workflow.Sleep(ctx, "after "+m.subject, m.pause); err != nil {
			return i, err
		}
	}
	return 3, nil
}
