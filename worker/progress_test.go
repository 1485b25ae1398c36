package worker_test

import (
	"context"
	"errors"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/worker"
)

// TestDetails fails an attempt whose worker recorded its progress, and has the next attempt resume from there.
func TestDetails(t *testing.T) {
	s := newSite(t)
	stop := s.run(func(w *worker.Worker) {
		worker.Handle(w, "charge", func(ctx context.Context, _ charge) (string, error) {
			if d := string(worker.Info(ctx).Details); d != "" {
				return "from " + d, nil
			}
			return "", errors.Join(worker.Heartbeat(ctx, 41), worker.Heartbeat(ctx, 42), errors.New("tired"))
		})
	})
	s.begin("r", "")
	s.until("the first attempt", func() bool { _, ok := s.entry("r"); return ok })
	r := s.Finish("r")
	if e, _ := s.entry("r"); r.Status != host.Completed || string(e.Data) != `"from 42"` {
		t.Error(r.Status, string(e.Data))
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if err := worker.Heartbeat(t.Context(), 1); err == nil {
		t.Error("a heartbeat outside of a handler is taken")
	}
}
