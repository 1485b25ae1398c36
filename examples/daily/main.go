// Command daily reports every day at nine.
package main

import (
	"context"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() { workflow.Register("daily", Daily) }

func main() {}

// Daily makes a number of reports and gives their times.
func Daily(ctx context.Context, days int) ([]string, error) {
	var reports []string
	for range days {
		next, err := workflow.SleepUntilNext(ctx, "0 9 * * *", "UTC")
		if err != nil {
			return reports, err
		}
		report, err := workflow.Do(ctx, "report "+next.Format(time.DateOnly), func(workflow.Step) (string, error) {
			return next.Format(time.RFC3339), nil
		})
		if err != nil {
			return reports, err
		}
		reports = append(reports, report)
	}
	return reports, nil
}
