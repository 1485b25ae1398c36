// Command drip is a mail campaign: a mail, three days, a mail, two days, a mail, a day, and an offer.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() { workflow.Register("drip", Drip) }

func main() {}

// Subscriber is the campaign's input.
type Subscriber struct {
	Email string `json:"email"`
}

// Drip sends the mails of the campaign and gives the number of mails.
func Drip(ctx context.Context, s Subscriber) (int, error) {
	const day = 24 * time.Hour
	if s.Email == "" {
		s.Email = "someone@example.com"
	}
	mails := []struct {
		name  string
		pause time.Duration
	}{{"welcome", 3 * day}, {"tips", 2 * day}, {"success stories", day}, {"offer", 0}}
	for i, m := range mails {
		_, err := workflow.Do(ctx, "mail "+m.name, func(step workflow.Step) (string, error) {
			fmt.Printf("mail %q to %s\n", m.name, s.Email) // a real one hands step.IdempotencyKey to its mail service
			return step.IdempotencyKey, nil
		})
		if err != nil {
			return i, err
		}
		if m.pause > 0 {
			if err := workflow.Sleep(ctx, "after "+m.name, m.pause); err != nil {
				return i, err
			}
		}
	}
	return len(mails), nil
}
