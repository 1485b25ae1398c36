package guest

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Waits that the host imposes do not count as the guest's time.
func TestUntimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := Metered{Limits: Limits{CPU: time.Second}}
		wait := func() error { <-time.After(time.Minute); return nil }
		for _, err := range []error{m.inTime(), m.Untimed(wait), m.inTime(), wait()} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := m.inTime(); !errors.Is(err, ErrSlow) {
			t.Error(err)
		}
	})
}
