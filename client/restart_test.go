package client_test

import (
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/client"
	"github.com/wfhost/wfhost/host/hosttest"
)

// A plan says what a restart keeps and repeats, and changes nothing. A plan of a restart that would be refused is not
// an error.
func TestPlanRestart(t *testing.T) {
	s, ctx := serve(t), t.Context()
	_, err := s.Upload(ctx, "", hosttest.Build(t, "../host/testdata/clocks"), client.UploadOptions{})
	must(t, err)
	in := map[string]any{"First": "sleep", "Kind": "sleep", "Ms": 1000}
	_, err = s.Start(ctx, "waits", in, client.StartOptions{ID: "r"})
	must(t, err)
	s.h.Settle()
	s.h.Advance(time.Minute)
	first := uint32(0)
	p, err := s.PlanRestart(ctx, "r", client.RestartOptions{NewID: "again", From: "wait 0", Iteration: &first, Version: 1, KeepUndone: true})
	must(t, err)
	want(t, "from", p.From, "wait 0")
	want(t, "version", p.Version, 1)
	want(t, "refused", p.Refused, "")
	want(t, "kept", len(p.Kept) > 0 && p.Kept[0].Name == "first sleep" && p.Kept[0].Kind == "sleep", true)
	want(t, "repeated", len(p.Repeated) > 0 && p.Repeated[0].Name == "wait 0", true)
	wantErr(t, "the new run", errorOf(s.Get(ctx, "again")), client.ErrNotFound)
	wantErr(t, "no such step", errorOf(s.PlanRestart(ctx, "r", client.RestartOptions{From: "none"})), client.ErrNotFound)
	_, err = s.RestartWith(ctx, "r", client.RestartOptions{NewID: "again", From: "wait 0"})
	must(t, err)
}

// If the new code sleeps longer, the migration reports the new wake time of the run.
func TestMigrationTellsMovedTimers(t *testing.T) {
	s, ctx := serve(t), t.Context()
	_, err := s.Upload(ctx, "", hosttest.Build(t, "../host/testdata/clocks"), client.UploadOptions{})
	must(t, err)
	_, err = s.Start(ctx, "naps", "time.Sleep", client.StartOptions{ID: "r"})
	must(t, err)
	s.h.Settle()
	_, err = s.Upload(ctx, "naps", hosttest.Build(t, "../host/testdata/clocks/longer"), client.UploadOptions{})
	must(t, err)
	for _, dry := range []bool{true, false} {
		var notes []string
		_, err = s.Workflows().Migrate(ctx, "naps", client.Migration{To: 2, DryRun: dry}, func(c client.RunCheck) error {
			notes = append(notes, c.Notes...)
			return nil
		})
		must(t, err)
		at := hosttest.Epoch.Add(10 * time.Hour).UTC().Format(time.RFC3339)
		want(t, "notes", len(notes) == 1 && strings.Contains(notes[0], at), true)
	}
}
