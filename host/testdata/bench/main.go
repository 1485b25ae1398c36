// Command bench holds the workflows of the benchmarks.
package main

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func main() {}

func init() { workflow.Register("bench", bench) }

// Plan says what a run does.
type Plan struct {
	Kind    string // of its steps
	Steps   int
	Beside  int // goroutines that stand still beside the one that works
	Workers int // goroutines that share the steps, instead of the workflow's own
	Fan     int // as many goroutines at a time make one step each, and hand it over
}

// Order is what an ordinary step takes and gives.
type Order struct {
	ID    string
	Items []string
	Total float64
}

func bench(ctx context.Context, p Plan) (int, error) {
	still := make(chan int)
	for range p.Beside {
		go func() { <-still }()
	}
	if p.Fan > 0 {
		return fan(ctx, p)
	}
	if p.Workers == 0 {
		return work(ctx, p.Kind, 0, p.Steps)
	}
	var wg sync.WaitGroup
	for w := range p.Workers {
		wg.Go(func() { _, _ = work(ctx, p.Kind, w*p.Steps/p.Workers, (w+1)*p.Steps/p.Workers) })
	}
	wg.Wait()
	return p.Steps, nil
}

// fan makes steps in goroutines of their own, which hand over by a channel.
func fan(ctx context.Context, p Plan) (n int, err error) {
	done := make(chan error)
	for i := 0; i < p.Steps; i += p.Fan {
		for j := range p.Fan {
			go func() {
				_, err := work(ctx, p.Kind, i+j, i+j+1)
				done <- err
			}()
		}
		for range p.Fan {
			err = errors.Join(err, <-done)
			n++
		}
	}
	return n, err
}

func work(ctx context.Context, kind string, from, to int) (n int, err error) {
	for i := from; i < to && err == nil; i++ {
		name := "step-" + strconv.Itoa(i)
		switch kind {
		case "sleep":
			err = workflow.Sleep(ctx, name, 0)
		case "call":
			_, err = workflow.Call[int](ctx, name, "host/echo", i)
		case "order":
			_, err = workflow.Call[Order](ctx, name, "host/order", Order{ID: name, Items: []string{"a", "b"}, Total: 1.5})
		case "deadline":
			c, cancel := context.WithTimeout(ctx, time.Hour)
			_, err = workflow.Call[int](c, name, "host/echo", i)
			cancel()
		case "body":
			_, err = workflow.Do(ctx, name, func(workflow.Step) (int, error) { return i, nil })
		}
		n++
	}
	return n, err
}
