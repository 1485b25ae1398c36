package handler_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/handler"
)

// TestKeeper records details each second for a day: they are durable within the interval, and at a falling rate.
func TestKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		last, begin := "", time.Now()
		k := handler.NewProgressKeeper(clock.System(), func(_ handler.Attempt, details []byte) error {
			last, at = string(details), append(at, time.Since(begin))
			return nil
		})
		defer k.Close()
		a := handler.Attempt{IdempotencyKey: "k", Number: 2}
		for n := range 86_400 {
			if !k.Record(a, fmt.Append(nil, n)) {
				t.Fatal("refused")
			}
			pass(time.Second)
		}
		if len(at) < 100 || len(at) > 500 || at[0] != 0 || at[1] != 10*time.Second {
			t.Errorf("%d records, the first at %v", len(at), at[:2])
		}
		for i := 1; i < len(at); i++ {
			if gap := at[i] - at[i-1]; gap < 10*time.Second || gap > max(11*time.Second, at[i]/60) {
				t.Fatalf("%v between two records, at %v", gap, at[i])
			}
		}
		if old := (handler.Attempt{IdempotencyKey: "k", Number: 1}); k.Record(old, nil) || string(k.Latest(&old)) != "86399" {
			t.Error("an attempt before the newest records")
		}
		k.Flush("k")
		if last != "86399" {
			t.Errorf("the newest that is durable is %s", last)
		}
		pass(24 * time.Hour)
		if d := k.Latest(&handler.Attempt{IdempotencyKey: "k", Details: []byte("journal")}); string(d) != "journal" {
			t.Errorf("%s is still in memory", d)
		}
	})
}

// pass lets time pass in a bubble.
func pass(d time.Duration) {
	<-time.NewTimer(d).C
	synctest.Wait()
}
