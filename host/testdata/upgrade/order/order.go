// Package order holds the workflows of the modules beside it, which are versions of one another.
package order

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

// Code is what differs between the versions.
type Code struct {
	Name    string
	Marked  bool          // a step was added behind a marker
	Added   bool          // a step was added without one
	Packing time.Duration // how long an order is packed
	Broken  bool          // nothing is shipped
	Loops   bool          // it never comes to its end
	Fails   bool          // it panics after the first step
	Returns bool          // it returns after the first step
	Notes   int           // that a desk takes
	Awaits  bool          // it waits for a signal in place of packing, and for no clock
}

// Register registers the workflows.
func (c Code) Register() {
	workflow.Register("order", c.order)
	workflow.Register("desk", c.desk)
	workflow.Register("nap", c.nap)
	workflow.Register("ticks", c.ticks)
	workflow.Register("told", c.told)
}

func (c Code) step(ctx context.Context, name string) (string, error) {
	return workflow.Do(ctx, name, func(workflow.Step) (string, error) { return c.Name, nil })
}

func (c Code) order(ctx context.Context, _ string) (string, error) {
	done, err := c.step(ctx, "reserve")
	if err != nil {
		return "", err
	}
	workflow.Log(ctx).Info("reserved")
	for c.Loops {
		done = done[:len(done)/2] + done[len(done)/2:]
	}
	switch {
	case c.Fails:
		panic("no")
	case c.Returns:
		return "early", nil
	}
	if c.Marked && workflow.Version(ctx, "check the address", 1) >= 1 {
		checked, err := c.step(ctx, "check")
		if err != nil {
			return "", err
		}
		done += " " + checked
	}
	if c.Added {
		if _, err := c.step(ctx, "audit"); err != nil {
			return "", err
		}
	}
	if err := workflow.Sleep(ctx, "packing", c.Packing); err != nil {
		return "", err
	}
	if c.Broken {
		return workflow.Do(ctx, "ship", func(workflow.Step) (string, error) { return "", workflow.Fatal(errors.New("no ship")) })
	}
	shipped, err := c.step(ctx, "ship")
	return fmt.Sprintf("%s %s", done, shipped), err
}

// desk takes notes, and rests after each.
func (c Code) desk(ctx context.Context, _ string) (string, error) {
	text := c.Name
	for i := range c.Notes {
		note, err := workflow.Receive[string](ctx, "note")
		if err != nil {
			return "", err
		}
		text += " " + note
		if err := workflow.Sleep(ctx, fmt.Sprintf("rest-%d", i), 24*time.Hour); err != nil {
			return "", err
		}
	}
	return text + " " + c.Name, nil
}

// nap sleeps by a clock, which no journal has before it rings.
func (c Code) nap(ctx context.Context, _ string) (string, error) {
	if c.Awaits {
		note, err := workflow.Receive[string](ctx, "note")
		return c.Name + " " + note, err
	}
	time.Sleep(c.Packing)
	return c.Name, nil
}

// ticks continues as new until nothing is left, and then asks a child under which code it runs.
func (c Code) ticks(ctx context.Context, left int) (string, error) {
	if err := workflow.Sleep(ctx, "tick", 24*time.Hour); err != nil {
		return "", err
	}
	if left > 0 {
		return "", workflow.ContinueAsNew(ctx, left-1)
	}
	kid, err := workflow.Child[string](ctx, "kid", "nap", "")
	return c.Name + " " + kid, err
}

// told does a step that is named after what the workflow is told of itself, rests, and does another one.
func (c Code) told(ctx context.Context, _ string) (string, error) {
	i := workflow.Info(ctx)
	name := fmt.Sprintf("version %d of %s at %d", i.Version, i.Schedule, i.Nominal.UnixMilli())
	first, err := c.step(ctx, name)
	if err != nil {
		return "", err
	}
	if err := workflow.Sleep(ctx, "rest", time.Hour); err != nil {
		return "", err
	}
	last, err := c.step(ctx, "last")
	return fmt.Sprintf("%s: %s %s", name, first, last), err
}
