// Command poll asks until a job is done.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() { workflow.Register("poll", Poll) }

func main() {}

// tries is how often the job is asked for: five minutes in all.
const tries = 60

// Poll asks for a job that is done at the given try, and gives the number of tries.
func Poll(ctx context.Context, doneAt int) (int, error) {
	for i := 1; i <= tries; i++ {
		done, err := workflow.Do(ctx, fmt.Sprintf("ask-%d", i), func(workflow.Step) (bool, error) {
			return i >= doneAt, nil // a real one asks a service
		})
		if err != nil || done {
			return i, err
		}
		time.Sleep(5 * time.Second) // durable, like everything of package time
	}
	return tries, errors.New("timeout: the job is not done")
}
