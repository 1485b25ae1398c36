// Package plan holds the workflows of the modules beside it, which are versions of one another.
package plan

import (
	"context"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

// Code is what differs between the versions.
type Code struct {
	Tuned  bool // steps are retried in another way, and it logs what it does
	Survey bool // a step was added behind a marker, after the first leg of each round
	Audit  bool // a step was added without one, after the second leg
}

// Plan is the input: a round of legs in hours, and those that come after it, each of which is an iteration of its own.
type Plan struct {
	Customer int     `json:"customer"`
	Rounds   [][]int `json:"rounds"`
	Round    int     `json:"round"` // which one this is, from 0
	Done     string  `json:"done"`  // what the rounds before have done
}

// Register registers the workflows, which differ in their names alone.
func (c Code) Register() {
	workflow.Register("plan", c.carry)
	workflow.Register("rental", c.carry)
}

// carry sleeps through the legs, and does a step at the end of each. Its result says what it has done, in order.
func (c Code) carry(ctx context.Context, p Plan) (string, error) {
	for i, hours := range p.Rounds[p.Round] {
		if err := workflow.Sleep(ctx, fmt.Sprint("leg-", i), time.Duration(hours)*time.Hour); err != nil {
			return "", err
		}
		switch {
		case i == 0 && c.Survey && workflow.Version(ctx, "with a survey", 1) >= 1:
			if err := p.do(ctx, "survey", "S"); err != nil {
				return "", err
			}
		case i == 1 && c.Audit:
			if err := p.do(ctx, "audit", "A"); err != nil {
				return "", err
			}
		}
		var options []workflow.Option
		if c.Tuned {
			options = append(options, workflow.Attempts(9))
			workflow.Log(ctx).Info("shipping", "leg", i)
		}
		shipped, err := workflow.Call[string](ctx, fmt.Sprintf("ship-%d.%d", p.Round, i), "host/ship", p.Done, options...)
		if err != nil {
			return "", err
		}
		p.Done += shipped
	}
	p.Round++
	if p.Round < len(p.Rounds) {
		return "", workflow.ContinueAsNew(ctx, p)
	}
	return p.Done, nil
}

// do does a step of the workflow itself.
func (p *Plan) do(ctx context.Context, name, letter string) error {
	done, err := workflow.Do(ctx, name, func(workflow.Step) (string, error) { return letter, nil })
	p.Done += done
	return err
}
