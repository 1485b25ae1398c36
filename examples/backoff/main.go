// Command backoff retries by hand.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() { workflow.Register("backoff", Retry) }

func main() {}

// Retry tries until it succeeds at the given try, waiting twice as long each time, and gives the waits.
func Retry(ctx context.Context, succeedAt int) ([]string, error) {
	var waits []string
	wait := time.Second
	for i := 1; ; i++ {
		_, err := workflow.Do(ctx, fmt.Sprintf("try-%d", i), func(workflow.Step) (int, error) {
			if i < succeedAt {
				return 0, errors.New("not yet")
			}
			return i, nil
		}, workflow.Attempts(1))
		if err == nil {
			return waits, nil
		}
		waits = append(waits, wait.String())
		time.Sleep(wait)
		wait *= 2
	}
}
