// Command broken adds numbers up in bodies, which only a test sees.
package main

import (
	"context"
	"fmt"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func main() {}

func init() { workflow.Register("sum", Sum) }

// Sum returns 0 on a host.
func Sum(ctx context.Context, list []int) (total int, err error) {
	for i, n := range list {
		_, err := workflow.Do(ctx, fmt.Sprint("add ", i), func(workflow.Step) (int, error) {
			total += n
			return total, nil
		})
		if err != nil {
			return 0, err
		}
	}
	return total, nil
}
