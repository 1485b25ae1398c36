// Package report keeps the results of all rounds and makes the table of them.
package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/wfhost/wfhost/bench/peers/measure"
)

// Result is what one workload gave in one round. It is one line of the output in JSON.
type Result struct {
	Round    int                `json:"round"` // counted from 1
	Engine   string             `json:"engine"`
	Workload string             `json:"workload"`
	Figures  map[string]float64 `json:"figures,omitempty"`
	// OthersPercent is what other processes of the machine used meanwhile, in percent of one core; nil if that was not measured.
	OthersPercent *float64 `json:"othersPercent,omitempty"`
	Error         string   `json:"error,omitempty"` // there are no figures then
}

// Row is one line of the table: a figure of a workload.
type Row struct {
	Label, Workload, Figure string
	MoreIsBetter            bool
}

// Table is what is to be printed. The first engine is the one that the others are compared with.
type Table struct {
	Rows    []Row
	Engines []string
	Results []Result
	Spread  bool // beside each median, the least and the greatest value
}

// none stands where there is no figure.
const none = "–"

// values returns the figures of all rounds, and the last error.
func (t *Table) values(engine string, r Row) (values []float64, failed string) {
	for _, res := range t.Results {
		if res.Engine != engine || res.Workload != r.Workload {
			continue
		}
		if v, ok := res.Figures[r.Figure]; ok {
			values = append(values, v)
		}
		if res.Error != "" {
			failed = res.Error
		}
	}
	return values, failed
}

// Write writes the table in Markdown. Rows that were not measured with any engine are left out.
func (t *Table) Write(w io.Writer) error {
	lines := [][]string{append(append([]string{"median of the rounds"}, t.Engines...), t.Engines[0]+", to the best other")}
	for _, r := range t.Rows {
		cells, medians := []string{r.Label}, map[string]float64{}
		for _, e := range t.Engines {
			values, failed := t.values(e, r)
			cell := none
			switch {
			case len(values) > 0:
				medians[e] = measure.Median(values)
				cell = t.cell(r.Figure, values)
			case failed != "":
				cell = "failed"
			}
			cells = append(cells, cell)
		}
		if len(medians) > 0 {
			lines = append(lines, append(cells, t.ratio(r, medians)))
		}
	}
	_, err := io.WriteString(w, markdown(lines))
	return err
}

// cell writes the median and, if that is asked for, the least and the greatest value.
func (t *Table) cell(figure string, values []float64) string {
	c := format(figure, measure.Median(values))
	if t.Spread && len(values) > 1 {
		c += fmt.Sprintf(" (%s … %s)", format(figure, slices.Min(values)), format(figure, slices.Max(values)))
	}
	return c
}

// ratio tells how many times better the first engine is than the best of the others: below 1, it is worse.
func (t *Table) ratio(r Row, medians map[string]float64) string {
	own, ok := medians[t.Engines[0]]
	best, who := math.NaN(), ""
	for _, e := range t.Engines[1:] {
		if v, ok := medians[e]; ok && (who == "" || (v > best) == r.MoreIsBetter) {
			best, who = v, e
		}
	}
	if !ok || who == "" || own <= 0 || best <= 0 {
		return none
	}
	x := best / own
	if r.MoreIsBetter {
		x = own / best
	}
	return fmt.Sprintf("%s × (%s)", digits(x), who)
}

// Notes returns sentences on what went wrong and on what else the machine did, for below the table.
func (t *Table) Notes() []string {
	var notes []string
	var others []float64
	for _, r := range t.Results {
		if r.Error != "" {
			notes = append(notes, fmt.Sprintf("Round %d, %s, %s failed: %s", r.Round, r.Engine, r.Workload, r.Error))
		}
		if r.OthersPercent != nil {
			others = append(others, *r.OthersPercent)
		}
	}
	if len(others) > 0 {
		notes = append(notes, fmt.Sprintf("Other processes used %.0f %% of one core meanwhile (median of all workloads; at most "+
			"%.0f %%).", measure.Median(others), slices.Max(others)))
	}
	return notes
}

// Figure returns the median of a figure, formatted, over all engines that have it.
func (t *Table) Figure(workload, figure string) string {
	var values []float64
	for _, r := range t.Results {
		if v, ok := r.Figures[figure]; ok && r.Workload == workload {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return none
	}
	return format(figure, measure.Median(values))
}

// format writes a figure with the unit that its name ends with.
func format(figure string, v float64) string {
	switch {
	case strings.HasSuffix(figure, "PerS"):
		return digits(v) + "/s"
	case strings.HasSuffix(figure, "Ms"):
		return digits(v) + " ms"
	case strings.HasSuffix(figure, "Us"):
		return digits(v) + " µs"
	case strings.HasSuffix(figure, "Bytes"):
		return digits(v/(1<<20)) + " MiB"
	}
	return digits(v)
}

// digits writes a number with three digits, or whole with commas if it is larger.
func digits(v float64) string {
	abs := math.Abs(v)
	switch {
	case abs < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case abs < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	s := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// markdown writes a table whose first line is the head, its columns aligned.
func markdown(lines [][]string) string {
	widths := make([]int, len(lines[0]))
	for _, l := range lines {
		for i, c := range l {
			widths[i] = max(widths[i], len([]rune(c)))
		}
	}
	var b strings.Builder
	for n, l := range lines {
		for i, c := range l {
			fmt.Fprintf(&b, "| %s%s ", c, strings.Repeat(" ", widths[i]-len([]rune(c))))
		}
		b.WriteString("|\n")
		for _, w := range widths {
			if n == 0 {
				b.WriteString("|" + strings.Repeat("-", w+2))
			}
		}
		if n == 0 {
			b.WriteString("|\n")
		}
	}
	return b.String()
}
