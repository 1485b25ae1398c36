package a

import (
	"context"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func charge(ctx context.Context, who string) (int, error) {
	if who == "" {
		who = "nobody"
	}
	n, err := workflow.Do(ctx, "charge", func(workflow.Step) (int, error) { return len(who), nil })
	if err != nil {
		return 0, err
	}
	return n, workflow.Sleep(ctx, "cool down", time.Hour)
}

func chargeAll(ctx context.Context) error {
	_, err := charge(ctx, "all")
	return err
}

type shop struct{}

func (shop) pay(ctx context.Context) error { return chargeAll(ctx) }

// perhaps makes one of two steps, and none of them always.
func perhaps(ctx context.Context, first bool) error {
	if first {
		return workflow.Sleep(ctx, "first", time.Hour)
	}
	return workflow.Sleep(ctx, "second", time.Hour)
}

func named2(ctx context.Context, name string) error { return workflow.Sleep(ctx, name, time.Hour) }

func again(ctx context.Context, depth int) error {
	if depth > 0 {
		return again(ctx, depth-1)
	}
	return nil
}

func throughFunctions(ctx context.Context) error {
	if _, err := charge(ctx, "a"); err != nil {
		return err
	}
	if _, err := charge(ctx, "b"); err != nil { // want `charge uses the name "charge", which charge uses at line 48` `"cool down"`
		return err
	}
	return shop{}.pay(ctx) // want `pay uses the name "charge", which charge uses at line 48` `pay uses the name "cool down"`
}

func inLoops(ctx context.Context) error {
	for range 3 {
		if err := chargeAll(ctx); err != nil { // want `chargeAll uses the name "charge" again in each turn` `"cool down" again`
			return err
		}
	}
	for i := range 3 {
		if err := named2(ctx, string(rune('a'+i))); err != nil {
			return err
		}
	}
	return again(ctx, 3)
}

func inBranches(ctx context.Context, first bool) error {
	if err := perhaps(ctx, true); err != nil {
		return err
	}
	if err := perhaps(ctx, false); err != nil {
		return err
	}
	if first {
		return chargeAll(ctx)
	}
	return chargeAll(ctx)
}

func inBodies(ctx context.Context) error {
	total := 0
	step := func(workflow.Step) (int, error) {
		total++ // want `the body of this step writes to total`
		return total, nil
	}
	var other = func(workflow.Step) (int, error) {
		total++ // want `the body of this step writes to total`
		return total, nil
	}
	_, _ = workflow.Do(ctx, "one", step)
	_, _ = workflow.Do(ctx, "two", step)
	_, _ = workflow.Do(ctx, "three", other)
	_, err := workflow.Do(ctx, "four", func(workflow.Step) (int, error) {
		return 0, chargeAll(ctx) // want `chargeAll calls workflow.Do, which in the body of a step is ErrNotHere`
	})
	return err
}

type account struct {
	cents int
	log   []string
}

func (a *account) add(n int) { a.cents += n }

func (a account) with(n int) account {
	a.cents += n // of a copy
	return a
}

func (a *account) total() int { return a.cents }

func count(m map[string]int, who string) { m[who]++ }

func set(to *int, n int) { *to = n }

func other(to *int, n int) int {
	to = &n
	return *to
}

func throughCalls(ctx context.Context) error {
	a, m, n := &account{}, map[string]int{}, 0
	_, err := workflow.Do(ctx, "pay", func(workflow.Step) (int, error) {
		a.add(1)        // want `the body of this step has add write to a, which is declared outside of it`
		count(m, "ada") // want `the body of this step has count write to m`
		set(&n, 1)      // want `the body of this step has set write to n`
		a.add(2)        //workflow:lost is looked at by the test alone
		mine := &account{}
		mine.add(a.total() + a.with(3).cents + other(&n, 2))
		return mine.total(), nil
	})
	return err
}
