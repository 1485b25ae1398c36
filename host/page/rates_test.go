package page

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
)

// TestRates has runs start, end and fail, and checks the overview of the last hour.
func TestRates(t *testing.T) {
	s := openSite(t)
	s.broken.Store(true)
	s.start("order", "o-1", map[string]any{"item": "book"})
	s.start("naps", "n-1", nil)
	page := s.get("/")
	has(t, page, "In the last minute, since the server began", "Started 2 2 a minute", "Ended 0")
	s.h.Advance(9 * time.Minute)
	page = s.get("/")
	has(t, page, "In the last 10 minutes, since the server began", "Started 2 0.2 a minute", "Ended 1 0.1 a minute 1 failed")
	if n := strings.Count(page, `<rect class="bad"`); n != 1 {
		t.Error("the failed run is drawn", n, "times")
	}
	s.h.Advance(70 * time.Minute)
	has(t, s.get("/"), "In the last hour", "Started 0", "Ended 0", "Wakes 1 late by 0ms on average, 0ms at most")
}

// TestRatesAreBounded counts for a limited number of namespaces, and forgets quiet ones.
func TestRatesAreBounded(t *testing.T) {
	s := newSite(t, WithoutLogin())
	r := NewRates(s.h.Clock)
	start := r.Events().RunStarted
	for i := range maxRateNamespaces + 10 {
		start(host.Run{Namespace: fmt.Sprint("n", i)})
	}
	if n := len(r.namespaces); n != maxRateNamespaces {
		t.Error(n, "namespaces are counted")
	}
	s.h.Advance(2 * time.Hour)
	start(host.Run{Namespace: "late"})
	if p := r.pulse("late"); len(r.namespaces) != maxRateNamespaces || p.Started != 1 || len(p.Starts) != 1 || p.Starts[0].X != rateMinutes-1 {
		t.Errorf("%d namespaces, %+v", len(r.namespaces), p)
	}
	if p := r.pulse("nobody"); p.Started+p.Ended+p.Wakes != 0 || len(p.Starts) != 0 {
		t.Errorf("%+v", p)
	}
	late := r.Events().Wake
	late(host.WakeInfo{Late: 20 * time.Second})
	late(host.WakeInfo{Late: 10 * time.Second})
	if p := r.pulse("default"); p.MeanText() != "15s" || p.WorstText() != "20s" || len(p.Lateness) != 1 || p.Lateness[0].BadH != chartHeight {
		t.Errorf("%+v", p)
	}
}
