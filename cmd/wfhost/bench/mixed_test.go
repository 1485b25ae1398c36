package bench

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
)

func TestMixedRuns(t *testing.T) {
	b := Mixed{Longest: 10 * time.Minute}
	const n = 100_000
	var payload, short, long int
	for i := range n {
		d := b.sleepOf(i)
		if d < shortest || d > b.Longest {
			t.Fatal(i, d)
		}
		if d < 10*shortest {
			short++
		}
		if d >= time.Minute {
			long++
		}
		payload += payloadOf(i)
	}
	// From 10 ms to 10 min there are 4.78 factors of ten.
	if d := short - n*100/478; d < -n/500 || d > n/500 {
		t.Errorf("%d of %d sleep for less than 100 ms", short, n)
	}
	if d := long - n*100/478; d < -n/500 || d > n/500 {
		t.Errorf("%d of %d sleep for a minute or more", long, n)
	}
	if hour := payload / n * 50 * 3600; hour < 195e6 || hour > 210e6 {
		t.Errorf("%d bytes in an hour", hour)
	}
	if got := string(b.inputOf(0)); got != "[10,512,2,1,1]" {
		t.Error(got)
	}
	if got := string(b.inputOf(999)); !strings.HasSuffix(got, ",307200,2,0,0]") {
		t.Error(got)
	}
}

func TestMixedFlags(t *testing.T) {
	good := Mixed{Rate: 50, Longest: time.Minute, Every: time.Minute, Hosted: Hosted{Guest: Small, Common: Common{Probe: time.Second}}}
	if err := good.check(); err != nil || good.Guest != Go || good.For != time.Hour {
		t.Error(err, good.Guest, good.For)
	}
	for want, change := range map[string]func(*Mixed){
		"bench mixed goes on for a time: give --for, got --n 7":                                                            func(b *Mixed) { b.N = 7 },
		"bench mixed needs the workflows in Go or TypeScript: give --guest go, --guest ts or --module FILE, got --guest c": func(b *Mixed) { b.Guest = C },
		"--longest must be from 10ms to 24h0m0s, got 1ms":                                                                  func(b *Mixed) { b.Longest = time.Millisecond },
		"--every must be from 100ms to 24h0m0s, got 1ms":                                                                   func(b *Mixed) { b.Every = time.Millisecond },
		"--keep must be from 0s to 24h0m0s, got -1ns":                                                                      func(b *Mixed) { b.Keep = -1 },
	} {
		b := good
		change(&b)
		if err := b.check(); err == nil || err.Error() != want || !errors.Is(err, ErrUsage) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestGrowth(t *testing.T) {
	peaks := func(list ...float64) (samples []sample) {
		for i, p := range list {
			samples = append(samples, sample{after: time.Duration(i+1) * time.Minute, peak: p})
		}
		return samples
	}
	// The third interval is the first one that begins more than two minutes after the start.
	if first, most, by := growth(peaks(50, 90, 100, 95, 108, 102), 2*time.Minute); first != 100 || most != 108 || by != 1.08 {
		t.Error(first, most, by)
	}
	if first, most, by := growth(peaks(1, 2, 100, 90, 80), 2*time.Minute); first != 100 || most != 90 || by != 0.9 {
		t.Error(first, most, by)
	}
	for _, few := range [][]sample{nil, peaks(1), peaks(1, 2, 3)} {
		if first, most, by := growth(few, 2*time.Minute); !math.IsNaN(first) || !math.IsNaN(most) || !math.IsNaN(by) {
			t.Error(few, first, most, by)
		}
	}
}

// TestNextDead: a run is deleted when its retention is over, and not before the runs that ended earlier.
func TestNextDead(t *testing.T) {
	at := time.UnixMilli(1_000_000)
	m := &mixture{Mixed: &Mixed{Keep: time.Minute}}
	if id, wait := m.nextDead(at); id != "" || wait != leastEvery {
		t.Error(id, wait)
	}
	m.end(host.Run{ID: "a", Ended: at})
	m.end(host.Run{ID: "b", Ended: at.Add(time.Second)})
	if id, wait := m.nextDead(at.Add(time.Minute - time.Millisecond)); id != "" || wait != time.Millisecond {
		t.Error(id, wait)
	}
	if id, _ := m.nextDead(at.Add(time.Minute)); id != "a" {
		t.Error(id)
	}
	if id, wait := m.nextDead(at.Add(time.Minute)); id != "" || wait != time.Second {
		t.Error(id, wait)
	}
	if n := m.ended.Load(); n != 2 {
		t.Error(n)
	}
}

func TestWakes(t *testing.T) {
	var w wakes
	for _, ms := range []int{3, -1, 5} {
		w.add(time.Duration(ms) * time.Millisecond)
	}
	if l, early := w.take(); l.P50 != 3*time.Millisecond || l.Max != 5*time.Millisecond || l.Samples != 3 || early != 1 {
		t.Error(l, early)
	}
	if l, early := w.take(); l.Samples != 0 || early != 1 || w.all != 3 { // early counts from the beginning
		t.Error(l, early, w.all)
	}
}

func TestSampleLine(t *testing.T) {
	s := sample{after: 2 * time.Minute, rss: 100 << 20, peak: 120 << 20, held: 60 << 20, heap: 30 << 20, disk: 5 << 30, goroutines: 77, early: 2,
		started: 6000, steps: 18000, signals: 1200, queries: 60, ended: 5400, deleted: 3000,
		late: Latency{P50: 2 * time.Millisecond, P99: 30 * time.Millisecond}}
	const want = "2m0s: RSS 100.0 MiB (most 120.0 MiB), of it Go 60.0 MiB, heap 30.0 MiB, 77 goroutines, disk 5120.0 MiB; late p50 2.00 ms, p99 30.00 ms, " +
		"2 early; starts 50/s, steps 150/s, signals 10/s, queries 1/s, ends 40/s, deletes 25/s"
	if got := s.line(sample{after: time.Minute, started: 3000, steps: 9000, signals: 600, ended: 3000, deleted: 1500}); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
