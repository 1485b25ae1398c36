package main

import (
	"context"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() {
	workflow.Register("family", family)
	workflow.Register("kid", kid)
}

type familyState struct {
	Round, Sum, Sleep int
}

// family has two children in each of two iterations, each of which gives a number and sends a signal.
func family(ctx context.Context, s familyState) (int, error) {
	if s.Round == 2 {
		return s.Sum, nil
	}
	var kids []*workflow.ChildRun[int]
	for i := range 2 {
		k, err := workflow.StartChild[int](ctx, fmt.Sprint("kid ", i), "kid", kidPlan{workflow.Info(ctx).RunID, s.Sleep + i, i + 1})
		if err != nil {
			return 0, err
		}
		kids = append(kids, k)
	}
	for _, k := range kids {
		n, err := k.Wait(ctx)
		if err != nil {
			return 0, err
		}
		s.Sum += n
	}
	for range kids {
		n, err := workflow.Receive[int](ctx, "born")
		if err != nil {
			return 0, err
		}
		s.Sum += 10 * n
	}
	if _, err := workflow.Emit(ctx, "round", s.Round); err != nil {
		return 0, err
	}
	s.Round++
	return 0, workflow.ContinueAsNew(ctx, s)
}

type kidPlan struct {
	Parent string
	Sleep  int
	Number int
}

func kid(ctx context.Context, p kidPlan) (int, error) {
	if err := workflow.Sleep(ctx, "nap", time.Duration(p.Sleep)*time.Millisecond); err != nil {
		return 0, err
	}
	return p.Number, workflow.Send(ctx, p.Parent, "born", p.Number)
}
