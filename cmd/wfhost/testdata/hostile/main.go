// Command hostile does what a workflow must not be able to harm others with. Its input says what.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

var (
	sink  [][]byte
	total uint64
)

// deeds are what it does.
var deeds = map[string]func(ctx context.Context) error{
	"compute": func(context.Context) error {
		for {
			total++
		}
	},
	"recurse": func(context.Context) error { return fmt.Errorf("%d", recurse(1)) },
	"grow": func(context.Context) error {
		for {
			sink = append(sink, make([]byte, 1<<20))
		}
	},
	"log": func(ctx context.Context) error {
		for i := range 1_000_000 {
			workflow.Log(ctx).Info(strings.Repeat("x", 1000), "i", i)
		}
		return nil
	},
	"print": func(context.Context) error {
		for range 1_000_000 {
			fmt.Fprintln(os.Stderr, strings.Repeat("y", 4000))
		}
		return nil
	},
	"emit": func(ctx context.Context) error {
		for range 200 {
			if _, err := workflow.Emit(ctx, "t", strings.Repeat("z", 1<<20-100)); err != nil {
				return err
			}
		}
		return nil
	},
	"fork": func(ctx context.Context) error {
		for i := range 2 {
			if _, err := workflow.StartChild[any](ctx, fmt.Sprint("kid", i), "hostile", "fork"); err != nil {
				return err
			}
		}
		return workflow.Sleep(ctx, "nap", time.Minute)
	},
	"zero": func(ctx context.Context) error {
		for i := range 1_000_000 {
			if err := workflow.Sleep(ctx, fmt.Sprint("zero-", i), 1); err != nil {
				return err
			}
		}
		return nil
	},
	"handles": func(ctx context.Context) error {
		var all sync.WaitGroup
		for i := range 20_000 {
			all.Go(func() { _ = workflow.Sleep(ctx, fmt.Sprint("s", i), time.Hour) })
		}
		all.Wait()
		return nil
	},
	"steps": func(ctx context.Context) error {
		for i := range 100_000 {
			if _, err := workflow.Do(ctx, fmt.Sprint("s", i), func(workflow.Step) (string, error) {
				return strings.Repeat("w", 100_000), nil
			}); err != nil {
				return err
			}
		}
		return nil
	},
	"fail": func(context.Context) error { panic(strings.Repeat("p", 100_000)) },
	"send": func(ctx context.Context) error {
		for i := range 100_000 {
			if err := workflow.Send(ctx, fmt.Sprint("victim", i%10), "s", strings.Repeat("v", 1000)); err != nil {
				return err
			}
		}
		return nil
	},
	"again": func(ctx context.Context) error { return workflow.ContinueAsNew(ctx, "again") },
}

func recurse(n int) int {
	var frame [1000]byte
	frame[n%1000] = byte(n)
	return recurse(n+1) + int(frame[0])
}

func init() {
	workflow.Register("hostile", func(ctx context.Context, deed string) (any, error) { return nil, deeds[deed](ctx) })
}

func main() {}
