package bench

import (
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"time"
)

// sample is the state at the end of an interval. Counts are since the beginning.
type sample struct {
	after                                            time.Duration // since the beginning
	rss, peak, held, heap, disk                      float64       // bytes; peak: of the interval, held: by Go's runtime
	goroutines, early                                int
	started, steps, signals, queries, ended, deleted int64
	late                                             Latency // of the interval
}

// The metrics: the memory of objects, including dead ones that are not collected yet; the memory that Go's runtime has
// from the system; the part of it that the runtime has returned. The rest of a process's memory is Pebble's cache and
// memtables, and the guests'.
const (
	heapMetric     = "/memory/classes/heap/objects:bytes"
	mappedMetric   = "/memory/classes/total:bytes"
	releasedMetric = "/memory/classes/heap/released:bytes"
)

// watch takes a sample after each interval, and prints it, until end is closed.
func (m *mixture) watch(end <-chan struct{}) error {
	begun := time.Now()
	resetPeak()
	t := time.NewTicker(m.Every)
	defer t.Stop()
	var before sample
	for {
		select {
		case <-t.C:
		case <-end:
			return nil
		}
		now, err := m.look(begun)
		if err != nil {
			return err
		}
		m.s.env.Say(now.line(before))
		m.samples = append(m.samples, now)
		before = now
		resetPeak()
	}
}

// look takes a sample.
func (m *mixture) look(begun time.Time) (s sample, err error) {
	s.rss, s.peak = memory()
	list := []metrics.Sample{{Name: heapMetric}, {Name: mappedMetric}, {Name: releasedMetric}}
	metrics.Read(list)
	var read [3]float64
	for i, m := range list {
		if m.Value.Kind() == metrics.KindUint64 {
			read[i] = float64(m.Value.Uint64())
		}
	}
	s.heap, s.held = read[0], read[1]-read[2]
	s.goroutines = runtime.NumGoroutine()
	s.late, s.early = m.wake.take()
	s.started, s.steps, s.signals = m.started.Load(), m.steps.Load(), m.signals.Load()
	s.queries, s.ended, s.deleted = m.queries.Load(), m.ended.Load(), m.deleted.Load()
	s.after = time.Since(begun)
	s.disk, err = diskBytes(filepath.Join(m.s.dir, "data"))
	return s, err
}

// line formats a sample, with rates since the previous one.
func (s sample) line(before sample) string {
	rate := func(now, then int64) string {
		return decimal(math.Round(float64(now-then)/(s.after-before.after).Seconds())) + "/s"
	}
	took := fmt.Sprintf("RSS %s (most %s), of it Go %s, heap %s, %d goroutines, disk %s", size.shown(s.rss), size.shown(s.peak),
		size.shown(s.held), size.shown(s.heap), s.goroutines, size.shown(s.disk))
	did := fmt.Sprintf("starts %s, steps %s, signals %s, queries %s, ends %s, deletes %s", rate(s.started, before.started),
		rate(s.steps, before.steps), rate(s.signals, before.signals), rate(s.queries, before.queries),
		rate(s.ended, before.ended), rate(s.deleted, before.deleted))
	return fmt.Sprintf("%v: %s; late p50 %s, p99 %s, %d early; %s", s.after.Round(time.Second), took, text(s.late.P50),
		text(s.late.P99), s.early, did)
}

// growth returns the peak of the first interval that began after memory has settled, the highest peak of the intervals
// after it, and their ratio. All are NaN if there is nothing to compare.
func growth(samples []sample, settled time.Duration) (first, most, by float64) {
	var later []float64
	for i, s := range samples {
		if i > 0 && samples[i-1].after >= settled {
			later = append(later, s.peak)
		}
	}
	if len(later) < 2 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	first, most = later[0], slices.Max(later[1:])
	return first, most, most / first
}

// settled is how long memory may grow: ten minutes, or a third of the duration if that is less.
func (b *Mixed) settled() time.Duration { return min(mostSettle, b.For/3).Round(time.Millisecond) }

// tell reports the results.
func (m *mixture) tell() {
	s, settled := m.s, m.settled()
	first, most, by := growth(m.samples, settled)
	switch {
	case math.IsNaN(by):
		s.notef("It was too short to tell whether memory was flat: it takes two whole intervals of %v after the first %v.", m.Every,
			settled)
	case by <= flatWithin:
		s.notef("MEMORY WAS FLAT: after the first %v it was at most %.1f %% above what it was then.", settled, 100*(by-1))
	default:
		s.notef("MEMORY WAS NOT FLAT: after the first %v it grew by %.1f %%, and %.0f %% are allowed.", settled, 100*(by-1),
			100*(flatWithin-1))
	}
	_, early := m.wake.take()
	if early > 0 {
		s.notef("%d STEPS CAME BEFORE THEIR INSTANT.", early)
	}
	s.number("early", "steps before their instant", count, float64(early))
	s.number("wakes", "wakes", count, float64(m.wake.all))
	for _, c := range []struct {
		name, label string
		n           int64
	}{{"starts", "starts", m.started.Load()}, {"steps", "steps", m.steps.Load()}, {"signals", "signals", m.signals.Load()},
		{"queries", "queries", m.queries.Load()}, {"ended", "runs that ended", m.ended.Load()},
		{"deleted", "runs that were deleted", m.deleted.Load()}} {
		s.number(c.name, c.label, count, float64(c.n))
	}
	s.number("settledPeakRss", fmt.Sprintf("most memory in the interval after %v (RSS)", settled), size, first)
	s.number("laterPeakRss", "most memory in an interval after that (RSS)", size, most)
	s.number("rssGrowth", "the second to the first", ratio, by)
	if n := len(m.samples); n > 0 {
		last := m.samples[n-1]
		s.number("rss", "memory at the end (RSS)", size, last.rss)
		s.number("goHeld", "of it by Go's runtime", size, last.held)
		s.number("heap", "of that in objects", size, last.heap)
		s.number("goroutines", "goroutines at the end", count, float64(last.goroutines))
		s.number("disk", "data on disk at the end, logs and caches included", size, last.disk)
		s.number("lateP50", "lateness in the last interval, p50", micros, micro(last.late.P50))
		s.number("lateP99", "lateness in the last interval, p99", micros, micro(last.late.P99))
	}
}

func micro(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
