// Command approval asks a person for a decision by a link, and does not wait forever.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() { workflow.Register("approval", Approve, workflow.SignalOf[Decision]("decision")) }

func main() {}

// Invoice is the input.
type Invoice struct {
	Number   string `jsonschema:"required,minLength=1"`
	Approver string
	Cents    int `jsonschema:"minimum=0"`
}

// Decision is what the link delivers.
type Decision struct {
	Approved bool
	By       string
}

// Approve sends a link, reminds after three days, and gives up after seven.
func Approve(ctx context.Context, in Invoice) (string, error) {
	token, err := workflow.Hook(ctx, "decision", "", workflow.HookReply(200, "text/plain", "Thank you.\n"))
	if err != nil {
		return "", err
	}
	mail := func(name, text string) error {
		_, err := workflow.Do(ctx, name, func(s workflow.Step) (string, error) { // a real one sends mail
			workflow.Log(s).Info(text, "to", in.Approver, "link", "/v1/hooks/"+token)
			return s.IdempotencyKey, nil
		})
		return err
	}
	if err := mail("ask", "please approve "+in.Number); err != nil {
		return "", err
	}
	for _, wait := range []time.Duration{3 * 24 * time.Hour, 4 * 24 * time.Hour} {
		d, err := workflow.ReceiveTimeout[Decision](ctx, "decision", wait)
		switch {
		case err == nil && d.Approved:
			return "approved by " + d.By, nil
		case err == nil:
			return "", fmt.Errorf("refused by %s", d.By)
		case !errors.Is(err, workflow.ErrTimeout):
			return "", err
		}
		if err := mail(fmt.Sprint("remind after ", wait), "still waiting for "+in.Number); err != nil {
			return "", err
		}
	}
	return "", errors.New("nobody decided within seven days")
}
