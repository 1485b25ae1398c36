// Command progress does work in parts, tells how far it is, and answers when it is asked.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() { workflow.Register("progress", Work, workflow.Queries("progress")) }

func main() {}

// Progress is what the query answers and the output shows.
type Progress struct {
	Done, Of int
	Next     time.Time
}

// Work does a number of parts, one an hour.
func Work(ctx context.Context, parts int) (int, error) {
	p := Progress{Of: parts, Next: time.Now()}
	workflow.Query(ctx, "progress", func(struct{}) (Progress, error) { return p, nil })
	for p.Done < parts {
		if _, err := workflow.Do(ctx, fmt.Sprint("part ", p.Done+1), func(workflow.Step) (int, error) {
			return p.Done + 1, nil // a real one works
		}); err != nil {
			return p.Done, err
		}
		p.Done++
		p.Next = time.Now().Add(time.Hour)
		if _, err := workflow.Emit(ctx, "progress", p); err != nil {
			return p.Done, err
		}
		time.Sleep(time.Hour)
	}
	return p.Done, nil
}
