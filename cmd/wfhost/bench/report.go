package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Report has the results of a measurement in the order in which they are shown.
type Report struct {
	Bench string
	Guest string   // empty without a guest
	Notes []string // what readers must know about the figures

	noSync  bool
	figures []figure
}

func newReport(bench, guest string) *Report { return &Report{Bench: bench, Guest: guest} }

// notef adds a note about the figures.
func (r *Report) notef(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// figure is one number with its unit, or the percentiles of a latency.
type figure struct {
	name    string // in camel case, without the unit
	label   string // for people
	unit    unit
	value   float64
	latency *Latency
}

// unit is the suffix of a figure's name.
type unit string

// The units.
const (
	perSecond unit = "PerS"
	micros    unit = "Us"
	millis    unit = "Ms"
	seconds   unit = "S"
	size      unit = "Bytes"
	count     unit = "Count"
	ratio     unit = "Ratio"
)

// shown formats a value for people.
func (u unit) shown(v float64) string {
	switch {
	case math.IsNaN(v):
		return "n/a"
	case u == perSecond:
		return decimal(v) + " /s"
	case u == micros:
		return text(time.Duration(v * float64(time.Microsecond)))
	case u == millis:
		return text(time.Duration(v * float64(time.Millisecond)))
	case u == seconds:
		return text(time.Duration(v * float64(time.Second)))
	case u == size && math.Abs(v) >= 1<<20:
		return fmt.Sprintf("%.1f MiB", v/(1<<20))
	case u == size:
		return decimal(v) + " B"
	case u == ratio:
		return fmt.Sprintf("%.3g x", v)
	}
	return decimal(v)
}

func decimal(v float64) string {
	if v == math.Trunc(v) || math.Abs(v) >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return fmt.Sprintf("%.3g", v)
}

func (r *Report) number(name, label string, u unit, v float64) {
	r.figures = append(r.figures, figure{name: name, label: label, unit: u, value: v})
}

func (r *Report) latency(name, label string, samples []time.Duration) Latency {
	l := latencyOf(samples)
	r.figures = append(r.figures, figure{name: name, label: label, latency: &l})
	return l
}

// Header names the columns of Rows.
const Header = "figure\tvalue\tp50\tp99\tp99.9\tmax\tsamples"

// Rows returns the report as a table.
func (r *Report) Rows() (rows [][]string) {
	for _, f := range r.figures {
		row := []string{f.label, "", "", "", "", "", ""}
		if l := f.latency; l != nil {
			copy(row[2:], []string{text(l.P50), text(l.P99), text(l.P999), text(l.Max), strconv.Itoa(l.Samples)})
		} else {
			row[1] = f.unit.shown(f.value)
		}
		rows = append(rows, row)
	}
	return rows
}

// MarshalJSON returns the report as one flat object: names in camel case with the unit last, in a fixed order. Figures
// that the machine does not tell are null.
func (r *Report) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	add := func(name string, v any) {
		value, err := json.Marshal(v)
		if err != nil { // NaN
			value = []byte("null")
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		_, _ = fmt.Fprintf(&b, "%q:%s", name, value) // into memory
	}
	add("bench", r.Bench)
	if r.Guest != "" {
		add("guest", r.Guest)
		add("noSync", r.noSync)
	}
	add("notes", r.Notes)
	for _, f := range r.figures {
		l := f.latency
		if l == nil {
			add(f.name+string(f.unit), round(f.value))
			continue
		}
		for _, p := range []struct {
			name string
			d    time.Duration
		}{{"P50", l.P50}, {"P99", l.P99}, {"P999", l.P999}, {"Max", l.Max}} {
			add(f.name+p.name+"Us", round(float64(p.d)/float64(time.Microsecond)))
		}
		add(f.name+"SamplesCount", l.Samples)
	}
	return fmt.Appendf(nil, "{%s}", b.Bytes()), nil
}

// round keeps three decimals.
func round(v float64) float64 { return math.Round(v*1000) / 1000 }
