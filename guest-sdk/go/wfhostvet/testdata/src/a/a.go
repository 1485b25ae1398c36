package a

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

var all int

func named(s workflow.Step) (int, error) {
	all++ // want `the body of this step writes to all, which is declared outside of it`
	return 0, nil
}

func stepFunction(_ workflow.Step, n int) (int, error) {
	all += n // want `the body of this step writes to all, which is declared outside of it`
	n++
	return n, nil
}

func init() {
	workflow.RegisterStep("named", stepFunction)
	workflow.RegisterStep("literal", func(s workflow.Step, n int) (int, error) {
		all--                                 // want `writes to all`
		return n, workflow.Sleep(s, "nap", 1) // want `workflow.Sleep in the body of a step is ErrNotHere`
	})
}

func writes(ctx context.Context, list []int) (total int, err error) {
	order := struct{ Paid bool }{}
	var found []string
	out := make(chan int, 1)
	for i, n := range list {
		_, err = workflow.Do(ctx, fmt.Sprint("add ", i), func(s workflow.Step) (int, error) {
			total += n        // want `the body of this step writes to total, which is declared outside of it: on a host`
			order.Paid = true // want `writes to order.Paid`
			list[i]++         // want `writes to list\[…\]`
			all = total       // want `writes to all`
			out <- n          // want `sends on out`
			os.Args = nil     // want `writes to os.Args`
			func() {
				found = append(found, "x") // want `writes to found`
			}()
			return 0, json.Unmarshal(nil, &found) // want `decodes into found`
		})
	}
	_, _ = workflow.Do(ctx, "named", named)
	_, _ = workflow.Do(ctx, "fine", func(s workflow.Step) (string, error) {
		all++ //workflow:lost counts for the test
		total := total + rand.Int() + int(time.Now().Unix())
		total++
		var mine struct{ N int }
		mine.N = total
		err := json.Unmarshal(nil, &mine)
		return fmt.Sprint(mine, order, s.Attempt), err
	})
	total, all = 1, 2 // the workflow itself
	return total, err
}

func calls(ctx context.Context, child *workflow.ChildRun[int]) {
	_, _ = workflow.Do(ctx, "calls", func(s workflow.Step) (int, error) {
		if err := workflow.Sleep(s, "inner", time.Second); err != nil { // want `workflow.Sleep in the body of a step is ErrNotHere`
			return 0, err
		}
		_, _ = workflow.Receive[int](ctx, "x") // want `workflow.Receive in the body`
		time.Sleep(time.Second)
		workflow.Log(s)("fine")
		return child.Wait(ctx) // want `workflow.Wait in the body`
	})
}

func goroutines(ctx context.Context) {
	_, _ = workflow.Do(ctx, "leaves", func(s workflow.Step) (int, error) {
		go fmt.Println("gone") // want `this goroutine ends when the body of the step does`
		return 0, nil
	})
	_, _ = workflow.Do(ctx, "waits", func(s workflow.Step) (int, error) {
		var wg sync.WaitGroup
		wg.Add(1)
		go wg.Done()
		wg.Wait()
		c := make(chan int)
		go func() { c <- 1 }()
		return <-c, nil
	})
	go fmt.Println("of the workflow")
}

func names(ctx context.Context, list []string, fast bool) (int, error) {
	for range list {
		_ = workflow.Sleep(ctx, "pause", time.Second) // want `workflow.Sleep uses the name "pause" again in each turn of the loop`
	}
	for _, s := range list {
		_ = workflow.Sleep(ctx, s, time.Second)
		_ = workflow.Sleep(ctx, "before "+s, time.Second)
		_, _ = workflow.Receive[int](ctx, "signals have no such names")
		_ = workflow.Version(ctx, "nor do markers", 1)
		_ = workflow.Version(ctx, "last", 1)
		if s == "" {
			_ = workflow.Sleep(ctx, "last", time.Second)
			break
		}
	}
	for range list {
		go func() {
			_, _ = workflow.Call[int](ctx, "together", "host/x", 0) // want `workflow.Call uses the name "together" again`
		}()
	}
	if err := workflow.Sleep(ctx, "twice", time.Second); err != nil {
		return 0, err
	}
	if _, err := workflow.Call[int](ctx, "twice", "host/x", 0); err != nil { // want `"twice", which workflow.Sleep uses at line 119`
		return 0, err
	}
	if fast {
		_ = workflow.Sleep(ctx, "either", time.Second)
	} else {
		_ = workflow.Sleep(ctx, "either", time.Minute)
	}
	switch len(list) {
	case 1:
		_ = workflow.Sleep(ctx, "case", time.Second)
	case 2:
		_ = workflow.Sleep(ctx, "case", time.Minute)
	}
	if fast {
		return 1, workflow.Sleep(ctx, "end", time.Second)
	}
	if len(list) == 5 {
		_ = workflow.Sleep(ctx, "end", time.Second)
		return 0, errors.New("five")
	}
	return 2, workflow.Sleep(ctx, "end", time.Minute)
}

func tests(t *testing.T, list []string) {
	for range list {
		workflow.Run(t.Context(), func(ctx context.Context, in int) (int, error) {
			return 0, workflow.Sleep(ctx, "one in each run", 0)
		})
		t.Run("sub", func(t *testing.T) { _ = workflow.Sleep(t.Context(), "one in each test", 0) })
		workflow.Async(t.Context(), func(ctx context.Context) (int, error) {
			return 0, workflow.Sleep(ctx, "of one run", 0) // want `uses the name "of one run" again`
		})
	}
	workflow.Run(t.Context(), func(ctx context.Context, in int) (int, error) {
		return 0, workflow.Sleep(ctx, "one in each run", 0)
	})
}
