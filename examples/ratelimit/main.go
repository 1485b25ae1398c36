// Command ratelimit works through a list at a fixed rate.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() { workflow.Register("ratelimit", Process) }

func main() {}

// Process handles one item every ten seconds and gives the number of items.
func Process(ctx context.Context, items []string) (int, error) {
	for i, item := range items {
		_, err := workflow.Do(ctx, fmt.Sprintf("process-item-%d", i), func(workflow.Step) (string, error) {
			return "processed " + item, nil
		})
		if err != nil {
			return i, err
		}
		if err := workflow.Sleep(ctx, fmt.Sprintf("pause-%d", i), 10*time.Second); err != nil {
			return i, err
		}
	}
	return len(items), nil
}
