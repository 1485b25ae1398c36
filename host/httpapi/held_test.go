package httpapi

import (
	"testing"
	"time"
)

// TestLongWaitIsHeld holds an answer as long as it may be held, for a wait that does not fit.
func TestLongWaitIsHeld(t *testing.T) {
	before := time.Now()
	ctx, cancel, err := held(t.Context(), "110000d")
	if err != nil {
		t.Fatal(err)
	}
	defer cancel()
	if end, ok := ctx.Deadline(); !ok || end.Before(before.Add(maxWait)) || end.After(time.Now().Add(maxWait)) {
		t.Error(end, ok)
	}
}
