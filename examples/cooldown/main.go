// Command cooldown handles jobs that come as signals, one after the other with a pause between them, forever.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() { workflow.Register("cooldown", Queue) }

func main() {}

// State is what one iteration hands to the next.
type State struct{ Handled int }

// Queue ends when no job has come for a day, and gives how many it has handled.
func Queue(ctx context.Context, s State) (int, error) {
	for range 10 { // then the journal begins anew
		job, err := workflow.ReceiveTimeout[string](ctx, "job", 24*time.Hour)
		if errors.Is(err, workflow.ErrTimeout) {
			return s.Handled, nil
		}
		if err != nil {
			return s.Handled, err
		}
		s.Handled++
		if _, err := workflow.Emit(ctx, "handled", job); err != nil {
			return s.Handled, err
		}
		time.Sleep(time.Minute) // cool down
	}
	return 0, workflow.ContinueAsNew(ctx, s)
}
