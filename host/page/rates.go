package page

import (
	"fmt"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/internal/clock"
)

const (
	// rateMinutes is how far back Rates looks.
	rateMinutes = 60
	// maxRateSpaces bounds the namespaces that Rates counts for, at about 5 KiB each. Those that have been quiet for longest make
	// room; if none is quiet, a new one is not counted.
	maxRateSpaces = 1000
)

// Rates counts what happens to runs, minute by minute, for the overview: starts, ends, and how late wakes were in the last hour.
// It counts in memory, from when it was made:
//
//	rates := page.NewRates(nil)
//	h, err := host.Open(ctx, host.Config{Dir: "data", Events: rates.Events()})
//	mux.Handle("/", page.New(h, page.WithRates(rates)))
type Rates struct {
	clock host.Clock
	began time.Time

	mu     sync.Mutex // guards spaces; nothing is called while it is held, because runs wait for it
	spaces map[string]*hour
}

// hour is the last hour of a namespace: each minute has the place of its number modulo 60.
type hour [rateMinutes]minute

// minute is what happened in one minute.
type minute struct {
	number                            int64 // since 1970; a place with another number is of an hour ago
	started, completed, failed, other int64
	wakes                             int64
	late, latest                      time.Duration // the sum of all wakes, and the one that was latest
}

// NewRates returns a counter. A nil clock is the machine's.
func NewRates(c host.Clock) *Rates {
	if c == nil {
		c = clock.System()
	}
	return &Rates{clock: c, began: c.Now(), spaces: map[string]*hour{}}
}

// WithRates shows the rates of the last hour in the overview. Default: it has none.
func WithRates(r *Rates) Option { return func(o *options) { o.rates = r } }

// Events returns the functions that count, for host.Config.Events, if need be by host.JoinEvents.
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
	h := r.spaces[namespace]
	if h == nil {
		if len(r.spaces) >= maxRateSpaces && !r.makeRoom(number) {
			return
		}
		h = &hour{}
		r.spaces[namespace] = h
	}
	m := &h[number%rateMinutes]
	if m.number != number {
		*m = minute{number: number}
	}
	change(m)
}

// makeRoom forgets a namespace in which nothing has happened for an hour, and reports whether there was one. r.mu is held.
func (r *Rates) makeRoom(number int64) bool {
	for name, h := range r.spaces {
		quiet := true
		for i := range h {
			quiet = quiet && number-h[i].number >= rateMinutes
		}
		if quiet {
			delete(r.spaces, name)
			return true
		}
	}
	return false
}

// pulse is the last hour of a namespace, as the overview shows it.
type pulse struct {
	Span                   string // of time
	Minutes                int
	Started, Ended, Failed int64
	Wakes                  int64
	Mean, Worst            time.Duration
	Overdue                time.Duration // of the wake that is due longest, of all namespaces
	Starts, Ends, Lateness []stroke
}

// stroke is one minute of a chart, in units of its view box: one wide a minute, and chartHeight high.
type stroke struct {
	X          int
	Y, H, BadH float64 // BadH is of the part at the bottom that is bad
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
	worst := time.Second // a chart of milliseconds would look like trouble
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

// lastHour copies the minutes of a namespace up to one of them, the oldest first.
func (r *Rates) lastHour(namespace string, number int64) (list [rateMinutes]minute) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.spaces[namespace]
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

// strokes appends a minute to a chart; shares are of the highest one. What is there is never too low to be seen.
func strokes(list []stroke, minute int, share, bad float64) []stroke {
	if share == 0 {
		return list
	}
	h := max(share*chartHeight, 1)
	return append(list, stroke{X: minute, Y: chartHeight - h, H: h, BadH: min(bad*chartHeight, h)})
}

// BadY is where the bad part of a stroke begins.
func (s stroke) BadY() float64 { return chartHeight - s.BadH }

// Each writes how many there are of something in a minute.
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

// MeanText and WorstText write how late wakes were.
func (p *pulse) MeanText() string { return humane(p.Mean) }

// WorstText writes how late the latest wake was.
func (p *pulse) WorstText() string { return humane(p.Worst) }

// OverdueText writes for how long the oldest wake has been due, empty if that is no time to speak of.
func (p *pulse) OverdueText() string {
	if p.Overdue <= lateAfter {
		return ""
	}
	return humane(p.Overdue)
}
