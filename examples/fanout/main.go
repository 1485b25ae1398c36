// Command fanout has one child run for each part of its work, and gathers what they give.
package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() {
	workflow.Register("fanout", Gather)
	workflow.Register("part", Part)
}

func main() {}

// Gather sums what its children give. If one of them fails, the others are cancelled.
func Gather(ctx context.Context, parts []int) (sum int, err error) {
	g, ctx := errgroup.WithContext(ctx)
	results := make([]int, len(parts))
	for i, p := range parts {
		g.Go(func() (err error) {
			results[i], err = workflow.Child[int](ctx, fmt.Sprint("part ", i), "part", p)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	for _, r := range results {
		sum += r
	}
	return sum, nil
}

// Part takes as many minutes as its number, and gives its square.
func Part(ctx context.Context, n int) (int, error) {
	if n < 0 {
		return 0, fmt.Errorf("no part %d", n)
	}
	return n * n, workflow.Sleep(ctx, "work", time.Duration(n)*time.Minute)
}
