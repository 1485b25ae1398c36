package page

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store"
)

const (
	// pageRows is how many rows of a timeline are shown at once: as many as a person reads, and a browser lays out
	// quickly.
	pageRows = 100
	// pageEntries is how many entries of a journal, lines of a log or chunks of output are shown at once.
	pageEntries = 200
	// tailLines is how many lines of the log are shown with a failure.
	tailLines = 8
	// fewestSleeps is how many consecutive sleeps are merged into one row.
	fewestSleeps = 3
)

// frame is the common part of all pages of one run: its head and its tabs.
type frame struct {
	Run  host.Run
	Tab  string
	Done string // what the visitor has just done
	// Iteration is the shown iteration, Iterations the number of iterations.
	Iteration, Iterations uint32
	Drawn                 bool // it is a run of a definition, whose graph can be drawn
	Attributes            []pair
	Memo                  *payload
}

type pair struct{ Key, Value string }

// runFrame reads a run.
func (v *visit) runFrame(tab string) (frame, error) {
	r, err := v.ns.Get(v.r.Context(), v.r.PathValue("id"))
	if err != nil {
		return frame{}, err
	}
	f := frame{Run: r, Tab: tab, Drawn: v.drawn(&r),
		Iteration: r.Iteration, Iterations: r.Iteration + 1, Memo: show("Memo", "", r.Memo)}
	if a, ok := actions[v.r.URL.Query().Get("done")]; ok {
		f.Done = a.Past
	}
	for k, value := range r.Attributes {
		f.Attributes = append(f.Attributes, pair{k, value})
	}
	slices.SortFunc(f.Attributes, func(a, b pair) int { return compare(a.Key, b.Key) })
	if text := v.r.URL.Query().Get("iteration"); text != "" {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil || n > uint64(r.Iteration) {
			return f, say(http.StatusBadRequest, "The iteration must be from 0 to %d, got %.40q.", r.Iteration, text)
		}
		f.Iteration = uint32(n)
		if f.Iteration < r.FirstIteration {
			return f, say(http.StatusNotFound, "The journal of iteration %d was removed by the retention. The first one that "+
				"is kept is %d.", n, r.FirstIteration)
		}
	}
	return f, nil
}

