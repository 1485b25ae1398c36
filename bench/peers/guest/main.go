// Command guest is the workflow as wfhost runs it. Its steps are performed by the handler of the harness, so that they
// run in the same process as the steps of the other engines.
package main

import (
	"context"
	"strconv"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"

	"github.com/wfhost/wfhost/bench/peers/job"
)

func init() { workflow.Register("job", Job) }

func main() {}

// Job runs the workflow that package job describes.
func Job(ctx context.Context, in job.Workflow) (int, error) {
	for n := range in.Before + in.After {
		if n == in.Before && in.SleepMs > 0 {
			time.Sleep(time.Duration(in.SleepMs) * time.Millisecond)
		}
		if _, err := workflow.Call[int](ctx, strconv.Itoa(n), "host/step", job.Step{Slot: in.Slot, Number: n}); err != nil {
			return 0, err
		}
	}
	return in.Before + in.After, nil
}
