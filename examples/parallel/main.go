// Command parallel runs steps in parallel.
package main

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() { workflow.Register("parallel", Fetch) }

func main() {}

// Fetch gets all pages at once and gives their contents in order.
func Fetch(ctx context.Context, pages []string) ([]string, error) {
	out := make([]string, len(pages))
	g, gctx := errgroup.WithContext(ctx)
	for i, page := range pages {
		g.Go(func() (err error) {
			out[i], err = workflow.Do(gctx, fmt.Sprintf("fetch-%d", i), func(workflow.Step) (string, error) {
				return strings.ToUpper(page), nil
			})
			return err
		})
	}
	return out, g.Wait()
}
