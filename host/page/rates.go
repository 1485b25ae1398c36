package page

import (
	"fmt"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/internal/clock"
)

const (
	// rateMinutes is how many minutes Rates covers.
	rateMinutes = 60
	// maxRateNamespaces bounds the namespaces in Rates, at about 5 KiB each. Namespaces without events for an hour make
	// room; if there are none, a new namespace is not counted.
	maxRateNamespaces = 1000
)

// Rates counts events of runs per minute for the overview: starts, ends, and how late wakes were in the last hour. It
// counts in memory, from its creation:
//
//	rates := page.NewRates(nil)
//	h, err := host.Open(ctx, host.Config{Dir: "data", Events: rates.Events()})
//	mux.Handle("/", page.New(h, page.WithRates(rates)))
type Rates struct {
	clock host.Clock
	began time.Time

	mu         sync.Mutex // guards namespaces; no callbacks while it is held, because runs wait for it
	namespaces map[string]*hour
}

// hour is the last hour of a namespace: a ring, in which each minute has the index of its number modulo 60.
type hour [rateMinutes]minute

// minute has the counts of one minute.
type minute struct {
	number                            int64 // since 1970; with another number it is stale
	started, completed, failed, other int64
	wakes                             int64
	late, latest                      time.Duration // sum and maximum of the lateness of wakes
}

// NewRates returns a counter. A nil clock is the machine's.
func NewRates(c host.Clock) *Rates {
	if c == nil {
		c = clock.System()
	}
	return &Rates{clock: c, began: c.Now(), namespaces: map[string]*hour{}}
}

// WithRates shows the rates of the last hour in the overview. Default: the overview shows no rates.
func WithRates(r *Rates) Option { return func(o *options) { o.rates = r } }

// Events returns the counting functions for host.Config.Events; host.JoinEvents combines them with others.
func (r *Rates) Events() host.Events {
	return host.Events{
		RunStarted: func(run host.Run) { r.count(run.Namespace, func(m *minute) { m.started++ }) },
		RunEnded: func(run host.Run, _ time.Duration) {
			r.count(run.Namespace, func(m *minute) {
				switch run.Status {
				case host.Completed:
					m.completed++
				case host.Failed:
					m.failed++
				default:
					m.other++
				}
			})
		},
		Wake: func(w host.WakeInfo) {
			r.count(w.Namespace, func(m *minute) {
				m.wakes++
				m.late += w.Late
				m.latest = max(m.latest, w.Late)
			})
		},
	}
}

// count changes the current minute of a namespace.
func (r *Rates) count(namespace string, change func(*minute)) {
	if namespace == "" {
		namespace = "default"
	}
	number := r.clock.Now().Unix() / 60
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.namespaces[namespace]
	if h == nil {
		if len(r.namespaces) >= maxRateNamespaces && !r.makeRoom(number) {
			return
		}
		h = &hour{}
		r.namespaces[namespace] = h
	}
	m := &h[number%rateMinutes]
	if m.number != number {
		*m = minute{number: number}
	}
	change(m)
}

// makeRoom removes a namespace without events for an hour, and reports whether there was one. r.mu is held.
func (r *Rates) makeRoom(number int64) bool {
	for name, h := range r.namespaces {
		quiet := true
		for i := range h {
			quiet = quiet && number-h[i].number >= rateMinutes
		}
		if quiet {
			delete(r.namespaces, name)
			return true
		}
	}
	return false
}

// pulse is the last hour of a namespace for the overview.
type pulse struct {
	Span                   string // of time
	Minutes                int
	Started, Ended, Failed int64
	Wakes                  int64
	Mean, Worst            time.Duration
	Overdue                time.Duration // of the wake that has been due longest in any namespace
	Starts, Ends, Lateness []stroke
}

// stroke is one minute of a chart, in units of its view box: 1 per minute in width, chartHeight in height.
type stroke struct {
	X          int
	Y, H, BadH float64 // BadH is the height of the bad part at the bottom
}

// chartHeight is the height of a chart, in units of its view box.
const chartHeight = 20

// pulse returns the last hour of a namespace.
func (r *Rates) pulse(namespace string) *pulse {
	now := r.clock.Now()
	p := &pulse{Minutes: min(int(now.Sub(r.began)/time.Minute)+1, rateMinutes), Span: "the last hour"}
	if p.Minutes < rateMinutes {
		p.Span = fmt.Sprintf("the last %d minutes, since the server began", p.Minutes)
	}
	if p.Minutes == 1 {
		p.Span = "the last minute, since the server began"
	}
	minutes := r.lastHour(namespace, now.Unix()/60)
	var mostStarts, mostEnds int64 = 1, 1
	worst := time.Second // otherwise a chart of milliseconds would look alarming
	var late time.Duration
	for _, m := range minutes {
		ends := m.completed + m.failed + m.other
		mostStarts, mostEnds, worst = max(mostStarts, m.started), max(mostEnds, ends), max(worst, m.latest)
		p.Started, p.Ended, p.Failed, p.Wakes = p.Started+m.started, p.Ended+ends, p.Failed+m.failed, p.Wakes+m.wakes
		late, p.Worst = late+m.late, max(p.Worst, m.latest)
	}
	if p.Wakes > 0 {
		p.Mean = late / time.Duration(p.Wakes)
	}
	for i, m := range minutes {
		p.Starts = strokes(p.Starts, i, float64(m.started)/float64(mostStarts), 0)
		p.Ends = strokes(p.Ends, i, float64(m.completed+m.failed+m.other)/float64(mostEnds), float64(m.failed)/float64(mostEnds))
		bad := 0.0
		if m.latest > lateAfter {
			bad = m.latest.Seconds() / worst.Seconds()
		}
		p.Lateness = strokes(p.Lateness, i, m.latest.Seconds()/worst.Seconds(), bad)
	}
	return p
}

// lastHour copies the 60 minutes of a namespace up to the given one, oldest first.
func (r *Rates) lastHour(namespace string, number int64) (list [rateMinutes]minute) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.namespaces[namespace]
	if h == nil {
		return list
	}
	for i := range list {
		n := number - rateMinutes + 1 + int64(i)
		if m := h[(n%rateMinutes+rateMinutes)%rateMinutes]; m.number == n {
			list[i] = m
		}
	}
	return list
}

// strokes appends a minute to a chart; shares are relative to the highest minute. Nonzero values have a minimum
// height.
func strokes(list []stroke, minute int, share, bad float64) []stroke {
	if share == 0 {
		return list
	}
	h := max(share*chartHeight, 1)
	return append(list, stroke{X: minute, Y: chartHeight - h, H: h, BadH: min(bad*chartHeight, h)})
}

// BadY is where the bad part of a stroke begins.
func (s stroke) BadY() float64 { return chartHeight - s.BadH }

// Each formats a count of the pulse as an average per minute.
func (p *pulse) Each(n int64) string {
	x := float64(n) / float64(p.Minutes)
	switch {
	case n == 0:
		return ""
	case x >= 100 || x == float64(int64(x)):
		return (*visit)(nil).Count(int64(x)) + " a minute"
	case x < 0.05:
		return "less than 0.1 a minute"
	}
	return fmt.Sprintf("%.1f a minute", x)
}

// MeanText formats how late wakes were on average.
func (p *pulse) MeanText() string { return humane(p.Mean) }

// WorstText formats how late the latest wake was.
func (p *pulse) WorstText() string { return humane(p.Worst) }

// OverdueText formats how long the oldest due wake has been due, empty up to lateAfter.
func (p *pulse) OverdueText() string {
	if p.Overdue <= lateAfter {
		return ""
	}
	return humane(p.Overdue)
}
