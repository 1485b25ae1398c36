package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// Result is what was measured, as -json writes it.
type Result struct {
	Base      string        `json:"base"` // the commit
	Head      string        `json:"head"` // the commit; with + if files differ from it
	Began     time.Time     `json:"began"`
	Processor string        `json:"processor"`
	Cores     int           `json:"cores"`
	Rounds    int           `json:"rounds"`
	Figures   []Measurement `json:"measurements"`
}

// Measurement is a figure of one command, of both builds.
type Measurement struct {
	Name  string    `json:"name"`
	Args  []string  `json:"args"`
	Key   string    `json:"key"` // the unit last
	Label string    `json:"label"`
	More  bool      `json:"moreIsBetter"`
	Base  []float64 `json:"base"` // by round
	Head  []float64 `json:"head"` // by round
	// Ratio is the median of head / base of the rounds, Least and Most are its bounds. They are 0 if a base is 0.
	Ratio float64 `json:"ratio"`
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
}

// tolerance is by how much a figure may be worse before the table says so.
const tolerance = 1.03

// settle computes the ratios.
func (m *Measurement) settle() {
	var ratios []float64
	for i := range min(len(m.Base), len(m.Head)) {
		if m.Base[i] <= 0 {
			m.Ratio, m.Least, m.Most = 0, 0, 0
			return
		}
		ratios = append(ratios, m.Head[i]/m.Base[i])
	}
	if len(ratios) > 0 {
		m.Ratio, m.Least, m.Most = median(ratios), slices.Min(ratios), slices.Max(ratios)
	}
}

// verdict is "worse" or "better" if head differs from base in each round, and by more than the tolerance in the median.
func (m *Measurement) verdict() string {
	worse, least, most := m.Ratio, m.Least, m.Most
	if m.Ratio == 0 {
		return ""
	}
	if m.More {
		worse, least, most = 1/m.Ratio, 1/m.Most, 1/m.Least
	}
	switch {
	case worse > tolerance && least > 1:
		return "worse"
	case worse < 1/tolerance && most < 1:
		return "better"
	}
	return ""
}

func median(list []float64) float64 {
	s := slices.Sorted(slices.Values(list))
	if len(s)%2 == 1 {
		return s[len(s)/2]
	}
	return (s[len(s)/2-1] + s[len(s)/2]) / 2
}

// write writes the table in Markdown.
func (r *Result) write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "| | | %s | %s | ratio | least … most | |\n|---|---|---|---|---|---|---|\n", short(r.Base), short(r.Head))
	last := ""
	for _, m := range r.Figures {
		name := m.Name
		if name == last {
			name = ""
		}
		last = m.Name
		ratio, spread := "", ""
		if m.Ratio != 0 {
			ratio, spread = digits(m.Ratio), digits(m.Least)+" … "+digits(m.Most)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", name, m.Label, show(m.Key, median(m.Base)),
			show(m.Key, median(m.Head)), ratio, spread, m.verdict())
	}
	fmt.Fprintf(&b, "\nMedians of %d rounds, in turns, on %s: %d × %s. A ratio is that of %s to %s in the same round. \"worse\" "+
		"and \"better\" are those that differ in each round, and by more than %.0f %% in the median.\n", r.Rounds,
		r.Began.UTC().Format("2 January 2006"), r.Cores, r.Processor, short(r.Head), short(r.Base), 100*(tolerance-1))
	_, err := io.WriteString(w, b.String())
	return err
}

// short shortens the hash of a commit.
func short(commit string) string {
	hash, plus := strings.CutSuffix(commit, "+")
	if len(hash) > 8 {
		hash = hash[:8]
	}
	if plus {
		hash += " with changes"
	}
	return hash
}

// show formats a figure with the unit that its key ends with.
func show(key string, v float64) string {
	switch {
	case strings.HasSuffix(key, "PerS"):
		return digits(v) + "/s"
	case strings.HasSuffix(key, "Us") && v >= 1000:
		return digits(v/1000) + " ms"
	case strings.HasSuffix(key, "Us"):
		return digits(v) + " µs"
	case strings.HasSuffix(key, "Ms"):
		return digits(v) + " ms"
	case strings.HasSuffix(key, "Bytes") && v >= 1<<20:
		return digits(v/(1<<20)) + " MiB"
	case strings.HasSuffix(key, "Bytes"):
		return digits(v) + " B"
	}
	return digits(v)
}

// digits keeps three digits.
func digits(v float64) string {
	switch {
	case math.Abs(v) >= 100:
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
