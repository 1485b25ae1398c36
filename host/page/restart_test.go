package page

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// TestPlanOfARestart shows, before the confirmation, what a restart would keep and repeat, or why there is no such
// step.
func TestPlanOfARestart(t *testing.T) {
	s := openSite(t)
	s.start("order", "o-1", map[string]any{"item": "book"})
	s.h.Advance(4 * 24 * time.Hour)
	page := s.get("/runs/o-1/do/restart?from=cool-down")
	has(t, page, "The new run Entry Call Name Note", "keeps 2 set_attribute item", "step charge", "does again", "sleep cool-down")
	again := textOf(page)[strings.Index(textOf(page), "does again"):]
	if strings.Contains(again, "charge") {
		t.Error("the step that is kept is done again")
	}
	page = s.get("/runs/o-1/do/restart")
	if strings.Contains(textOf(page), "keeps 2") {
		t.Error("a restart from the beginning keeps something")
	}
	w := s.post("/runs/o-1/do/restart", url.Values{"from": {"cool"}})
	if text := textOf(w.Body.String()); w.Code != http.StatusNotFound && w.Code != http.StatusBadRequest && w.Code != http.StatusConflict ||
		!strings.Contains(text, `named "cool"`) {
		t.Error(w.Code, text)
	}
	runs := 0
	for _, err := range s.h.Runs(ctx, host.Query{}) {
		runs++
		if err != nil {
			t.Fatal(err)
		}
	}
	if runs != 1 {
		t.Errorf("%d runs", runs)
	}
}

// TestMovedTimersOnThePage shows the new wake time of a run with an open time.Sleep, for a check and for a migration.
func TestMovedTimersOnThePage(t *testing.T) {
	s := newSite(t, WithoutLogin())
	if _, err := s.h.UploadAll(ctx, "", hosttest.Build(t, "../testdata/clocks"), host.AllowStep("*")); err != nil {
		t.Fatal(err)
	}
	s.start("naps", "r", "time.Sleep")
	if _, err := s.h.Upload(ctx, "naps", hosttest.Build(t, "../testdata/clocks/longer")); err != nil {
		t.Fatal(err)
	}
	at := hosttest.Epoch.Add(10 * time.Hour).UTC().Format(time.RFC3339)
	for _, do := range []string{"check", "migrate"} {
		w := s.post("/workflows/naps/versions/2/do/"+do, url.Values{"from": {"1"}})
		if w.Code != http.StatusOK {
			t.Fatal(w.Code, textOf(w.Body.String()))
		}
		has(t, w.Body.String(), "a timer of the program itself, such as time.Sleep, would wake it at "+at)
	}
}