func compare(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

// Newest reports whether the newest iteration is shown.
func (f *frame) Newest() bool { return f.Iteration+1 == f.Iterations }

// Before returns the iteration before the shown one.
func (f *frame) Before() string { return strconv.Itoa(int(f.Iteration) - 1) }

// At returns the parameters that keep a link in the shown iteration.
func (f *frame) At() string {
	if f.Newest() {
		return ""
	}
	return strconv.Itoa(int(f.Iteration))
}

// runData is the page of a run.
type runData struct {
	frame
	Verdict *verdict
	Offers  []offer
	Shown   []shownRow
	Parts   []part
	Ticks   []tick
	Bands   []bar
	Knots   string // of the axis
	NowX    string // place of the present; empty for an ended run
	Rows    int
	Input   *payload
	Result  *payload
	Entries int
	Emitted int
}

// shownRow is a row with its bars.
type shownRow struct {
	*row
	Bars []bar
}

// part is a part of a long timeline, shown or folded.
type part struct {
	From, To int // numbers of its rows, from 1
	Shown    bool
	Failed   int
	Open     int
}

// run shows a run as a timeline.
func (v *visit) run() error {
	f, err := v.runFrame("timeline")
	if err != nil {
		return err
	}
	t, err := timelineOf(v.ns.JournalOf(v.r.Context(), f.Run.ID, f.Iteration, 0))
	if err != nil {
		return err
	}
	d := &runData{frame: f, Entries: t.Entries, Emitted: t.Emitted, Input: show("Input", "input", t.Input)}
	if f.Newest() {
		d.Verdict = judge(&f.Run, t, v.now)
		v.follow(d.Verdict)
		d.Offers = v.offers(&f.Run, t)
		if d.Verdict.Tone == "bad" {
			d.Verdict.Log, err = v.tail(f.Run.ID, tailLines)
			if err != nil {
				return err
			}
		}
	}
	if t.End != nil {
		label := "Result"
		if t.End.Kind == store.KindFailed {
			label = "Error"
		}
		d.Result = show(label, "data", t.End.Data)
	}
	d.lay(v, t)
	return v.write(http.StatusOK, "run", f.Run.ID, d)
}

// lay selects the rows to show, and places them on the axis.
func (d *runData) lay(v *visit, t *timeline) {
	rows := foldSleeps(t.Rows)
	d.Rows = len(rows)
	parts := max(1, (len(rows)+pageRows/2-1)/pageRows) // the last part has 0.5 to 1.5 times as many rows
	wanted := parts - 1                                // the last one
	if n, err := strconv.Atoi(v.r.URL.Query().Get("part")); err == nil && n >= 1 && n <= parts {
		wanted = n - 1
	} else if i := slices.IndexFunc(rows, func(r *row) bool { return r.State == open }); i >= 0 && d.Newest() {
		wanted = min(i/pageRows, parts-1)
	}
	var chosen []*row
	for i := range parts {
		from, to := i*pageRows, (i+1)*pageRows
		if i == parts-1 {
			to = len(rows)
		}
		p := part{From: from + 1, To: to, Shown: i == wanted}
		for _, r := range rows[from:to] {
			switch r.State {
			case failed:
				p.Failed++
			case open:
				p.Open++
			}
		}
		d.Parts = append(d.Parts, p)
		if p.Shown {
			chosen = rows[from:to]
		}
	}
	now := int64(0)
	if d.Newest() && !d.Run.Status.Terminal() {
		now = max(v.now.UnixMilli(), t.Last)
	}
	first, last := t.First, t.Last
	if parts > 1 && len(chosen) > 0 { // each part of a long timeline has its own axis
		first, last = chosen[0].Start, 0
		for _, r := range chosen {
			first, last = min(first, r.Start), max(last, r.End, r.Start)
			if r.State == open {
				last = max(last, now)
			}
		}
		if wanted != parts-1 && last < now {
			now = 0
		}
	}
	a := newAxis(chosen, first, last, now)
	for _, r := range chosen {
		d.Shown = append(d.Shown, shownRow{r, a.bars(r)})
	}
	d.Ticks, d.Bands, d.Knots = a.ticks(), a.bands(), a.knots()
	if now != 0 {
		d.NowX = percent(a.width)
	}
}

// foldSleeps merges consecutive sleeps that have ended into one row.
func foldSleeps(rows []*row) (list []*row) {
	quiet := func(r *row) bool { return r.Kind == "sleep" && r.State == done }
	for i := 0; i < len(rows); {
		n := 0
		for i+n < len(rows) && quiet(rows[i+n]) {
			n++
		}
		if n < fewestSleeps {
			list = append(list, rows[i:i+max(n, 1)]...)
			i += max(n, 1)
			continue
		}
		one := *rows[i]
		one.Count, one.Name, one.Note = n, "", fmt.Sprintf("%s … %s", rows[i].Label(), rows[i+n-1].Label())
		for _, r := range rows[i : i+n] {
			one.End = max(one.End, r.End)
		}
		list = append(list, &one)
		i += n
	}
	return list
}

// entryLine is one entry of a list.
type entryLine struct {
	Seq     uint64
	Time    time.Time
	Kind    string
	Name    string
	Target  string
	Attempt uint32
	Handle  int64
	Due     time.Time
	Text    string
	Refused string
	Class   string
}

func entryLineOf(e *host.Entry) entryLine {
	x := entryLine{Seq: uint64(e.Seq), Time: abi.TimeOf(e.UnixMs), Kind: e.Kind.String(), Name: e.Name, Target: line(e.Target, 80),
		Attempt: e.Attempt, Handle: e.Handle}
	if e.HasDue {
		x.Due = abi.TimeOf(e.DueUnixMs)
	}
	if e.Refused != 0 {
		x.Refused = abi.Code(e.Refused).String()
	}
	for _, b := range [][]byte{e.Input, e.Data} {
		if len(b) > 0 && e.Kind != store.KindBody {
			x.Text = line(string(b[:min(len(b), 400)]), 140)
		}
	}
	switch {
	case e.Kind == store.KindStepFailure, e.Kind == store.KindAttemptFailed, e.Kind == store.KindFailed,
		e.Kind == store.KindChildFailure:
		x.Class, x.Text = "bad", line(messageOf(e.Data), 300)
	case e.Kind.End():
		x.Class = "end"
	case e.Kind.Delivery():
		x.Class = "delivery"
	}
	return x
}

// listData is a page of a journal, a log or of output.
type listData struct {
	frame
	Entries []entryLine
	Lines   []logLine
	Chunks  []chunk
	From    uint64
	Total   uint64
	Earlier string // start of the previous page; empty on the first
	Later   string
	Topic   string
}

// bounds sets the range of a long list to show: from a given position, or the end.
func (v *visit) bounds(d *listData, total uint64) {
	d.Total = total
	if total > pageEntries {
		d.From = total - pageEntries
	}
	if from, err := strconv.ParseUint(v.r.URL.Query().Get("from"), 10, 64); err == nil {
		d.From = min(from, total)
	}
	if d.From > 0 {
		d.Earlier = strconv.FormatUint(d.From-min(d.From, pageEntries), 10)
	}
	if d.From+pageEntries < total {
		d.Later = strconv.FormatUint(d.From+pageEntries, 10)
	}
}

// journal shows the entries of a run.
func (v *visit) journal() error {
	f, err := v.runFrame("journal")
	if err != nil {
		return err
	}
	d := &listData{frame: f}
	total := f.Run.Entries
	if !f.Newest() { // the lengths of older iterations are not stored
		total = 0
		for _, err := range v.ns.JournalOf(v.r.Context(), f.Run.ID, f.Iteration, 0) {
			if err != nil {
				return err
			}
			total++
		}
	}
	v.bounds(d, total)
	for e, err := range v.ns.JournalOf(v.r.Context(), f.Run.ID, f.Iteration, store.Seq(d.From)) {
		if err != nil {
			return err
		}
		if len(d.Entries) == pageEntries {
			break
		}
		d.Entries = append(d.Entries, entryLineOf(&e))
	}
	return v.write(http.StatusOK, "journal", f.Run.ID+": journal", d)
}

// log shows the log of a run.
func (v *visit) log() error {
	f, err := v.runFrame("log")
	if err != nil {
		return err
	}
	d := &listData{frame: f}
	total, err := v.logLength(f.Run.ID)
	if err != nil {
		return err
	}
	v.bounds(d, total)
	lines, err := v.ns.Logs(v.r.Context(), f.Run.ID, d.From, pageEntries)
	if err != nil {
		return err
	}
	for i := range lines {
		d.Lines = append(d.Lines, logLineOf(&lines[i]))
	}
	return v.write(http.StatusOK, "log", f.Run.ID+": log", d)
}

// chunk is a piece of output.
type chunk struct {
	Index uint64
	Time  time.Time
	Topic string
	*payload
}

// output shows the output of a run.
func (v *visit) output() error {
	f, err := v.runFrame("output")
	if err != nil {
		return err
	}
	d := &listData{frame: f, Topic: v.r.URL.Query().Get("topic")}
	v.bounds(d, f.Run.Output)
	for c, err := range v.ns.Output(v.r.Context(), f.Run.ID, d.Topic, int64(d.From)) { //nolint:gosec // a run has fewer
		if err != nil {
			return err
		}
		if len(d.Chunks) == pageEntries {
			break
		}
		p := show("", "", c.Data)
		if p == nil {
			p = &payload{}
		}
		d.Chunks = append(d.Chunks, chunk{c.Index, abi.TimeOf(c.UnixMs), c.Topic, p})
	}
	return v.write(http.StatusOK, "output", f.Run.ID+": output", d)
}
