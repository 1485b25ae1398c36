package cron_test

import (
	"fmt"
	"time"

	"github.com/wfhost/wfhost/cron"
)

func ExampleParse() {
	weekdays, err := cron.Parse("30 9 * * MON-FRI", "Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	next, ok := weekdays.Next(time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)) // a Friday
	fmt.Println(next.Format(time.RFC3339), ok)
	_, err = cron.Parse("0 0 30 2 *", "")
	fmt.Println(err != nil) // never due
	// Output:
	// 2026-11-30T09:30:00+01:00 true
	// true
}

func ExampleTimes_Next() {
	lastDays, err := cron.Parse("R/2026-01-31T09:00/P1M", "UTC")
	if err != nil {
		fmt.Println(err)
		return
	}
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for range 3 {
		at, _ = lastDays.Next(at)
		fmt.Println(at.Format(time.DateOnly))
	}
	// Output:
	// 2026-02-28
	// 2026-03-31
	// 2026-04-30
}
