package page

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/wfhost/wfhost/abi"
)

// Widths on the axis, as shares of it.
const (
	foldWidth   = 0.05 // of an idle time of any duration
	futureWidth = 0.10 // of the future
	// foldShare is the share of the remaining time above which a gap is folded. Below it, a picture to scale shows
	// more.
	foldShare = 0.7
	// labelWidth is the approximate width of a label. Labels closer to another one are omitted.
	labelWidth = 0.13
	// maxFolds bounds the folds, which would otherwise fill the axis.
	maxFolds = 8
)

// axis maps instants to places. Long times in which the run only sleeps or waits are folded, so that its work is
// visible.
type axis struct {
	from, to int64
	folds    []fold // by time
	now      int64  // 0 if the run has ended
	scale    float64
	width    float64 // of from to to
}

type fold struct{ from, to int64 }

// newAxis returns an axis for rows. now is 0 for an ended run.
func newAxis(rows []*row, first, last, now int64) *axis {
	a := &axis{from: first, to: max(last, now, first+1), now: now, width: 1}
	if now != 0 {
		a.width = 1 - futureWidth
	}
	instants := []int64{a.from, a.to}
	type span struct{ from, to int64 }
	var busy []span
	for _, r := range rows {
		end := r.End
		if end == 0 {
			end = a.to
		}
		instants = append(instants, r.Start, end)
		if r.step && len(r.Tries) == 0 && r.State != open {
			busy = append(busy, span{r.Start, end})
		}
		for _, t := range r.Tries {
			if t.End != 0 {
				instants = append(instants, t.Start, t.End)
				busy = append(busy, span{t.Start, t.End})
			}
		}
	}
	slices.Sort(instants)
	slices.SortFunc(busy, func(x, y span) int { return cmp.Compare(x.from, y.from) })
	var gaps []fold
	reached, next := int64(0), 0 // reached is the latest end of the rows so far
	for i := 1; i < len(instants); i++ {
		x, y := max(instants[i-1], a.from), min(instants[i], a.to)
		for next < len(busy) && busy[next].from <= x {
			reached = max(reached, busy[next].to)
			next++
		}
		if y > x && reached <= x {
			gaps = append(gaps, fold{x, y})
		}
	}
	slices.SortFunc(gaps, func(x, y fold) int { return cmp.Compare(y.to-y.from, x.to-x.from) })
	rest := a.to - a.from
	for _, g := range gaps {
		if len(busy) == 0 || len(a.folds) == maxFolds || float64(g.to-g.from) < foldShare*float64(rest) || rest-(g.to-g.from) <= 0 {
			break
		}
		a.folds = append(a.folds, g)
		rest -= g.to - g.from
	}
	slices.SortFunc(a.folds, func(x, y fold) int { return cmp.Compare(x.from, y.from) })
	a.scale = (a.width - float64(len(a.folds))*foldWidth) / float64(max(rest, 1))
	return a
}

// at returns the place of an instant, from 0 to 1.
func (a *axis) at(ms int64) float64 {
	ms = min(max(ms, a.from), a.to)
	place, from := 0.0, a.from
	for _, f := range a.folds {
		if ms <= f.from {
			break
		}
		place += float64(f.from-from) * a.scale
		if ms < f.to {
			return place + foldWidth*float64(ms-f.from)/float64(f.to-f.from)
		}
		place, from = place+foldWidth, f.to
	}
	return place + float64(ms-from)*a.scale
}

// bar is a part of a row on the axis. Places are percentages for SVG.
type bar struct {
	Class string
	X, W  string
	Title string
}

func percent(x float64) string { return fmt.Sprintf("%.3f%%", 100*x) }

// leastBar is the minimum visible width.
const leastBar = 0.004

func (a *axis) bar(class string, from, to int64, title string) bar {
	x, y := a.at(from), a.at(to)
	w := max(y-x, leastBar)
	return bar{class, percent(min(x, 1-w)), percent(w), title}
}

// bars returns the bars of a row.
func (a *axis) bars(r *row) (list []bar) {
	end := r.End
	if end == 0 {
		end = a.to
	}
	switch {
	case r.State == happened || r.Kind != "clock" && r.End != 0 && r.End == r.Start && len(r.Tries) == 0:
		return []bar{a.bar("dot "+string(r.State), r.Start, r.Start, r.Kind)}
	case r.step && len(r.Tries) > 0:
		from := r.Start
		var tries []bar // drawn over the pauses, which would hide short attempts
		for _, t := range r.Tries {
			if t.Start > from {
				list = append(list, a.bar("pause", from, t.Start, "waits for "+humane(abi.Duration(t.Start-from))))
			}
			class, to := "ok", t.End
			if t.Error != "" {
				class = "bad"
			}
			if t.End == 0 {
				class, to = "open", a.to
			}
			title := fmt.Sprintf("attempt %d: %s %s", t.N, humane(abi.Duration(to-t.Start)), line(t.Error, 80))
			tries = append(tries, a.bar(class, t.Start, to, title))
			from = to
		}
		if r.State == open && from < a.to {
			list = append(list, a.bar("pause", from, a.to, "waits for the next attempt"))
		}
		list = append(list, tries...)
	default:
		class := string(r.State)
		if !r.step {
			class += " rest"
		}
		list = append(list, a.bar(class, r.Start, end, r.Duration()))
	}
	if r.State == open && a.now != 0 { // the future
		list = append(list, bar{"future", percent(a.width), percent(1 - a.width), ""})
	}
	return list
}

// tick is a label of the axis.
type tick struct {
	X, Anchor, Text string
	Fold            bool
}

// ticks returns the labels: the beginning, the folds, and now or the end.
func (a *axis) ticks() (list []tick) {
	total, end := humane(time.Duration(a.to-a.from)*time.Millisecond), tick{"100%", "end", "", false}
	end.Text = total
	if a.now != 0 {
		end.X, end.Text = percent(a.width), "now, after "+total
	}
	free := labelWidth / 2
	for _, f := range a.folds {
		x := a.at((f.from + f.to) / 2)
		t := tick{percent(x), "middle", "⋯ " + humane(abi.Duration(f.to-f.from)) + " ⋯", true}
		if len(list) == 0 && x < labelWidth { // in place of the beginning
			t.X, t.Anchor = "0%", "start"
		} else if x < free || x > a.width-2*labelWidth {
			continue
		}
		free = x + labelWidth
		list = append(list, t)
	}
	if len(list) == 0 || list[0].X != "0%" {
		list = append([]tick{{"0%", "start", "0", false}}, list...)
	}
	return append(list, end)
}

// knots returns the points between which the axis is linear, as "place instant" pairs separated by blanks, for the
// script that zooms.
func (a *axis) knots() string {
	text := fmt.Sprintf("0 %d", a.from)
	for _, f := range a.folds {
		text += fmt.Sprintf(" %.5f %d %.5f %d", a.at(f.from), f.from, a.at(f.to), f.to)
	}
	return text + fmt.Sprintf(" %.5f %d", a.width, a.to)
}

// bands returns the bands of the folds.
func (a *axis) bands() (list []bar) {
	for _, f := range a.folds {
		list = append(list, a.bar("fold", f.from, f.to, humane(abi.Duration(f.to-f.from))+" in which nothing was done"))
	}
	return list
}
