package host_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host"
)

// TestRestartsOfLaterIterations restarts a run from a later iteration, with which the new run begins. The new run can
// be restarted from there, and its export can be imported, before and after retention removes that iteration.
func TestRestartsOfLaterIterations(t *testing.T) {
	p := newPrims(t)
	id := p.begin("counter", 40)
	through(p, 9)
	seven := uint32(7)
	_, err := p.RestartWith(ctx, id, host.RestartOptions{NewID: "r", Iteration: &seven})
	do(t, err)
	moves := func(first, newest uint32) {
		t.Helper()
		r, err := p.Get(ctx, "r")
		if do(t, err); r.FirstIteration != first || r.Iteration != newest {
			t.Fatalf("iterations %d to %d are kept, want %d to %d", r.FirstIteration, r.Iteration, first, newest)
		}
		for _, o := range []host.ExportOptions{{NewestIteration: true}, {}} {
			var b bytes.Buffer
			do(t, p.Export(ctx, "r", &b, o))
			_, err := host.ReadArchive(bytes.NewReader(b.Bytes()))
			do(t, err)
			q := newPrims(t)
			_, err = q.Import(ctx, &b, host.ImportOptions{Adopt: true, Force: true})
			do(t, err)
			if got, err := q.Get(ctx, "r"); err != nil || !o.NewestIteration && got.FirstIteration != first {
				t.Errorf("imported: iterations from %d on, want %d: %v", got.FirstIteration, first, err)
			}
			through(q, 40)
			want(t, result[int](q, "r"), 40)
		}
	}
	p.Settle()
	moves(7, 7)
	through(p, 3)
	moves(7, 10)
	_, err = p.RestartWith(ctx, "r", host.RestartOptions{NewID: "again"})
	do(t, err)
	again, err := p.Get(ctx, "again")
	do(t, err)
	want(t, again.Iteration, seven)
	_, err = p.RestartWith(ctx, "again", host.RestartOptions{NewID: "and"}) // which is in its first iteration
	do(t, err)
	through(p, 13)
	moves(13, 23)
	_, err = p.RestartWith(ctx, "r", host.RestartOptions{})
	if !errors.Is(err, host.ErrNotFound) || !strings.Contains(err.Error(), "iteration 7") {
		t.Error(err)
	}
	_, err = p.RestartWith(ctx, "r", host.RestartOptions{Iteration: new(uint32)})
	if !errors.Is(err, host.ErrNotFound) || !strings.Contains(err.Error(), "iteration 0, it began with iteration 7") {
		t.Error(err)
	}
	through(p, 20)
	for _, id := range []string{"r", "again", "and"} {
		want(t, result[int](p, id), 40)
	}
}
