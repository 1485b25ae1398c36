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
		now := time.Now().UTC()
		next := time.Date(now.Year(), now.Month(), now.Day(), 9, 0, 0, 0, time.UTC)
		if !next.After(now) {
			next = next.AddDate(0, 0, 1)
		}
		day := next.Format(time.DateOnly)
		if err := workflow.SleepUntil(ctx, "until "+day, next); err != nil {
			return reports, err
		}
		report, err := workflow.Do(ctx, "report "+day, func(workflow.Step) (string, error) {
			return next.Format(time.RFC3339), nil
		})
		if err != nil {
			return reports, err
		}
		reports = append(reports, report)
	}
	return reports, nil
}
