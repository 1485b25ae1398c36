// Command warm has workflows that sleep and remember.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func main() {}

func init() {
	workflow.Register("naps", naps)
	workflow.Register("once", once)
	workflow.Register("sleeps", func(ctx context.Context, ms int) (any, error) {
		return nil, workflow.Sleep(ctx, "nap", time.Duration(ms)*time.Millisecond)
	})
	workflow.Register("both", both)
	workflow.Register("late", late)
	workflow.Register("timers", timers)
	workflow.Register("panics", func(ctx context.Context, _ int) (any, error) {
		_ = workflow.Sleep(ctx, "nap", time.Hour)
		panic("after the nap")
	})
}

// naps sleeps and makes a step in turns, prints half a line each time, and says what it remembers.
func naps(ctx context.Context, n int) (list string, err error) {
	for i := range n {
		if err := workflow.Sleep(ctx, fmt.Sprint("nap ", i), time.Hour); err != nil {
			return "", err
		}
		got, err := workflow.Call[int](ctx, fmt.Sprint("step ", i), "host/echo", i)
		if err != nil {
			return "", err
		}
		list += fmt.Sprint(got, " ")
		fmt.Print(list, ";")
		if _, err := workflow.Emit(ctx, "napped", i); err != nil {
			return "", err
		}
	}
	fmt.Println()
	return list, nil
}

// once sleeps, fails the first time, and sleeps again.
func once(ctx context.Context, _ int) (string, error) {
	if err := workflow.Sleep(ctx, "before", time.Hour); err != nil {
		return "", err
	}
	s, err := workflow.Call[string](ctx, "flaky", "host/flaky", "", workflow.Attempts(1))
	if err != nil {
		return "", err
	}
	return s, workflow.Sleep(ctx, "after", time.Hour)
}

// late fails once, and returns a value after a panic that was recovered: the stack that it unwinds is a thawed one.
func late(ctx context.Context, _ int) (s string, err error) {
	defer func() {
		if v := recover(); v != nil {
			s, err = fmt.Sprint("recovered from ", v), nil
		}
	}()
	deep(ctx, 50)
	return "", nil
}

func deep(ctx context.Context, n int) {
	if n > 0 {
		defer func() {}()
		deep(ctx, n-1)
		return
	}
	if err := workflow.Sleep(ctx, "nap", time.Hour); err != nil {
		panic(err)
	}
	panic("the bottom")
}

// both has goroutines that wait for timers, channels and each other.
func both(ctx context.Context, n int) (int, error) {
	sum, got := 0, make(chan int)
	for i := range n {
		go func() {
			time.Sleep(time.Duration(n-i) * time.Minute)
			got <- i
			if err := workflow.Sleep(ctx, fmt.Sprint("nap ", i), time.Duration(i)*time.Hour); err == nil {
				got <- 100 * i
			}
		}()
	}
	for range 2 * n {
		select {
		case i := <-got:
			sum = 3*sum + i
		case <-time.After(100 * time.Hour):
			return 0, context.DeadlineExceeded
		}
	}
	return sum, nil
}

// timers waits in the ways that package time has: sleeps, timers that are stopped or set anew, tickers, and deadlines.
func timers(ctx context.Context, n int) (list string, err error) {
	begin := time.Now()
	note := func(what string) { list += fmt.Sprint(what, " ", time.Since(begin), "; ") }
	time.Sleep(90 * time.Minute)
	note("slept")
	woken := make(chan bool)
	waker := time.AfterFunc(100*time.Hour, func() { woken <- true })
	waker.Reset(15 * time.Minute)
	<-woken
	note("woken")
	late := time.AfterFunc(48*time.Hour, func() { note("late") })
	early := time.AfterFunc(24*time.Hour, func() { note("early") })
	early.Reset(2 * time.Hour) // before the first one
	never := time.NewTimer(time.Hour)
	never.Stop()
	soon, cancel := context.WithTimeout(ctx, 30*time.Minute)
	defer cancel()
	if err := workflow.Sleep(soon, "too long", 5*time.Hour); err != nil {
		note(err.Error())
	}
	ticker := time.NewTicker(time.Hour)
	for i := range n {
		<-ticker.C
		got, err := workflow.Call[int](ctx, fmt.Sprint("tick ", i), "host/echo", i)
		if err != nil {
			return "", err
		}
		note(fmt.Sprint("tick ", got))
	}
	ticker.Stop()
	late.Reset(10 * time.Minute)
	select {
	case <-time.After(20 * time.Minute):
		note("after")
	case <-never.C:
		note("never")
	}
	return list, nil
}
