// Command nightly makes a report for the instant that its schedule started it for.
package main

import (
	"context"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() { workflow.Register("nightly", Nightly) }

func main() {}

// Report says what is reported.
type Report struct {
	Of   string `json:"of"`
	Zone string `json:"zone"`
}

// Nightly reports the day of its instant. A run that comes late, or is filled in afterwards, reports that day all the same.
func Nightly(ctx context.Context, in Report) (string, error) {
	at := workflow.Info(ctx).Nominal
	if at.IsZero() { // no schedule started it
		at = time.Now()
	}
	zone, err := time.LoadLocation(in.Zone)
	if err != nil {
		return "", workflow.Fatal(err)
	}
	return workflow.Do(ctx, "report", func(workflow.Step) (string, error) {
		return in.Of + " of " + at.In(zone).Format("Monday 2006-01-02"), nil
	})
}
