package run

import (
	"testing"

	"github.com/wfhost/wfhost/store"
)

// A run at rest keeps nothing of its newest step, and can start another one.
func TestRest(t *testing.T) {
	r := New(store.RunKey{ID: "r"}, Config{})
	for range 2 {
		if fx := r.Apply(1, Due{}); fx == nil || r.t.Run != r || r.t.now != 1 {
			t.Fatal("a step has no effects")
		}
		r.Rest()
		if r.t.Run != nil || r.t.now != 0 || r.t.orders != [2]Told{} || r.t.fx.Activate != nil {
			t.Error("the newest step is kept")
		}
	}
}
