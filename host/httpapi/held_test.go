package httpapi

import (
	"testing"
	"time"
)

// TestLongWaitIsHeld limits a requested wait to maxWait.
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
